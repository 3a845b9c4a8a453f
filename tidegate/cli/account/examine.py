"""Which calls are made, in which order, and which function judges the answers."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from tidegate.aws.bus import DEFAULT
from tidegate.cli.account import buckets, catalog, parts, quotas, roles, sources
from tidegate.cli.account.ask import Absent, Account, Answer, Denied, Found, Unanswered, cannot_tell, fails
from tidegate.cli.checks import Check, CheckState
from tidegate.cli.exits import Exit
from tidegate.core import inventories
from tidegate.core.audit import LISTING
from tidegate.core.lineage import SCHEME
from tidegate.environment import variables
from tidegate.settings import RouteSettings, Settings
from tidegate.wiring import Resources


@dataclass(frozen=True, slots=True)
class AccountRegion:
    """Where the deployment is, or will be."""

    account: str
    region: str


def examine(settings: Settings, resources: Resources | None, account: Account) -> Iterator[Check]:
    """Every line, in the order in which to repair things. The first may be the only one. `resources` are the outputs of
    a deployment, if one was named. Else they are read from the stack, if it is deployed."""
    who = account.ask("sts", "get_caller_identity")
    place = whereabouts(account.region, who)
    if isinstance(place, Check):
        yield place
        return
    assert isinstance(who, Found)
    yield Check("credentials", CheckState.OK, f"{who.body['Arn']}, in {place.region}")
    if resources is not None:
        yield belongs(resources, settings.deployment.name, place)
    yield emr_in(place.region, account.ask("emr-serverless", "list_applications", maxResults=1))
    yield quotas.bootstrap(account.ask("ssm", "get_parameter", Name=quotas.BOOTSTRAP), place.account, place.region)
    name = resources.deployment if resources else settings.deployment.name
    members = account.ask_all("cloudformation", "list_stack_resources", StackName=name)
    stack = account.ask("cloudformation", "describe_stacks", StackName=name)
    yield parts.stack(name, stack, expected=resources is not None)
    resources = resources or outputs_of(name, stack)
    yield from _quotas(settings, members, account)
    if settings.catalog.type == "glue":
        yield from _catalog(settings, resources, account)
    yield from _table_buckets(settings, place, account)
    arns = _queues(resources, account) if resources else {}
    yield from _buckets(settings, place, name, members, arns.get("buffer"), account)
    yield from _sources(settings, place, account)
    if resources is not None:
        yield from _parts(resources, members, arns, account)
        yield from _roles(settings, resources, place, members, account)


def whereabouts(region: str | None, who: Answer) -> AccountRegion | Check:
    """Account and region; or, if no call is possible, the line with the reason."""
    if region is None:
        return Check(
            "region",
            CheckState.FAIL,
            "this shell has no region",
            "set AWS_DEFAULT_REGION, or choose a profile",
            Exit.USAGE,
        )
    match who:
        case Found(body):
            return AccountRegion(body["Account"], region)
        case Unanswered(reason):
            finding = f"cannot tell whose credentials these are: {reason}"
        case _:
            finding = "cannot tell whose credentials these are: the call was denied"
    return Check(
        "credentials", CheckState.FAIL, finding, "set credentials of the account, or choose a profile", Exit.NO_STACK
    )


def belongs(resources: Resources, configured: str, place: AccountRegion) -> Check:
    """Whether the deployment that was named is the configured one, and in this account and region."""
    if resources.deployment != configured:
        return Check(
            "deployment",
            CheckState.FAIL,
            f"the outputs are of {resources.deployment}, and the configuration is of {configured}",
            "give the --config that was deployed, or other outputs",
            Exit.USAGE,
        )
    region = resources.topic.split(":")[3] if resources.topic.count(":") > 3 else place.region
    if (resources.account or place.account, region) == (place.account, place.region):
        return Check("deployment", CheckState.OK, f"{resources.deployment}, in {place.account}, {place.region}")
    return Check(
        "deployment",
        CheckState.FAIL,
        f"{resources.deployment} is in {resources.account}, {region}; you are in {place.account}, {place.region}",
        "choose the deployment's account and region, or other outputs; the other lines are about where you are",
        Exit.USAGE,
    )


def outputs_of(name: str, stack: Answer) -> Resources | None:
    """The deployment that a stack's outputs describe; None if it is not of this version, or not there."""
    if not isinstance(stack, Found):
        return None
    (found,) = stack.body["Stacks"]
    outputs = {each["OutputKey"]: each["OutputValue"] for each in found.get("Outputs", ())}
    try:
        return Resources.from_environment(variables(name, outputs))
    except KeyError:
        return None


