"""What pydantic finds wrong in `tidegate.toml`, in our words."""

import difflib
from typing import Any

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from tidegate.settings.positions import Positions
from tidegate.settings.values import SIZES
from tidegate.settings.words import Location, Mistake, named

_BOUNDS = {"greater_than": "more than {gt}", "greater_than_equal": "{ge} at least", "less_than_equal": "{le} at most"}
_IN_OUR_WORDS = {
    **_BOUNDS,
    "bool_type": "true or false, without quotes",
    "int_type": "a whole number, without quotes",
    "int_from_float": "a whole number",
    "float_type": "a number, without quotes",
    "string_type": "text in quotes",
    "tuple_type": 'a list in brackets, such as ["a", "b"]',
    "model_type": "this is a section with fields of its own",
    "literal_error": "one of {expected}",
    "string_too_short": "{min_length} character at least",
    "string_too_long": "{max_length} characters at most",
    "missing": "this field is required",
}
"""By the type of the error. A test gives every field values of every wrong type, and looks for pydantic's own words."""


def explained(problem: ErrorDetails, model: type[BaseModel], positions: Positions) -> Mistake:
    """A problem that pydantic found in the values of `model`."""
    location: Location = problem["loc"]
    kind = problem["type"]
    if kind == "misplaced":
        location = (*location, *problem["ctx"]["place"])
    message = str(problem["msg"]).removeprefix("Value error, ")
    place = positions.of(location)
    if kind == "extra_forbidden":
        message, place = _unknown(location, model), positions.of_key(location)
    elif kind.startswith("byte_size"):
        message = SIZES
    elif location == ("route",) and kind != "value_error":
        message = "each route begins with [[route]], in double brackets"
    elif kind == "tuple_type" and isinstance(problem["input"], str):
        message = f'it must be a list: ["{problem["input"]}"]'
    elif kind in _IN_OUR_WORDS:
        message = _IN_OUR_WORDS[kind].format(**problem.get("ctx", {}))
        if kind == "int_type":
            message += _example(location, model)
    return Mistake(named(location), message, place)


def _unknown(location: Location, model: type[BaseModel]) -> str:
    """What is said of a field that is not there: the one that was probably meant, and all that are."""
    allowed = sorted(field.alias or name for name, field in _model_at(location[:-1], model).model_fields.items())
    given = str(location[-1])
    meant = difflib.get_close_matches(given, allowed, n=1, cutoff=0.75) or [
        each for each in [_ELSEWHERE.get(given, "")] if each in allowed
    ]
    name = "[[route]]" if location[:-1] == () and meant == ["route"] else f"`{meant[0]}`" if meant else ""
    if not meant and (section := _section_with(given, model)):
        return f"unknown field here; it belongs below {section}"
    return f"unknown field; {f'did you mean {name}? ' if name else ''}allowed here: {', '.join(allowed)}"


def _section_with(field: str, model: type[BaseModel], path: tuple[str, ...] = ()) -> str:
    """The section that has such a field; empty if none has."""
    for name, each in model.model_fields.items():
        inner = _inner(each.annotation)
        if inner is None:
            continue
        here = (*path, each.alias or name)
        if field in {other.alias or key for key, other in inner.model_fields.items()}:
            return "[[route]]" if here == ("route",) else f"[{'.'.join(here)}]"
        if found := _section_with(field, inner, here):
            return found
    return ""


def _inner(annotation: Any) -> type[BaseModel] | None:
    """The section of an annotation: it may be one of several, or none."""
    for each in (annotation, *getattr(annotation, "__args__", ())):
        if isinstance(each, type) and issubclass(each, BaseModel):
            return each
    return None


_ELSEWHERE = {
    "sep": "delimiter",
    "separator": "delimiter",
    "charset": "encoding",
    "columns": "schema",
    "fields": "schema",
    "partitioned_by": "partition_by",
    "partitions": "partition_by",
    "path": "prefix",
    "folder": "prefix",
    "extension": "suffix",
    "file_format": "format",
    "type": "format",
    "destination": "table",
    "target": "table",
}
"""Other systems' names of fields."""


def _example(location: Location, model: type[BaseModel]) -> str:
    """What a whole number may be here, by the bounds and the default of its field; empty if it has no default."""
    *section, name = location
    fields = _model_at(tuple(section), model).model_fields
    field = next((each for key, each in fields.items() if name in (key, each.alias)), None)
    if field is None or not isinstance(field.default, int):
        return ""
    bounds = [
        _BOUNDS[kind].format(**{short: getattr(each, short)})
        for each in field.metadata
        for kind, short in (("greater_than", "gt"), ("greater_than_equal", "ge"), ("less_than_equal", "le"))
        if hasattr(each, short)
    ]
    return "".join(f", {each}" for each in [*bounds, f"such as {field.default}"])


def _model_at(location: Location, model: type[BaseModel]) -> type[BaseModel]:
    """The section at `location`."""
    for step in location:
        if isinstance(step, str):
            names = {field.alias or name: field for name, field in model.model_fields.items()}
            inner = _inner(names[step].annotation)
            assert inner is not None
            model = inner
    return model
