"""The checks: what they ask, and what they make of the answers."""

from collections.abc import Iterator

from tidegate.cli.account import access, buckets
from tidegate.cli.account.ask import (
    Absent,
    Account,
    Answer,
    Denied,
    Examined,
    Found,
    Unanswered,
    cannot_tell,
    fails,
    fine,
    warns,
)
from tidegate.cli.checks import Check, CheckState
from tidegate.cli.exits import Exit
from tidegate.core.records import ROUTES
from tidegate.core.routes import decode_route, encode_route
from tidegate.environment import variables
from tidegate.settings import Settings
from tidegate.wiring import Resources

DEPLOY = "deploy the stack again"
LOST = "check the outputs. If its table was deleted: docs/operations.md, `A lost ledger`; no backup takes its place"

VCPU_QUOTA = ("emr-serverless", "L-D05C8A75")
""""Max concurrent vCPUs per account"
(https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/endpoints-quotas.html)."""

BOOTSTRAP = "/cdk-bootstrap/hnb659fds/version"
"""The parameter that `cdk bootstrap` leaves; the middle is the CDK's own qualifier, which the app does not change
(https://docs.aws.amazon.com/cdk/v2/guide/bootstrapping-env.html)."""
OLDEST_BOOTSTRAP = 6
"""The version that the CDK's default synthesizer needs: since then a role finds the bucket of assets."""


def examine(settings: Settings, resources: Resources | None, account: Account) -> Iterator[Check]:
    """Every line, in the order in which to repair things. The first may be the only one. `resources` are the outputs of
    a deployment, if one was named. Else they are read from the stack, if it is deployed."""
    who = account.ask("sts", "get_caller_identity")
    yield credentials(account.region, who)
    if not isinstance(who, Found) or account.region is None:
        return
    owner, region = str(who.body["Account"]), account.region
    if resources is not None:
        yield belongs(resources, settings.deployment.name, owner, region)
    yield bootstrapped(account.ask("ssm", "get_parameter", Name=BOOTSTRAP), owner, region)
    name = resources.deployment if resources else settings.deployment.name
    stack = account.ask("cloudformation", "describe_stacks", StackName=name)
    yield stack_line(name, stack, expected=resources is not None)
    here = Examined(settings, account, owner, region, name, resources or outputs_of(name, stack))
    for check in (configuration, buckets.checks, access.key, access.catalog, emr, access.subnets):
        yield from check(here)


def credentials(region: str | None, who: Answer) -> Check:
    if region is None:
        advice = "set AWS_DEFAULT_REGION, or choose a profile"
        return Check("credentials", CheckState.FAIL, "this shell has no region", advice, Exit.USAGE)
    if isinstance(who, Found):
        return fine("credentials", f"{who.body['Arn']}, in {region}")
    why = who.reason if isinstance(who, Unanswered) else "the call was denied"
    finding = f"cannot tell whose credentials these are: {why}"
    advice = "set credentials of the account, or choose a profile"
    return Check("credentials", CheckState.FAIL, finding, advice, Exit.NO_STACK)


def belongs(resources: Resources, configured: str, owner: str, region: str) -> Check:
    """Whether the deployment that was named is the configured one, and in this account and region."""
    there = resources.topic.split(":")[3] if resources.topic.count(":") > 3 else region
    if resources.deployment != configured:
        finding = f"the outputs are of {resources.deployment}, and the configuration is of {configured}"
        advice = "give the --config that was deployed, or other outputs"
    elif (resources.account or owner, there) != (owner, region):
        finding = f"{resources.deployment} is in {resources.account}, {there}; you are in {owner}, {region}"
        advice = "choose the deployment's account and region, or other outputs; the other lines are about where you are"
    else:
        return fine("deployment", f"{resources.deployment}, in {owner}, {region}")
    return Check("deployment", CheckState.FAIL, finding, advice, Exit.USAGE)


def bootstrapped(answer: Answer, owner: str, region: str) -> Check:
    line = "cdk bootstrap"
    advice = f"run `npx cdk bootstrap aws://{owner}/{region}`"
    if isinstance(answer, Absent):
        return fails(line, f"{owner} has none in {region}", advice)
    if not isinstance(answer, Found):
        return cannot_tell(line, "whether it was run", answer)
    version = int(answer.body["Parameter"]["Value"])
    if version < OLDEST_BOOTSTRAP:
        return fails(line, f"version {version}, and the CDK needs {OLDEST_BOOTSTRAP}", advice)
    return fine(line, f"version {version}")