def emr_in(region: str, answer: Answer) -> Check:
    line = "emr serverless"
    match answer:
        case Found():
            return Check(line, CheckState.OK, f"answers in {region}")
        case Denied():
            # only a service that is there can deny a call
            return cannot_tell(line, f"whether it can be used; it answers in {region}", answer)
        case Unanswered(reason):
            return fails(
                line,
                f"does not answer in {region}: {reason}",
                "deploy to a region that has it:"
                " https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/endpoints-quotas.html",
            )
    return cannot_tell(line, f"whether {region} has it", answer)


def _quotas(settings: Settings, members: Answer, account: Account) -> Iterator[Check]:
    service, code = quotas.VCPU_QUOTA
    reserved = _reserved(members, account) if settings.limits.reserve_concurrency else 0
    yield quotas.invocations(settings, account.ask("lambda", "get_account_settings"), reserved)
    applied = account.ask("service-quotas", "get_service_quota", ServiceCode=service, QuotaCode=code)
    default: Answer = Absent()
    if isinstance(applied, Absent):
        default = account.ask("service-quotas", "get_aws_default_service_quota", ServiceCode=service, QuotaCode=code)
    yield quotas.vcpu(settings.limits, applied, default)


def _reserved(members: Answer, account: Account) -> int | Denied | Unanswered:
    """The concurrency that the functions of the stack have reserved already."""
    if isinstance(members, Denied | Unanswered):
        return members
    reserved = 0
    for each in _members(members, "AWS::Lambda::Function"):
        answer = account.ask("lambda", "get_function_concurrency", FunctionName=each["PhysicalResourceId"])
        if isinstance(answer, Denied | Unanswered):
            return answer
        if isinstance(answer, Found):
            reserved += int(answer.body.get("ReservedConcurrentExecutions", 0))
    return reserved


def _catalog(settings: Settings, resources: Resources | None, account: Account) -> Iterator[Check]:
    role = resources.job_role if resources else ""
    yield catalog.defaults(account.ask("lakeformation", "get_data_lake_settings"), role)
    for name in sorted({route.table.split(".")[1] for route in settings.routes}):
        there = account.ask("glue", "get_database", Name=name)
        granted: Answer = Absent()
        if isinstance(there, Found):
            granted = _granted(name, account)
        line = catalog.database(name, there, granted, role)
        if line is not None:
            yield line


def _table_buckets(settings: Settings, place: AccountRegion, account: Account) -> Iterator[Check]:
    """Those of the catalog, and of S3 Metadata, if an audit reads that."""
    buckets: dict[tuple[str, str], str] = {}
    if settings.catalog.arn is not None:
        _, _, _, region, owner, name = settings.catalog.arn.split(":")
        buckets[owner, name.removeprefix("bucket/")] = region
    if any(route.audit_from.startswith("s3-metadata") and not route.retired for route in settings.routes):
        buckets[place.account, "aws-s3"] = place.region
    for (owner, name), region in buckets.items():
        answer = account.ask("glue", "get_catalog", CatalogId=f"{owner}:s3tablescatalog/{name}")
        yield catalog.federated(name, region, place.region, answer)


def _granted(database: str, account: Account) -> Answer:
    """Everything that Lake Formation grants on a database; boto3 has no paginator for it."""
    found: list[Any] = []
    more: dict[str, str] = {}
    while True:
        answer = account.ask("lakeformation", "list_permissions", Resource={"Database": {"Name": database}}, **more)
        if not isinstance(answer, Found):
            return answer
        found += answer.body.get("PrincipalResourcePermissions", ())
        if not answer.body.get("NextToken"):
            return Found({"PrincipalResourcePermissions": found})
        more = {"NextToken": answer.body["NextToken"]}


