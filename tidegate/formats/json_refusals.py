"""What is wrong with a line of JSON that was refused: it is read again, and compared with the schema field by field.

The decoder's own words name types of Python, and a path without the value. Whoever wrote the line needs the value, the
type that the schema has, and what to do.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from tidegate.formats.complaints import LONGEST_NUMBER, NUMBER, SHOWN, WHOLE, of_whole, shown
from tidegate.formats.reasons import first_line
from tidegate.formats.type_names import is_list, type_name

types = pa.types

LONGEST_LINE = 4_000_000
"""A longer line is not read again: as Python's objects it would need many times its bytes."""
ONE_A_LINE = "Tidegate wants one object a line"
UNPACK = " (jq -c '.[]' FILE)"
BYTE_ORDER_MARK = "\ufeff"
HALF_A_CHARACTER = re.compile("[\ud800-\udfff]")
HALF_IN_BYTES = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")
"""As some programs write it, and UTF-8 forbids (RFC 3629, section 3)."""
CUT_OFF = re.compile(r"t(ru?)?|f(a(ls?)?)?|n(ul?)?|-|\.|[eE][+-]?|\\?u?[0-9a-fA-F]{0,3}")
"""What may be left of a word, a number or an escape where a file is cut off."""
DELIMITERS = ",;\t|"


class _Number(str):
    """A number, as its digits are in the file."""


class _NoJson(ValueError):
    """A word that Python takes for a number, and JSON does not."""


def refusal(number: int, line: bytes, schema: pa.Schema, error: Exception, unit: str = "line") -> str:
    """Why line `number` is refused. `line` has its end, if it has one. `error` is the decoder's, and is quoted if
    nothing better can be said. `unit`: what is counted (`json_layout.JsonLayout`)."""
    at = f"{unit} {number}"
    try:
        text = line.decode()
    except UnicodeDecodeError as undecodable:
        if half := HALF_IN_BYTES.match(line, undecodable.start):
            some = half[0].hex(" ")
            return f"{at}: the bytes {some} are half of a character, which UTF-8 has not: write the character itself"
        some = undecodable.object[undecodable.start : undecodable.end].hex(" ")
        return f"{at}: the bytes {some} are no UTF-8, which JSON is: iconv -f WINDOWS-1252 -t UTF-8 FILE"
    if text.startswith(BYTE_ORDER_MARK):
        return f"{at} begins with a byte order mark, which JSON has not: write UTF-8 without it"
    try:
        return _of_text(at, text, schema, error)
    except RecursionError:
        return f"{at}: {first_line(error)}"


def _of_text(at: str, text: str, schema: pa.Schema, error: Exception) -> str:
    begins = text.lstrip()[:1]
    if len(text) > LONGEST_LINE:
        return f"{at}: {first_line(error)}"
    try:
        found = json.loads(text, parse_int=_Number, parse_float=_Number, parse_constant=_no_json)
    except _NoJson as word:
        return f"{at}: {word} is no JSON: write null, or leave the field out"
    except json.JSONDecodeError as broken:
        return _of_broken(at, text, begins, schema, broken)
    if isinstance(found, list):
        return f"{at} is a JSON array; {_wanted(at, UNPACK)}"
    if not isinstance(found, dict):
        return f"{at} is {_what(found)}; {_wanted(at)}"
    for path, value, why in _complaints(found, list(schema), ""):
        return f"{at}: {path}{f' = {value}' if value else ''} {why}"
    if repeated := _repeated_keys(text):
        return f"{at}: several keys {shown(repeated[0])} in an object, and the value of one does not fit: keep one"
    if half := HALF_A_CHARACTER.search(json.dumps(found, ensure_ascii=False)):
        return f"{at}: half of a character, \\u{ord(half[0]):04x}: write both halves, or the character itself"
    return f"{at}: {first_line(error)}"


def _wanted(at: str, how: str = "") -> str:
    return f"{ONE_A_LINE}{how}" if at.startswith("line") else "each has to be one object"


def _of_broken(at: str, text: str, begins: str, schema: pa.Schema, broken: json.JSONDecodeError) -> str:
    end = len(text.rstrip())
    if begins == "[":
        return f"{at} begins a JSON array; {_wanted(at, UNPACK)}"
    if begins != "{":
        names = next((each for each in DELIMITERS if _names_columns(text, each, schema)), None)
        hint = "" if names is None else '. It names columns, as the header of a CSV file: set format = "csv"'
        return f"{at} is no JSON, it begins with {shown(text.strip()[:20])}; {_wanted(at)}{hint}"
    if broken.msg == "Extra data":
        rest = text[broken.pos :].lstrip()
        if rest.startswith("{"):
            return f"{at} has several objects; {_wanted(at, ' (jq -c . FILE)')}"
        return f"{at}, column {broken.pos + 1}: something is behind the object: take it away"
    if (
        broken.pos >= end
        or CUT_OFF.fullmatch(text, broken.pos, end)
        or (broken.msg.startswith("Unterminated string") and not text.endswith("\n"))
    ):
        if text.endswith("\n"):
            return f"{at} ends in the middle of an object; {ONE_A_LINE}, and all of it there (jq -c . FILE)"
        return f"{at} ends in the middle of an object, and the file with it: it was cut off. Upload all of it"
    return f"{at}, column {broken.pos + 1}: this is no JSON: {broken.msg}"


