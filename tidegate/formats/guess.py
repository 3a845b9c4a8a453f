"""What a sample is, and which columns it has: the format, its options, and the types as a route states them.

What is guessed here is decoded before anyone relies on it (`tidegate.cli.sampling.init`).
"""

import copy
import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq

from tidegate.formats.avro import OF_DAMAGE, types_of
from tidegate.formats.csv_refusals import DELIMITERS
from tidegate.formats.dialect import of_options
from tidegate.formats.guess_dialect import WrittenValues, dialect_of, doubt_of
from tidegate.formats.guess_text import (
    NO_NAME,
    NOT_IN_JSON,
    Digits,
    GuessedType,
    SeenValues,
    doubted,
    without_repeated,
)
from tidegate.formats.json_layout import with_layout
from tidegate.formats.json_refusals import refusal
from tidegate.formats.orc import meant_field
from tidegate.formats.parquet import instants_of
from tidegate.formats.reasons import Undecodable, first_line
from tidegate.formats.recognize import HEAD_BYTES, JSON, recognize
from tidegate.formats.registry import UTF_8, UTF_16
from tidegate.formats.streams import AsFile, ByteSource
from tidegate.formats.type_names import column_type, quoted_name, type_name

SAMPLED_BYTES = 16 << 20
"""Of a text so much is looked at."""
TABULAR = (".csv", ".tsv", ".psv", ".tab", ".txt")
"""Ends of names, without a compression's, of files that may be CSV with one column."""
SINGLE_BYTES = ("windows-1252", "iso-8859-1")


class Unguessable(Exception):
    """The sample is no file that a route could decode. The text says why."""


@dataclass(frozen=True, slots=True)
class SampleFormat:
    """The format of a sample, and its options."""

    format: str
    options: tuple[tuple[str, str], ...] = ()


@dataclass
class SampleColumns:
    """The columns of samples of one format, gathered file by file."""

    of: SampleFormat
    seen: dict[str, SeenValues] = field(default_factory=dict)
    """Of text."""
    written: dict[str, WrittenValues] = field(default_factory=dict)
    """Of CSV: how the values are written."""
    stored: dict[str, GuessedType] = field(default_factory=dict)
    """Of formats with types."""

    def look(self, source: ByteSource, text: bytes) -> None:
        """A sample: `text` is its beginning, if its format is a text. Raises Unguessable."""
        match self.of.format:
            case "json":
                self._json(text)
            case "csv":
                self._csv(text)
            case _:
                self._typed(source)

    def types(self) -> dict[str, GuessedType]:
        """Each column's type, in the order of the samples. One without a type is left out of the schema."""
        if self.of.format == "csv":
            of_text = {name: doubted(name, self._csv_type(name), each) for name, each in self.seen.items()}
        else:
            of_text = {name: each.json_type() for name, each in self.seen.items()}
        found = {**of_text, **self.stored}
        typed = {name: each for name, each in found.items() if each.ddl is not None}
        kept, left = without_repeated(typed, NOT_IN_JSON if self.of.format == "json" else "")
        repeated = {name: GuessedType(None, NO_NAME) for name in left if name}
        return {**kept, **repeated, **{name: each for name, each in found.items() if each.ddl is None and name}}

    def as_written(self) -> "SampleColumns | None":
        """Columns for the same samples with the options by which their values are more than text; None if these have
        the options already. The samples have to be looked at again."""
        options = {**dict(self.of.options), **dialect_of(self.written.values())}
        of = SampleFormat(self.of.format, tuple(options.items()))
        return None if of == self.of else SampleColumns(of)

    def _csv_type(self, name: str) -> GuessedType:
        doubt = doubt_of(self.written[name], self.written.values(), dict(self.of.options).get("null", ""))
        found = self.seen[name].csv_type()
        return GuessedType(found.ddl, doubt) if doubt else found

    def _json(self, text: bytes) -> None:
        # nothing is seen of a sample that is not read to its end
        seen = copy.deepcopy(self.seen)
        for each in _objects(text):
            for name, value in each.items():
                seen.setdefault(name, SeenValues()).of_json(value)
        self.seen = seen

    def _csv(self, text: bytes) -> None:
        options = dict(self.of.options)
        dialect = of_options(options)
        records = _records(text, options.get("encoding", UTF_8), options["delimiter"])
        names = [each or "" for each in next(records, [])]
        for name in names:
            self.seen.setdefault(name, SeenValues())
            self.written.setdefault(name, WrittenValues())
        for record in records:
            if len(record) == len(names):
                for name, value in zip(names, record, strict=True):
                    if value:
                        self.written[name].add(value)
                    plain = dialect.guessed_plain(value) if value else value
                    self.seen[name].of_csv(plain or "", quoted=plain is not None)

    def _typed(self, source: ByteSource) -> None:
        try:
            fields = FIELDS[self.of.format](source)
        except MemoryError:
            raise
        except (Undecodable, pa.ArrowException, *OF_DAMAGE) as error:
            raise Unguessable(first_line(error)) from error
        for name, kind in fields.items():
            self.stored[name] = _wider(self.stored[name], kind) if name in self.stored else kind


