"""Judgements about the roles of a deployed stack: whether each may do what its code works without, only slower.

Without any other permission something fails, and an alarm says so. IAM simulates the role's policies
(https://docs.aws.amazon.com/IAM/latest/APIReference/API_SimulatePrincipalPolicy.html).
"""

from tidegate.cli.account.ask import Answer, Found, cannot_tell
from tidegate.cli.account.parts import DEPLOY
from tidegate.cli.checks import Check, CheckState


def may(who: str, action: str, without: str, answer: Answer) -> Check:
    """`answer` is the simulation's. `without` tells what becomes of the work of a role that may not."""
    line = f"role of {who}"
    if not isinstance(answer, Found):
        return cannot_tell(line, f"whether it may do {action}", answer)
    decisions = {each["EvalDecision"] for each in answer.body["EvaluationResults"]}
    if decisions == {"allowed"}:
        return Check(line, CheckState.OK, f"may do {action}")
    return Check(
        line,
        CheckState.WARN,
        f"may not do {action} ({', '.join(sorted(decisions))}): {without}",
        f"{DEPLOY}; if a boundary or a policy of the organization denies it, have it allowed there",
    )
