"""Applications of EMR Serverless."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidegate_local.loader.kinds import Created, Properties, creates
from tidegate_local.loader.loading import Loading

if TYPE_CHECKING:
    from types_boto3_emr_serverless.type_defs import ConfigurationTypeDef


@creates(
    "AWS::EMRServerless::Application",
    ignored={
        "AutoStartConfiguration": "the application is always started here",
        "AutoStopConfiguration": "the application is always started here",
        "InitialCapacity": "jobs run on this machine",
        "MaximumCapacity": "jobs run on this machine",
        "MonitoringConfiguration": "logs are files here",
        "NetworkConfiguration": "jobs run on this machine",
        "SchedulerConfiguration": "how many jobs run at once is the endpoint's own setting here",
        "Tags": "nobody looks for them here",
    },
)
def application(loading: Loading, logical: str, properties: Properties) -> Created:
    name = properties.pop("Name", None) or loading.generated_name(logical)
    present = {each["name"]: each for each in loading.jobs.list_applications()["applications"]}
    if name in present:
        identifier, arn = present[name]["id"], present[name]["arn"]
        loading.jobs.update_application(
            applicationId=identifier,
            releaseLabel=properties["ReleaseLabel"],
            runtimeConfiguration=[_lower(each) for each in properties.get("RuntimeConfiguration", [])],
            clientToken=uuid.uuid4().hex,
        )
    else:
        answer = loading.jobs.create_application(
            name=name,
            releaseLabel=properties["ReleaseLabel"],
            type=properties["Type"],
            architecture=properties.get("Architecture", "X86_64"),
            clientToken=hashlib.sha256(name.encode()).hexdigest(),
            runtimeConfiguration=[_lower(each) for each in properties.get("RuntimeConfiguration", [])],
        )
        identifier, arn = answer["applicationId"], answer["arn"]
    for applied in ("ReleaseLabel", "Type", "Architecture", "RuntimeConfiguration"):
        properties.pop(applied, None)
    return Created(identifier, {"ApplicationId": identifier, "Arn": arn})


def _lower(configuration: Mapping[str, Any]) -> ConfigurationTypeDef:
    """A `ConfigurationObject` with the API's names; the names of the settings in it stay as they are."""
    answer: ConfigurationTypeDef = {"classification": configuration["Classification"]}
    if "Properties" in configuration:
        answer["properties"] = configuration["Properties"]
    if "Configurations" in configuration:
        answer["configurations"] = [_lower(each) for each in configuration["Configurations"]]
    return answer