def format_of(name: str, text: bytes) -> SampleFormat:
    """The format of a sample by its first bytes, without compression, and by its name without the suffix of one.
    Raises Unguessable."""
    found = recognize(text[:HEAD_BYTES])
    if found is not None and found.codec:
        raise Unguessable(f"it is {found.called}, and its name does not say so by its end")
    if found is JSON or (found is None and text.lstrip()[:1] in (b"[", b"{")):
        return SampleFormat("json")
    if found is not None and found.format:
        return SampleFormat(found.format)
    if found is not None and not text.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Unguessable(f"it is {found.called}, and no format of a route")
    if not text:
        raise Unguessable("it is empty")
    encoding = _encoding(text)
    delimiter = _delimiter(text, encoding)
    if delimiter is None and not name.lower().endswith(TABULAR):
        raise Unguessable("it is neither JSON, CSV, Parquet, Avro nor ORC")
    options = {"delimiter": delimiter or ",", **({} if encoding == UTF_8 else {"encoding": encoding})}
    return SampleFormat("csv", tuple(options.items()))


# ---- JSON


def _objects(text: bytes) -> Iterator[dict[str, Any]]:
    """The objects of a JSON file, without a last one that may be cut off."""
    layout, parts = with_layout([text])
    lines, is_cut = b"", len(text) >= SAMPLED_BYTES
    try:
        for part in parts:
            lines += part
    except Undecodable as error:
        if not is_cut:
            raise Unguessable(str(error)) from error
    lines = lines[: lines.rfind(b"\n") + 1] if is_cut else lines
    for number, line in enumerate(io.BytesIO(lines), start=1):
        if line.isspace():
            continue
        try:
            found = json.loads(line, parse_int=Digits, parse_float=Digits)
        except (ValueError, RecursionError) as error:
            raise Unguessable(refusal(number, line, pa.schema([]), error, layout.value)) from error
        if not isinstance(found, dict):
            raise Unguessable(refusal(number, line, pa.schema([]), ValueError("no object"), layout.value))
        yield found


# ---- CSV


def _encoding(text: bytes) -> str:
    if text.startswith((b"\xff\xfe", b"\xfe\xff")):
        return UTF_16
    if _decodes(text, UTF_8):
        return UTF_8
    return next(each for each in SINGLE_BYTES if _decodes(text, each))


def _decodes(text: bytes, encoding: str) -> bool:
    try:
        text.decode(encoding)
    except UnicodeDecodeError as error:
        # the end may be cut within a character
        return len(text) >= SAMPLED_BYTES and error.start >= len(text) - 4
    return True


def _delimiter(text: bytes, encoding: str) -> str | None:
    """What cuts the header and the first records into as many fields, more than one."""
    best: tuple[int, str | None] = (1, None)
    for delimiter in DELIMITERS:
        widths = [len(each) for _, each in zip(range(50), _records(text, encoding, delimiter), strict=False)]
        if widths and len(set(widths)) == 1 and widths[0] > best[0]:
            best = (widths[0], delimiter)
    return best[1]