def _buckets(
    settings: Settings, place: AccountRegion, stack: str, members: Answer, buffer: Answer | None, account: Account
) -> Iterator[Check]:
    """`buffer` holds the ARN of the deployment's buffer; None without a deployment."""
    by_bucket = sorted(settings.routes, key=lambda route: route.bucket)
    for name, group in groupby(by_bucket, key=lambda route: route.bucket):
        routes = [*group]
        first = routes[0]
        owner = first.bucket_owner or place.account
        held = _held(name, owner, place, account)
        if first.existing:
            line = buckets.existing(name, held, place.region, owner)
        else:
            line = buckets.created(name, held, place.region, stack, members)
        yield line
        # a bucket that is missing or wrong has no versions or notifications to check
        if line.state is CheckState.FAIL or (isinstance(held, buckets.Held) and held.whose is buckets.Whose.NOBODYS):
            continue
        owned = {"Bucket": name, "ExpectedBucketOwner": owner}
        yield buckets.versions(name, first.versioned, account.ask("s3", "get_bucket_versioning", **owned))
        notified = account.ask("s3", "get_bucket_notification_configuration", **owned)
        yield from _notified(name, routes, notified, buffer)


def _notified(name: str, routes: Sequence[RouteSettings], notified: Answer, buffer: Answer | None) -> Iterator[Check]:
    match buffer:
        case Found(body):
            yield buckets.in_place(name, routes, notified, body["Attributes"]["QueueArn"])
        case None:
            if routes[0].existing:
                yield buckets.room(name, routes, notified)
        case silence:
            yield cannot_tell(f"notifications of {name}", "whether they go to the buffer", silence)


def _held(name: str, owner: str, place: AccountRegion, account: Account) -> buckets.Held | Denied | Unanswered:
    plain = account.ask("s3", "head_bucket", Bucket=name)
    as_owner: Answer = Absent()
    own: Answer = Absent()
    if not isinstance(plain, Absent):
        as_owner = account.ask("s3", "head_bucket", Bucket=name, ExpectedBucketOwner=owner)
    if isinstance(plain, Denied) and isinstance(as_owner, Denied) and owner == place.account:
        own = account.ask_all("s3", "list_buckets", Prefix=name)
    return buckets.held(plain, as_owner, own, name)


def _sources(settings: Settings, place: AccountRegion, account: Account) -> Iterator[Check]:
    bus = settings.announce.bus
    if bus not in ("", DEFAULT):
        yield sources.bus(bus, account.ask("events", "describe_event_bus", Name=bus))
    for route in settings.core_routes():
        if route.retired or route.audit_from == LISTING:
            continue
        owned = {"Bucket": route.bucket, "ExpectedBucketOwner": place.account}
        if not route.audit_from.startswith(SCHEME):
            answer = account.ask("s3", "get_bucket_metadata_configuration", **owned)
            yield sources.metadata(route.name, route.audit_from, route.bucket, answer)
            continue
        owned["Bucket"], prefix = inventories.place_of(route.audit_from)
        now = int(time.time())
        listed = {"Prefix": f"{prefix}/", "Delimiter": "/", "StartAfter": f"{prefix}/{inventories.oldest_name(now)}"}
        yield sources.inventory(
            route.name, route.audit_from, account.ask_all("s3", "list_objects_v2", **owned, **listed), now
        )


def _roles(
    settings: Settings, resources: Resources, place: AccountRegion, members: Answer, account: Account
) -> Iterator[Check]:
    """What a role needs, and its code does without."""
    yield roles.may(
        "dispatch",
        "dynamodb:PartiQLInsert",
        "claims are put one by one, which takes ten times as long",
        _simulated(
            _role_of("Dispatch", members, account),
            "dynamodb:PartiQLInsert",
            _arn(resources, f"dynamodb:{place.region}:{place.account}:table/{resources.ledger}"),
            account,
        ),
    )
    if settings.linger:
        yield roles.may(
            "jobs",
            "events:PutEvents",
            "a batch that rides in a job is settled by the minute, and not as soon as it is decided",
            _simulated(
                resources.job_role,
                "events:PutEvents",
                _arn(resources, f"events:{place.region}:{place.account}:event-bus/{DEFAULT}"),
                account,
            ),
        )


