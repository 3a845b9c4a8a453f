"""A `tidegate.toml` for samples, as text: what was found in them, and in comments why it is so."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import PurePosixPath

from tidegate.core.quantities import counted
from tidegate.formats.guess_text import GuessedType
from tidegate.formats.recognize import CODECS
from tidegate.formats.registry import key_pattern
from tidegate.formats.type_names import quoted_name

LONGEST_NAME = 31
"""Characters of a route's name."""


@dataclass(frozen=True, slots=True)
class GuessedRoute:
    """A route for samples. `existing`: they are in this bucket. All keys have `key_prefix` and `key_suffix`."""

    name: str
    bucket: str
    existing: bool
    key_prefix: str
    key_suffix: str
    format: str
    options: Mapping[str, str]
    columns: Mapping[str, GuessedType]
    samples: int
    from_key: str = ""

    @property
    def table(self) -> str:
        return f"lake.raw.{self.name.replace('-', '_')}"

    @property
    def ddl(self) -> str:
        """The columns that have a type, one a line."""
        return ",\n".join(f"{quoted_name(name)} {each.ddl}" for name, each in self.columns.items() if each.ddl)

    @property
    def left_out(self) -> dict[str, str]:
        return {name: each.remark for name, each in self.columns.items() if each.ddl is None}


def name_for(*places: str) -> str:
    """The name of a route, by the last of these folders, buckets or files that has a letter to begin with."""
    for place in reversed(places):
        found = re.sub(r"[^a-z0-9]+", "-", place.lower()).strip("-")
        if found[:1].isalpha():
            return found[:LONGEST_NAME].strip("-")
    return "files"


def common_prefix(keys: Sequence[str]) -> str:
    """The folder that all keys are in, with its slash: down to one that is for a day or for another value, such as
    `2026` or `day=2026-03-01`. Later keys have others."""
    folders = [key.split("/")[:-1] for key in keys]
    shared = (each[0] for each in takewhile(lambda each: len(set(each)) == 1, zip(*folders, strict=False)))
    return "".join(f"{name}/" for name in takewhile(lambda name: name[:1].isalpha() and "=" not in name, shared))


def common_suffix(keys: Sequence[str]) -> str:
    """The end that all keys have: `.json.gz`. Empty if they differ."""
    suffixes = {suffix_of(key) for key in keys}
    return suffixes.pop() if len(suffixes) == 1 else ""


def key_columns(keys: Sequence[str]) -> str:
    """The `from_key` of folders such as `year=2026/month=03/` that all keys have; empty if there are none."""
    named = [[part.partition("=")[0] for part in key.split("/")[:-1] if "=" in part] for key in keys]
    if not all(each == named[0] and each and all(name.isidentifier() for name in each) for each in named):
        return ""
    pattern = "".join(f"{name}={{{name}}}/" for name in named[0])
    try:
        return pattern if all(re.search(key_pattern(pattern), key) for key in keys) else ""
    except ValueError:
        return ""


def suffix_of(key: str) -> str:
    """Empty if the key ends in a date or in a number, as rotated files do: the next file has another one."""
    name = PurePosixPath(key)
    if name.suffix in CODECS:
        return _kind(PurePosixPath(name.stem).suffix) + name.suffix
    return _kind(name.suffix)


def _kind(suffix: str) -> str:
    return suffix if re.fullmatch(r"\.[A-Za-z][A-Za-z0-9]*", suffix) else ""


def route_text(route: GuessedRoute) -> str:
    """The file. Every value is one that the settings take."""
    lines = [
        f"# Made by `tidegate init` from {counted(route.samples, 'file')}, each of which was"
        " decoded with it. Read it through:",
        "# docs/configuration.md has every field and its default.",
        "",
        "[[route]]",
        f"name = {_text(route.name)}",
        *_of_bucket(route),
        f"prefix = {_text(route.key_prefix)}",
        *([] if route.key_suffix else ["# The samples end in several ways. A suffix keeps other files out."]),
        f"suffix = {_text(route.key_suffix)}",
        *_of_keys(route),
        f"format = {_text(route.format)}",
        *_of_options(route),
        "# Created if it is absent: catalog.namespace.table.",
        f"table = {_text(route.table)}",
        "# A corrected file that is uploaded under the same key adds its rows to those of the first one, with",
        '# "skip same bytes" unless nothing changed. With "replace" they take their place, and with',
        '# on_delete = "remove" a deleted file has no rows.',
        'on_overwrite = "append"',
        'on_delete = "keep"',
        *_of_columns(route),
        'schema = """',
        *_multiline(route.ddl),
        '"""',
        *_of_partitions(route),
    ]
    return "\n".join(lines) + "\n"


def _of_bucket(route: GuessedRoute) -> list[str]:
    bucket = f"bucket = {_text(route.bucket)}"
    if route.existing:
        return [bucket, "# The bucket is there already. `tidegate doctor --aws` checks it.", "existing = true"]
    return ["# The stack creates it. Names of buckets are the same in all accounts: choose your own.", bucket]


def _of_keys(route: GuessedRoute) -> list[str]:
    if not route.from_key:
        return []
    return [
        "# The keys say more: with this line, and such columns in `schema`, each row has it.",
        f"# from_key = {_text(route.from_key)}",
    ]


def _of_options(route: GuessedRoute) -> list[str]:
    lines: list[str] = []
    for name, value in route.options.items():
        if name == "encoding" and not value.startswith("utf"):
            lines.append("# Many encodings take these bytes: look at the accents that `tidegate try` prints.")
        lines.append(f"{name} = {_text(value)}")
    return lines


def _of_columns(route: GuessedRoute) -> list[str]:
    of_some = ((name, each.remark) for name, each in route.columns.items() if each.ddl and each.remark)
    left = ((f"{name} is left out, and ignored in files", why) for name, why in route.left_out.items())
    return [
        *(f"# {in_one_line(name)}: {in_one_line(why)}." for name, why in (*of_some, *left)),
        "# Any column may be null. Write `not null` behind those that never are: a file with a null there is refused.",
    ]


def _of_partitions(route: GuessedRoute) -> list[str]:
    times = (name for name, each in route.columns.items() if each.ddl in ("timestamp", "timestamp_ntz", "date"))
    time = next(times, None)
    if time is None or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", time):
        return []
    return ["# For tables that are read by time:", f"# partition_by = {json.dumps([f'days({time})'])}"]


def _text(value: str) -> str:
    """A basic string of TOML, which has JSON's escapes."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _multiline(ddl: str) -> list[str]:
    return [_text(line)[1:-1].replace('\\"', '"').replace('"""', '""\\"') for line in ddl.split("\n")]


def in_one_line(text: str) -> str:
    """For a comment, and for a terminal."""
    return "".join(each if each.isprintable() else "?" for each in " ".join(text.split()))
