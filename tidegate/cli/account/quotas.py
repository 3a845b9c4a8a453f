"""Judgements about the account's quotas, and about `cdk bootstrap`."""

from tidegate.cli.account.ask import Absent, Answer, Denied, Found, Unanswered, cannot_tell, fails
from tidegate.cli.checks import Check, CheckState
from tidegate.settings import LimitSettings, Settings
from tidegate.settings.fixed import CONCURRENCY

OTHERS_AT_ONCE = 4
"""Invocations of the other functions that may run at once: settle by its schedule and when a job ends, audit,
maintain."""

LEFT_FOR_OTHERS = 100
"""The concurrency that Lambda keeps unreserved (https://docs.aws.amazon.com/lambda/latest/dg/configuration-concurrency.html)."""
SMALL_ACCOUNT = 10
"""The concurrency of a new account, all of which Lambda keeps unreserved."""

VCPU_QUOTA = ("emr-serverless", "L-D05C8A75")
""""Max concurrent vCPUs per account"
(https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/endpoints-quotas.html)."""

BOOTSTRAP = "/cdk-bootstrap/hnb659fds/version"
"""The parameter that `cdk bootstrap` leaves; the middle is the CDK's own qualifier, which the app does not change
(https://docs.aws.amazon.com/cdk/v2/guide/bootstrapping-env.html)."""
OLDEST_BOOTSTRAP = 6
"""The version that the CDK's default synthesizer needs: since then a role finds the bucket of assets."""


def invocations(settings: Settings, answer: Answer, reserved: int | Denied | Unanswered) -> Check:
    """Lambda's concurrency. `reserved` is what the deployment's functions have reserved already, if known."""
    line = "lambda quota"
    if not isinstance(reserved, int):
        return cannot_tell(line, "how much the deployment's functions have reserved", reserved)
    if not isinstance(answer, Found):
        return cannot_tell(line, "how many invocations may run at once", answer)
    found = answer.body["AccountLimit"]
    total, unreserved = int(found["ConcurrentExecutions"]), int(found["UnreservedConcurrentExecutions"])
    wanted = 2 * settings.concurrency + OTHERS_AT_ONCE
    raise_it = (
        "give no route so many `lanes`, or have the quota raised"
        if settings.concurrency > CONCURRENCY
        else "have the quota raised"
    )
    has = f"{total} invocations at once, {unreserved} of them unreserved"
    if settings.limits.reserve_concurrency:
        kept = LEFT_FOR_OTHERS if total > SMALL_ACCOUNT else SMALL_ACCOUNT
        left = unreserved + reserved - wanted
        if left < kept:
            return fails(
                line,
                f"{has}; with {wanted} reserved for the functions {left} would be left, and Lambda keeps {kept}",
                f"set `reserve_concurrency = false`, {raise_it}",
            )
    elif unreserved < wanted:
        return Check(line, CheckState.WARN, f"{has}; the functions may want {wanted}, and would be throttled", raise_it)
    return Check(line, CheckState.OK, f"{has}; the functions use {wanted} at most")


def vcpu(limits: LimitSettings, applied: Answer, default: Answer) -> Check:
    """EMR Serverless' vCPU. For some quotas Service Quotas reports the default only
    (https://docs.aws.amazon.com/servicequotas/2019-06-24/apireference/API_GetServiceQuota.html). A new account may have
    less than that, so a default that is enough proves nothing."""
    line = "emr quota"
    only_default = isinstance(applied, Absent)
    answer = default if only_default else applied
    if not isinstance(answer, Found):
        return cannot_tell(line, "how many vCPU EMR Serverless may use at once", answer)
    quota = int(answer.body["Quota"]["Value"])
    has = f"{quota} vCPU at once{' by default' if only_default else ''}, and [limits] vcpu is {limits.vcpu}"
    if quota < limits.vcpu:
        advice = f"have the quota {VCPU_QUOTA[1]} raised, or lower `vcpu`"
        return fails(line, f"{has}: a job fails as it grows", advice)
    if only_default:
        advice = f"look up the quota {VCPU_QUOTA[1]} in the console: a new account may have 16"
        return Check(line, CheckState.WARN, f"{has}; AWS does not report this account's own", advice)
    return Check(line, CheckState.OK, has)


def bootstrap(answer: Answer, account: str, region: str) -> Check:
    line = "cdk bootstrap"
    advice = f"run `npx cdk bootstrap aws://{account}/{region}`"
    if isinstance(answer, Absent):
        return fails(line, f"{account} has none in {region}", advice)
    if not isinstance(answer, Found):
        return cannot_tell(line, "whether it was run", answer)
    version = int(answer.body["Parameter"]["Value"])
    if version < OLDEST_BOOTSTRAP:
        return fails(line, f"version {version}, and the CDK needs {OLDEST_BOOTSTRAP}", advice)
    return Check(line, CheckState.OK, f"version {version}")