def stack_line(name: str, answer: Answer, *, expected: bool) -> Check:
    """The stack as a whole; `expected` if its outputs were given."""
    line = f"stack {name}"
    if isinstance(answer, Absent):
        if expected:
            return fails(line, "does not exist, although its outputs do", f"check the outputs, or {DEPLOY}")
        return fine(line, "not deployed yet")
    if not isinstance(answer, Found):
        return cannot_tell(line, "whether it is deployed", answer)
    (found,) = answer.body["Stacks"]
    status = str(found["StackStatus"])
    if status in ("CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE"):
        return fine(line, status)
    if status.endswith("_IN_PROGRESS"):
        return warns(line, status, "wait until it has ended, and check again")
    reason = found.get("StackStatusReason", "")
    finding = f"{status}: {reason}" if reason else status
    if status in ("UPDATE_ROLLBACK_COMPLETE", "IMPORT_ROLLBACK_COMPLETE"):
        return warns(line, finding, "the last change was rolled back: read the stack's events and deploy again")
    return fails(line, finding, "read the stack's events in CloudFormation, then deploy or delete it")


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


def configuration(here: Examined) -> Iterator[Check]:
    """Whether the routes that the stack runs by are those of `tidegate.toml`. Settling writes them into the ledger."""
    if here.resources is None:
        return
    line = "configuration"
    answer = here.account.ask_all(
        "dynamodb",
        "query",
        TableName=here.resources.ledger,
        KeyConditionExpression="pk = :pk",
        ExpressionAttributeValues={":pk": {"S": ROUTES}},
    )
    if isinstance(answer, Absent):
        yield fails(line, f"there is no ledger {here.resources.ledger}", LOST)
        return
    if not isinstance(answer, Found):
        yield cannot_tell(line, "whether the stack runs by it", answer)
        return
    deployed = {each["sk"]["S"]: each["settings"]["S"] for each in answer.body.get("Items", ())}
    configured = here.settings.core_routes()
    if others := [route.name for route in configured if deployed.get(route.name) != encode_route(route)]:
        finding = f"the stack does not run by what tidegate.toml says of {', '.join(others)}"
        advice = "`npx cdk diff` shows what would change: deploy. After a deployment it takes a minute"
        yield warns(line, finding, advice)
    elif left_out := sorted(
        name
        for name in deployed.keys() - {route.name for route in configured}
        if not decode_route(deployed[name]).retired
    ):
        finding = f"the stack has routes that this tidegate.toml lacks: {', '.join(left_out)}"
        advice = (
            "is this the deployed file? If they were removed on purpose, nothing is to be done; else deploy with them"
        )
        yield warns(line, finding, advice)
    else:
        yield fine(line, "the stack runs by the routes of tidegate.toml")


def emr(here: Examined) -> Iterator[Check]:
    """Before the deployment, whether the region has the service; and the quota of its workers."""
    if here.resources is None:
        yield emr_in(here.region, here.account.ask("emr-serverless", "list_applications", maxResults=1))
    service, code = VCPU_QUOTA
    applied = here.account.ask("service-quotas", "get_service_quota", ServiceCode=service, QuotaCode=code)
    yield vcpu(here.settings.limits.vcpu, applied)


def emr_in(region: str, answer: Answer) -> Check:
    line = "emr"
    match answer:
        case Found():
            return fine(line, f"answers in {region}")
        case Unanswered(reason):
            where = "https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/endpoints-quotas.html"
            return fails(line, f"does not answer in {region}: {reason}", f"deploy to a region that has it: {where}")
        case _:
            # only a service that is there can deny a call
            return cannot_tell(line, f"whether it can be used; it answers in {region}", answer)


def vcpu(wanted: int, applied: Answer) -> Check:
    """For some quotas Service Quotas reports the default only, and a new account may have less
    (https://docs.aws.amazon.com/servicequotas/2019-06-24/apireference/API_GetServiceQuota.html)."""
    line = "emr quota"
    match applied:
        case Found(body):
            quota = int(body["Quota"]["Value"])
            has = f"{quota} vCPU at once, and [limits] vcpu is {wanted}"
            if quota < wanted:
                return fails(line, f"{has}: a job fails as it grows", f"have {VCPU_QUOTA[1]} raised, or lower `vcpu`")
            return fine(line, has)
        case Absent():
            advice = f"look up the quota {VCPU_QUOTA[1]} in the console: a new account may have 16"
            return warns(line, f"AWS does not report this account's own, and [limits] vcpu is {wanted}", advice)
        case Denied() | Unanswered():
            return cannot_tell(line, "how many vCPU EMR Serverless may use at once", applied)