def _arn(resources: Resources, rest: str) -> str:
    """In the partition of the deployment, such as aws-cn."""
    return f"arn:{resources.job_role.split(':')[1]}:{rest}"


def _role_of(construct: str, members: Answer, account: Account) -> str | Answer:
    """The ARN of a function's role; or what stands in for it, if it cannot be told."""
    if not isinstance(members, Found):
        return members
    names = [
        each["PhysicalResourceId"]
        for each in _members(members, "AWS::Lambda::Function")
        if each["LogicalResourceId"].startswith(construct)
    ]
    if len(names) != 1:
        return Absent()
    answer = account.ask("lambda", "get_function_configuration", FunctionName=names[0])
    return str(answer.body["Role"]) if isinstance(answer, Found) else answer


def _simulated(role: str | Answer, action: str, resource: str, account: Account) -> Answer:
    if not isinstance(role, str):
        return role
    return account.ask(
        "iam", "simulate_principal_policy", PolicySourceArn=role, ActionNames=[action], ResourceArns=[resource]
    )


def _queues(resources: Resources, account: Account) -> dict[str, Answer]:
    """SQS's answer for each queue."""
    urls = {
        "buffer": resources.buffer,
        "buffer dead letters": resources.dead_letters,
        "notices": resources.notices,
        "notices dead letters": resources.notices_dead_letters,
    }
    return {
        name: account.ask("sqs", "get_queue_attributes", QueueUrl=url, AttributeNames=["All"])
        for name, url in urls.items()
    }


def _parts(resources: Resources, members: Answer, queues: Mapping[str, Answer], account: Account) -> Iterator[Check]:
    for function, name in (("intake", "buffer"), ("dispatch", "notices")):
        yield _source(function, queues[name], account)
    found = _members(members, "AWS::Events::Rule")
    if isinstance(members, Found):
        yield from parts.rules(
            found,
            {each["PhysicalResourceId"]: account.ask("events", "describe_rule", Name=_rule(each)) for each in found},
        )
    else:
        yield cannot_tell("rules", "whether settle's schedule is switched on", members)
    for name, answer in queues.items():
        yield parts.dead_letters(name, answer) if name.endswith("dead letters") else parts.queue(name, answer)
    table = {"TableName": resources.ledger}
    yield from parts.ledger(
        account.ask("dynamodb", "describe_table", **table),
        account.ask("dynamodb", "describe_time_to_live", **table),
        account.ask("dynamodb", "describe_continuous_backups", **table),
    )
    yield _subscription(resources, queues["notices"], account)
    answer = account.ask("emr-serverless", "get_application", applicationId=resources.application)
    yield parts.application(resources.application, answer)


def _source(function: str, queue: Answer, account: Account) -> Check:
    if not isinstance(queue, Found):
        return cannot_tell(f"source of {function}", "whether Lambda reads its queue", queue)
    arn = queue.body["Attributes"]["QueueArn"]
    return parts.source(function, arn, account.ask_all("lambda", "list_event_source_mappings", EventSourceArn=arn))


def _subscription(resources: Resources, queue: Answer, account: Account) -> Check:
    if not isinstance(queue, Found):
        return cannot_tell("subscription", "whether the topic delivers to the queue of notices", queue)
    answer = account.ask_all("sns", "list_subscriptions_by_topic", TopicArn=resources.topic)
    return parts.subscription(queue.body["Attributes"]["QueueArn"], answer)


def _members(members: Answer, kind: str) -> list[dict[str, Any]]:
    """The resources of one type that the stack has, as CloudFormation lists them."""
    if not isinstance(members, Found):
        return []
    return [
        each
        for each in members.body.get("StackResourceSummaries", ())
        if each.get("ResourceType") == kind and each.get("PhysicalResourceId")
    ]


def _rule(member: Mapping[str, Any]) -> str:
    """A rule's name. Its id in CloudFormation is the name, or bus|name if the rule is on a bus of its own."""
    return str(member["PhysicalResourceId"]).rpartition("|")[2]
