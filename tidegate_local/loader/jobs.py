"""Applications of EMR Serverless."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidegate_local.loader.loading import Created, Loading, Properties, creates, taken

if TYPE_CHECKING:
    from types_boto3_emr_serverless.type_defs import ConfigurationTypeDef


@creates("AWS::EMRServerless::Application")
def application(loading: Loading, logical: str, properties: Properties) -> Created:
    name = properties.pop("Name", None) or loading.generated_name(logical)
    said = taken(properties, "ReleaseLabel", "Type", "Architecture", "RuntimeConfiguration")
    settings = [_lower(each) for each in said.get("RuntimeConfiguration", [])]
    present = {each["name"]: each for each in loading.jobs.list_applications()["applications"]}
    if name in present:
        identifier, arn = present[name]["id"], present[name]["arn"]
        loading.jobs.update_application(
            applicationId=identifier,
            releaseLabel=said["ReleaseLabel"],
            runtimeConfiguration=settings,
            clientToken=uuid.uuid4().hex,
        )
    else:
        answer = loading.jobs.create_application(
            name=name,
            releaseLabel=said["ReleaseLabel"],
            type=said["Type"],
            architecture=said.get("Architecture", "X86_64"),
            clientToken=hashlib.sha256(name.encode()).hexdigest(),
            runtimeConfiguration=settings,
        )
        identifier, arn = answer["applicationId"], answer["arn"]
    return Created(identifier, {"ApplicationId": identifier, "Arn": arn})


def _lower(configuration: Mapping[str, Any]) -> ConfigurationTypeDef:
    """A `ConfigurationObject` with the API's names; the names of the settings in it stay as they are."""
    answer: ConfigurationTypeDef = {"classification": configuration["Classification"]}
    if "Properties" in configuration:
        answer["properties"] = configuration["Properties"]
    if "Configurations" in configuration:
        answer["configurations"] = [_lower(each) for each in configuration["Configurations"]]
    return answer