def _records(text: bytes, encoding: str, delimiter: str) -> Iterator[list[str | None]]:
    """The records that are not blank; None for an empty field without quotes. Whatever is odd, the decoder says."""
    cut = len(text) >= SAMPLED_BYTES
    decoded = text.decode(encoding, "replace").removeprefix("\ufeff")
    decoded = decoded[: decoded.rfind("\n") + 1] if cut else decoded
    # its default would end the look at the first long field; it is the process's, so it is put back
    former = csv.field_size_limit(SAMPLED_BYTES)
    try:
        lines = _TakenLines(io.StringIO(decoded, newline=""))
        for record in csv.reader(lines, delimiter=delimiter):
            taken = lines.since()
            if record:
                yield _with_nulls(record, taken, delimiter)
    except csv.Error:
        return
    finally:
        csv.field_size_limit(former)


class _TakenLines:
    """Lines, and which of them were taken since one last asked: those of a record."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines, self._taken = lines, list[str]()

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            self._taken.append(line)
            yield line

    def since(self) -> str:
        taken, self._taken = "".join(self._taken), []
        return taken


def _with_nulls(record: list[str], taken: str, delimiter: str) -> list[str | None]:
    """The fields of a record, as it stands in `taken`. Python's csv module does not tell `""` from nothing."""
    if "" not in record:
        return list(record)
    begins = [0, *_begins(taken, delimiter)] if '""' in taken else []
    quoted = [taken.startswith('"', each) for each in begins] or [False] * len(record)
    return [each or ("" if of else None) for each, of in zip(record, quoted, strict=False)]


def _begins(taken: str, delimiter: str) -> Iterator[int]:
    """Where the fields after the first begin."""
    field = re.compile(rf'(?:"(?:[^"]|"")*")?[^{re.escape(delimiter)}]*')
    found = field.match(taken)
    while found and found.end() < len(taken):
        yield found.end() + 1
        found = field.match(taken, found.end() + 1)


# ---- formats with types


def _of_parquet(source: ByteSource) -> dict[str, GuessedType]:
    file = pq.ParquetFile(pa.PythonFile(AsFile(source), "r"))
    schema = file.schema_arrow
    instants = set(instants_of(file.metadata, schema.names))
    return {
        each.name: _stored(pa.timestamp("us", "UTC") if each.name in instants else each.type)
        for each in schema
        # an instant within another type is refused under any other type: see `formats.parquet`
    }


def _of_orc(source: ByteSource) -> dict[str, GuessedType]:
    schema = pyarrow.orc.ORCFile(pa.PythonFile(AsFile(source), "r")).schema
    return {each.name: _stored(meant_field(each).type) for each in schema}


def _of_avro(source: ByteSource) -> dict[str, GuessedType]:
    return {name: _stored(kind) for name, kind in types_of(AsFile(source, 1 << 16)).items()}


FIELDS = {"parquet": _of_parquet, "orc": _of_orc, "avro": _of_avro}


def _called(ddl: str | None, given: str) -> GuessedType:
    return GuessedType(ddl) if ddl else GuessedType(None, f"no column holds {given}")


def _stored(kind: pa.DataType) -> GuessedType:
    """Of a struct, what no column holds is left out."""
    if not pa.types.is_struct(kind) or column_type(kind) is not None:
        return _called(column_type(kind), f"the type {type_name(kind)}")
    fields = {field.name: _stored(field.type) for field in kind}
    left = "; ".join(f"{name} is left out: {each.remark}" for name, each in fields.items() if each.ddl is None)
    kept = ",".join(f"{quoted_name(name)}:{each.ddl}" for name, each in fields.items() if each.ddl is not None)
    return GuessedType(f"struct<{kept}>" if kept else None, left or "a struct without fields")


WIDER = [("int", "bigint"), ("float", "double")]


def _wider(one: GuessedType, other: GuessedType) -> GuessedType:
    """The type that holds both, of two files."""
    if one.ddl == other.ddl:
        return one
    for narrow, wide in WIDER:
        if {one.ddl, other.ddl} == {narrow, wide}:
            return GuessedType(wide)
    return GuessedType(None, f"{one.ddl} in one sample, and {other.ddl} in another")