def _names_columns(text: str, delimiter: str, schema: pa.Schema) -> bool:
    return any(name.strip().strip('"') in schema.names for name in text.split(delimiter)) and delimiter in text


def _repeated_keys(text: str) -> list[str]:
    found: list[str] = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        found.extend(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)

    json.loads(text, object_pairs_hook=look, parse_int=_Number)
    return found


def _no_json(word: str) -> Any:
    raise _NoJson(word)


# ---- values


def _complaints(found: dict[str, Any], fields: list[pa.Field], path: str) -> Iterator[tuple[str, str, str]]:
    """Of each field that does not fit: its path, its value, and why."""
    for field in fields:
        inner = f"{path}.{field.name}" if path else field.name
        if found.get(field.name) is None:
            if not field.nullable:
                why = "is null" if field.name in found else "is missing"
                yield inner, "", f"{why}, and the schema says not null: give it a value, or take `not null` away"
        else:
            yield from _of_value(found[field.name], field.type, inner)


def _of_value(value: Any, kind: pa.DataType, path: str) -> Iterator[tuple[str, str, str]]:
    if types.is_struct(kind):
        if isinstance(value, dict):
            yield from _complaints(value, list(kind), path)
            return
    elif types.is_map(kind):
        if isinstance(value, dict):
            for key, inner in value.items():
                yield from _of_element(inner, kind.item_field, f"{path}[{shown(key)}]")
            return
    elif is_list(kind):
        if isinstance(value, list):
            for place, inner in enumerate(value):
                yield from _of_element(inner, kind.value_field, f"{path}[{place}]")
            return
    elif types.is_decimal(kind):
        # read as text later, whatever it is
        return
    elif types.is_boolean(kind):
        if isinstance(value, bool):
            return
    elif types.is_integer(kind):
        if isinstance(value, _Number) and WHOLE.fullmatch(value):
            # of a longer one these digits are more than any type holds, too
            number = int(value[:LONGEST_NUMBER])
            if not -(1 << (kind.bit_width - 1)) <= number < 1 << (kind.bit_width - 1):
                yield path, _shown(value), of_whole(number, kind)
            return
    elif types.is_floating(kind):
        if isinstance(value, _Number):
            if not math.isfinite(float(value)):
                said = f"is too large for {type_name(kind)}: write it as text, and make the column a string"
                yield path, _shown(value), said
            return
    elif isinstance(value, str) and not isinstance(value, _Number):
        # whether a text is a date, a time or base64 is looked at later
        return
    yield path, _shown(value), f"is {_what(value)}, and the schema says {type_name(kind)}: {_advice(value, kind)}"


def _of_element(value: Any, field: pa.Field, path: str) -> Iterator[tuple[str, str, str]]:
    if value is not None:
        yield from _of_value(value, field.type, path)
    elif not field.nullable:
        yield path, "", "is null, and the schema says not null: give it a value"


def _shown(value: Any) -> str:
    """A value as the file has it, but for its white space; a text in the quotes of a message."""
    found = shown(value) if isinstance(value, str) and not isinstance(value, _Number) else _as_json(value)
    return found if len(found) <= SHOWN + 5 else f"{found[:SHOWN]}..."


def _as_json(value: Any) -> str:
    match value:
        case _Number():
            return str(value)
        case list():
            return f"[{', '.join(map(_as_json, value))}]"
        case dict():
            return f"{{{', '.join(f'{json.dumps(name)}: {_as_json(each)}' for name, each in value.items())}}}"
    return json.dumps(value)


def _what(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case _Number():
            return "a whole number" if WHOLE.fullmatch(value) else "a number with a point or an exponent"
        case str():
            return "text"
        case list():
            return "a list"
    return "an object"


def _advice(value: Any, kind: pa.DataType) -> str:
    """What to do about a value of another kind."""
    number = types.is_integer(kind) or types.is_floating(kind)
    if isinstance(value, _Number):
        if types.is_integer(kind):
            return "make the column a double or a decimal, or write it without"
        if types.is_timestamp(kind):
            return "write a time, as in 2024-02-03T04:05:06Z, or make the column a bigint"
        if types.is_nested(kind) or types.is_boolean(kind):
            return f"correct it, or make the column a {'bigint' if WHOLE.fullmatch(value) else 'double'}"
        return "write it in quotes, or make the column one of numbers"
    if isinstance(value, str):
        fits = (WHOLE if types.is_integer(kind) else NUMBER).fullmatch(value) if number else value in ("true", "false")
        if fits and (number or types.is_boolean(kind)):
            return "write it without quotes, or make the column a string"
        return "correct it, or make the column a string"
    if isinstance(value, bool):
        return "correct it, or make the column a boolean"
    if isinstance(value, list):
        return "correct it, or make the column an array<...>"
    return "correct it, or make the column a struct<...> or a map<...>"
