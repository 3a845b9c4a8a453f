"""One write to DynamoDB, by its meaning: item, attributes, condition.

Expressions are parsed, not compared as text, so the product may write them in any way.
"""

import re
from typing import Any

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer

_TOKEN = re.compile(r"#\w+|:\w+|\w+|<=|>=|<>|[=<>(),+-]")
_CLAUSE = re.compile(r"\b(SET|ADD|REMOVE|DELETE)\b")
_EXPRESSIONS = ("UpdateExpression", "ConditionExpression")

Or = list[list[Any]]
"""A condition: any of these, each of which is all of those: a text without AND or OR, or such a condition in turn."""


class WriteRequest:
    """A put, an update or a deletion. `request` has the parameters for boto3's client, and is changed in place."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.request = request

    @property
    def pk(self) -> str:
        return str((self.request.get("Key") or self.request["Item"])["pk"]["S"])

    # ---- what it does

    def sets(self, name: str) -> bool:
        """Whether it gives the attribute a value."""
        return name in self.request.get("Item", ()) or self._placeholder(name) in self._clauses().get("SET", {})

    def adds(self, name: str) -> bool:
        """Whether it adds to the attribute: a number to a number, or members to a set."""
        return self._placeholder(name) in self._clauses().get("ADD", {})

    def removes(self, name: str) -> bool:
        return self._placeholder(name) in self._clauses().get("REMOVE", {})

    def value(self, name: str) -> Any:
        """The value that it sets or adds; None if it does neither."""
        found = self.request.get("Item", {}).get(name)
        clauses = self._clauses()
        said = {**clauses.get("SET", {}), **clauses.get("ADD", {})}.get(self._placeholder(name), "")
        if found is None and (values := re.findall(r":\w+", said)):
            found = self.request["ExpressionAttributeValues"][values[-1]]
        return None if found is None else TypeDeserializer().deserialize(found)

    def gives(self, name: str, value: Any) -> None:
        """Make it set the attribute to this value."""
        serialized = TypeSerializer().serialize(value)
        if "Item" in self.request:
            self.request["Item"][name] = serialized
            return
        clauses, there = self._clauses(), self._placeholder(name)
        self.request.setdefault("ExpressionAttributeNames", {})["#planted"] = name
        self.request.setdefault("ExpressionAttributeValues", {})[":planted"] = serialized
        for clause in clauses.values():
            clause.pop(there, None)
        clauses.setdefault("SET", {})["#planted"] = "#planted = :planted"
        self._put(clauses)

    def counts(self, name: str, value: int) -> None:
        """Make it add this number to the attribute, if it adds one."""
        if said := self._clauses().get("ADD", {}).get(self._placeholder(name)):
            self.request["ExpressionAttributeValues"][said.split()[-1]] = {"N": str(value)}

    def leaves(self, name: str) -> None:
        """Make it leave the attribute as it is."""
        self.request.get("Item", {}).pop(name, None)
        clauses = self._clauses()
        for clause in clauses.values():
            clause.pop(self._placeholder(name), None)
        self._put(clauses)

    def _clauses(self) -> dict[str, dict[str, str]]:
        """By SET, ADD, REMOVE and DELETE: what is done, by attribute as the expression has it."""
        pieces = _CLAUSE.split(self.request.get("UpdateExpression", ""))
        return {
            clause: {re.split(r"[\s=]", each, maxsplit=1)[0]: each for each in _listed(said)}
            for clause, said in zip(pieces[1::2], pieces[2::2], strict=True)
        }

    def _put(self, clauses: dict[str, dict[str, str]]) -> None:
        if "UpdateExpression" in self.request:
            said = (f"{clause} {', '.join(each.values())}" for clause, each in clauses.items() if each)
            self.request["UpdateExpression"] = " ".join(said)
        self._tidy()

    # ---- on which condition

    def asks(self, name: str) -> bool:
        """Whether its condition is about the attribute."""
        return self._placeholder(name) in _TOKEN.findall(self.request.get("ConditionExpression", ""))

    def unconditional(self) -> None:
        """Remove its condition."""
        self.request.pop("ConditionExpression", None)
        self._tidy()

    def forgets(self, name: str) -> None:
        """Remove this attribute from its condition."""
        tokens = _TOKEN.findall(self.request.get("ConditionExpression", ""))
        left = _without(_condition(tokens), self._placeholder(name))
        if left:
            self.request["ConditionExpression"] = _text(left)
            self._tidy()
        else:
            self.unconditional()

    def compares(self, name: str, factor: int) -> None:
        """Multiply the number that its condition compares the attribute with by `factor`."""
        found = re.search(rf"{self._placeholder(name)}\s*[<>=]+\s*(:\w+)", self.request.get("ConditionExpression", ""))
        if found:
            number = self.request["ExpressionAttributeValues"][found[1]]
            number["N"] = str(int(number["N"]) * factor)

    # ---- names and values

    def _placeholder(self, name: str) -> str:
        names = self.request.get("ExpressionAttributeNames", {})
        return next((short for short, full in names.items() if full == name), name)

    def _tidy(self) -> None:
        """Remove unused names and values: DynamoDB refuses them."""
        said = set(_TOKEN.findall(" ".join(self.request.get(each, "") for each in _EXPRESSIONS)))
        for kept in ("ExpressionAttributeNames", "ExpressionAttributeValues"):
            left = {name: value for name, value in self.request.pop(kept, {}).items() if name in said}
            if left:
                self.request[kept] = left


def _listed(text: str) -> list[str]:
    """What commas separate, but for those in brackets."""
    return [each.strip() for each in re.findall(r"(?:[^,()]|\([^)]*\))+", text) if each.strip()]


def _condition(tokens: list[str]) -> Or:
    """Reads up to the bracket that closes, and takes it."""
    found: Or = [[]]
    while tokens:
        token = tokens.pop(0)
        if token == ")":
            break
        if token.upper() == "OR":
            found.append([])
        elif token == "(":
            found[-1].append(_condition(tokens))
        elif token.upper() != "AND":
            found[-1].append(_term(token, tokens))
    return found


def _term(first: str, tokens: list[str]) -> str:
    said, depth = [first], 0
    while tokens and (depth or (tokens[0].upper() not in ("AND", "OR") and tokens[0] != ")")):
        token = tokens.pop(0)
        depth += (token == "(") - (token == ")")
        said.append(token)
    return " ".join(said)


def _without(condition: Or, name: str) -> Or:
    """Both "this or that" and "this and that" become "that"; nothing at all, if only this was asked."""
    left: Or = []
    for every in condition:
        kept: list[Any] = []
        for each in every:
            if isinstance(each, str):
                kept += [each] if name not in each.split() else []
            else:
                kept += [inner] if (inner := _without(each, name)) else []
        left += [kept] if kept else []
    return left


def _text(condition: Or) -> str:
    return " OR ".join(
        " AND ".join(each if isinstance(each, str) else f"({_text(each)})" for each in every) for every in condition
    )
