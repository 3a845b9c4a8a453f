"""What is said of a text that is no TOML: what `tomllib` reports, and what was probably meant."""

import re

from tidegate.settings.words import Mistake, TomlPlace

_AT = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_SMART = re.compile("[\u201c\u201d\u2018\u2019\u201e\u00ab\u00bb]")
_UNQUOTED = re.compile(r"\s*([A-Za-z0-9_-]+)\s*=\s*([A-Za-z/][^\"'#=\[\]{}]*?)\s*(?:#.*)?$")
_TWICE = re.compile(r"Cannot (?:declare|overwrite|mutate|redefine).*")


def refused(source: str, error: ValueError | RecursionError) -> Mistake:
    said = str(error) if isinstance(error, ValueError) else "it is nested too deeply"
    found = _AT.search(said)
    lines = source.split("\n")
    line = int(found[1]) if found and found[1] else len(lines)
    column = int(found[2]) if found and found[2] else len(lines[-1]) + 1
    # tomllib may point behind the line end
    text = lines[min(line, len(lines)) - 1]
    message = said[: found.start()] if found else said
    hint, at = _hint(message, text, min(column, len(text) + 1))
    return Mistake("", f"not TOML: {hint or message[:1].lower() + message[1:]}", TomlPlace(line, at, 1))


def _hint(message: str, text: str, column: int) -> tuple[str, int]:
    """What was probably meant, and the column of it."""
    if smart := _SMART.search(text):
        return f"{smart[0]} is a typographic quote: TOML needs straight ones, \" or '", smart.start() + 1
    if (unquoted := _UNQUOTED.fullmatch(text)) and unquoted[2] not in ("true", "false"):
        return f'text needs quotes: {unquoted[1]} = "{unquoted[2]}"', unquoted.start(2) + 1
    if re.fullmatch(r"\s*[A-Za-z0-9_-]+\s*:.*", text):
        return "a field and its value are separated by `=`, not by a colon", text.index(":") + 1
    if re.fullmatch(r"""\s*[A-Za-z0-9_-]+\s*=\s*(["'])(?:(?!\1).)*""", text):
        return "the text is not closed: a quote is missing at its end", len(text) + 1
    if _TWICE.fullmatch(message) and (header := re.match(r"\s*\[\s*([A-Za-z0-9_.-]+)\s*\]", text)):
        name = header[1]
        if name == "route":
            return "each route begins with [[route]], in double brackets", text.index("[") + 1
        if name in ("batch", "route.batch"):
            return "a route has one [route.batch], below its [[route]]", text.index("[") + 1
        return f"section [{name}] is there twice: put all of its fields into one", text.index("[") + 1
    if _TWICE.fullmatch(message) and text.lstrip().startswith("[[route"):
        return "one route begins with [route] and this one with [[route]]: write [[route]] each time", 1
    if message == "Cannot overwrite a value" and (key := re.match(r"\s*([A-Za-z0-9_-]+)", text)):
        return f"`{key[1]}` is given twice in this section", key.start(1) + 1
    return "", column
