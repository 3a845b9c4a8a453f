"""DynamoDB's condition and update expressions, as far as Tidegate, Powertools and the schemes compared with it go.

https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Expressions.OperatorsAndFunctions.html
Anything else raises an error, so that no unknown condition counts as true.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

StoredItem = dict[str, Any]
Names = Mapping[str, str]
Condition = Callable[[StoredItem, Names, Mapping[str, Any]], bool]

_TOKEN = re.compile(r"\s*(#\w+|:\w+|[A-Za-z_]\w*|\d+|<=|>=|<>|[=<>(),+-])")
_MISSING = object()


class Unsupported(AssertionError):
    """The simulated DynamoDB does not support this expression."""


def _tokens(text: str) -> list[str]:
    found, at = [], 0
    while at < len(text.rstrip()):
        match = _TOKEN.match(text, at)
        if not match:
            raise Unsupported(f"cannot read {text!r} at {at}")
        found.append(match[1])
        at = match.end()
    return found


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _tokens(text)
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        token = self.peek()
        if not token or (expected and token.upper() != expected):
            raise Unsupported(f"{self.text!r}: expected {expected or 'more'}, found {token!r}")
        self.at += 1
        return token

    # ---- conditions

    def condition(self) -> Condition:
        left = self.conjunction()
        while self.peek().upper() == "OR":
            self.take()
            left = _either(left, self.conjunction())
        return left

    def conjunction(self) -> Condition:
        left = self.term()
        while self.peek().upper() == "AND":
            self.take()
            left = _both(left, self.term())
        return left

    def term(self) -> Condition:
        token = self.peek()
        if token.upper() == "NOT":
            self.take()
            inner = self.term()
            return lambda item, names, values: not inner(item, names, values)
        if token == "(":
            self.take()
            inner = self.condition()
            self.take(")")
            return inner
        if token in ("attribute_exists", "attribute_not_exists"):
            self.take()
            self.take("(")
            path = self.take()
            self.take(")")
            wanted = token == "attribute_exists"
            return lambda item, names, values: (_name(path, names) in item) is wanted
        if token == "contains":
            self.take()
            self.take("(")
            path = self.take()
            self.take(",")
            operand = self.operand()
            self.take(")")

            def contained(item: StoredItem, names: Names, values: Mapping[str, Any]) -> bool:
                found, wanted = item.get(_name(path, names)), operand(item, names, values)
                if isinstance(found, str):
                    return isinstance(wanted, str) and wanted in found
                return isinstance(found, (frozenset, list)) and wanted in found

            return contained
        left = self.operand()
        operator = self.take()
        right = self.operand()
        if operator not in _COMPARE:
            raise Unsupported(f"{self.text!r}: operator {operator}")
        compare = _COMPARE[operator]

        def holds(item: StoredItem, names: Names, values: Mapping[str, Any]) -> bool:
            one, other = left(item, names, values), right(item, names, values)
            # an attribute that is not there, or of another type, compares with nothing, but for <>
            if one is _MISSING or other is _MISSING or type(one) is not type(other):
                return operator == "<>"
            return bool(compare(one, other))

        return holds

    def operand(self) -> Callable[[StoredItem, Names, Mapping[str, Any]], Any]:
        token = self.take()
        if token.startswith(":"):
            return lambda item, names, values: values[token]
        if token == "size":
            self.take("(")
            path = self.take()
            self.take(")")

            def size(item: StoredItem, names: Names, values: Mapping[str, Any]) -> Any:
                found = item.get(_name(path, names), _MISSING)
                return _MISSING if found is _MISSING else len(found)

            return size
        if token == "if_not_exists":
            self.take("(")
            path = self.take()
            self.take(",")
            other = self.operand()
            self.take(")")
            return lambda item, names, values: item.get(_name(path, names), other(item, names, values))
        return lambda item, names, values: item.get(_name(token, names), _MISSING)


def _either(left: Condition, right: Condition) -> Condition:
    return lambda item, names, values: left(item, names, values) or right(item, names, values)


def _both(left: Condition, right: Condition) -> Condition:
    return lambda item, names, values: left(item, names, values) and right(item, names, values)


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda one, other: one == other,
    "<>": lambda one, other: one != other,
    "<": lambda one, other: one < other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    ">=": lambda one, other: one >= other,
}


def _name(token: str, names: Names) -> str:
    return names[token] if token.startswith("#") else token


@cache
def _parsed(text: str) -> Condition:
    parser = _Parser(text)
    condition = parser.condition()
    if parser.peek():
        raise Unsupported(f"{text!r}: something is left over at {parser.peek()!r}")
    return condition


def holds(text: str, item: StoredItem | None, names: Names, values: Mapping[str, Any]) -> bool:
    """Whether the condition holds for the item; None for one that is not there."""
    return not text or _parsed(text)(item or {}, names, values)


@cache
def _clauses(text: str) -> tuple[tuple[str, str, Any], ...]:
    """(clause, attribute, operand) in order: SET a = x, REMOVE a, ADD a x, DELETE a x."""
    parser = _Parser(text)
    found: list[tuple[str, str, Any]] = []
    while parser.peek():
        clause = parser.take().upper()
        if clause not in ("SET", "REMOVE", "ADD", "DELETE"):
            raise Unsupported(f"{text!r}: clause {clause}")
        while True:
            path = parser.take()
            if clause == "SET":
                parser.take("=")
                operand = parser.operand()
                if parser.peek() in ("+", "-"):
                    operand = _sum(operand, parser.take(), parser.operand())
                found.append((clause, path, operand))
            elif clause == "REMOVE":
                found.append((clause, path, None))
            else:
                found.append((clause, path, parser.operand()))
            if parser.peek() != ",":
                break
            parser.take()
    return tuple(found)


def _sum(left: Any, sign: str, right: Any) -> Any:
    def value(item: StoredItem, names: Names, values: Mapping[str, Any]) -> Any:
        one, other = left(item, names, values), right(item, names, values)
        return one + other if sign == "+" else one - other

    return value


def updated(text: str, item: StoredItem, names: Names, values: Mapping[str, Any]) -> StoredItem:
    """The item after the update; every operand is read from the item as it was before."""
    after = dict(item)
    for clause, path, operand in _clauses(text):
        name = _name(path, names)
        value = operand(item, names, values) if operand else None
        if value is _MISSING:
            raise Unsupported(f"{text!r}: an operand that is not there")
        if clause == "SET":
            after[name] = value
        elif clause == "REMOVE":
            after.pop(name, None)
        elif clause == "ADD":
            after[name] = (
                after.get(name, frozenset()) | value if isinstance(value, frozenset) else after.get(name, 0) + value
            )
        else:
            left = after.get(name, frozenset()) - value
            # a set cannot be empty: the attribute goes
            if left:
                after[name] = left
            else:
                after.pop(name, None)
    return after
