"""The verb `init`: a `tidegate.toml` for files that there are already. It is decoded with before it is written."""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from tidegate.cli import deployment, json_output, render
from tidegate.cli.exits import Exit, Expected
from tidegate.cli.options import ConfigOption, JsonOption
from tidegate.cli.printed import runnable
from tidegate.cli.sampling.route_text import (
    GuessedRoute,
    common_prefix,
    common_suffix,
    in_one_line,
    key_columns,
    name_for,
    route_text,
    suffix_of,
)
from tidegate.cli.sampling.samples import Sample, samples
from tidegate.cli.sampling.try_files import decoding_of, key_of
from tidegate.cli.terminal import Text
from tidegate.core.lineage import LINEAGE_COLUMNS
from tidegate.core.quantities import counted
from tidegate.formats.guess import SAMPLED_BYTES, SampleColumns, SampleFormat, Unguessable, format_of
from tidegate.formats.guess_text import GuessedType
from tidegate.formats.reasons import Undecodable
from tidegate.formats.recognize import CODECS
from tidegate.formats.streams import Allowance, HeldBytes, Stream
from tidegate.reading.decompress import codec_of
from tidegate.reading.trial import tried
from tidegate.settings import SettingsError, parse

MOST_SAMPLES = 20
"""Of a folder or of a prefix."""


class NothingGuessed(Expected):
    """No route could be made of the samples. The text says of which, and why."""

    code = Exit.FINDING


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file that is no sample, and why."""

    file: str
    why: str


def init(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SAMPLE...]", help="Files, folders, s3://BUCKET/KEY or s3://BUCKET/PREFIX/. Default: ."
        ),
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a commented tidegate.toml for files that there are already.

    It finds out format, columns, prefix and suffix. A type is guessed only if it loses nothing. The samples are decoded
    with what was guessed before it is written. A file that is there is never overwritten.
    """
    given = files or ["."]
    file = deployment.config_file(config)
    if file.exists():
        raise SettingsError(f"{file} is there already, and stays as it is: give another name with --config, or move it")
    found = list(samples(given, MOST_SAMPLES))
    route, used, skipped = guessed(found, given[0])
    text = route_text(route)
    rows = checked(text, str(file), used)
    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(text)
    except OSError as error:
        raise SettingsError(f"{file} cannot be written: {error.strerror}") from error
    if as_json:
        typer.echo(json_output.dumps(as_document(file, route, rows, skipped)))
    else:
        show(file, route, rows, skipped, used)


def guessed(found: Sequence[Sample], place: str) -> tuple[GuessedRoute, list[Sample], list[SkippedFile]]:
    """One route for the samples, those of them that it is for, and the others. Raises NothingGuessed."""
    columns: SampleColumns | None = None
    used: list[Sample] = []
    skipped: list[SkippedFile] = []
    for sample in found:
        try:
            text = beginning(sample)
            of = format_of(_unpacked_name(sample.key), text)
            gathering = columns or SampleColumns(of)
            if of != gathering.of:
                raise Unguessable(f"it is {_called(of)}, and the samples before it are {_called(gathering.of)}")
            gathering.look(sample.source if codec_of(sample.key) is None else HeldBytes(text), text)
        except (Unguessable, Undecodable) as error:
            skipped.append(SkippedFile(sample.name, str(error)))
        else:
            columns = gathering
            used.append(sample)
    if columns is not None and (again := columns.as_written()):
        for sample in used:
            again.look(sample.source, beginning(sample))
        columns = again
    types = {name: _allowed(name, each) for name, each in columns.types().items()} if columns else {}
    if columns is None or not any(each.ddl for each in types.values()):
        why = "".join(f"\n  {each.file}: {each.why}" for each in skipped)
        raise NothingGuessed(f"no route can be made of {place}: it has no file with a column in it{why}")
    return _route(columns.of, types, used, place), used, skipped


def _allowed(name: str, guess: GuessedType) -> GuessedType:
    return GuessedType(None, "Tidegate adds a column of this name") if name.lower() in LINEAGE_COLUMNS else guess


def _route(of: SampleFormat, types: Any, used: Sequence[Sample], place: str) -> GuessedRoute:
    keys = [each.key for each in used]
    upload = used[0].upload
    folder = common_prefix(keys)
    if upload is not None:
        name = name_for(upload.bucket, *folder.split("/"))
        bucket, prefix = upload.bucket, folder
    else:
        path = Path(place).resolve()
        name = name_for(
            path.name if path.is_dir() else path.name.removesuffix(suffix_of(path.name)), *folder.split("/")
        )
        bucket, prefix = f"{name}-landing", folder or f"{name}/"
    options, suffix, said = dict(of.options), common_suffix(keys), key_columns(keys)
    return GuessedRoute(name, bucket, upload is not None, prefix, suffix, of.format, options, types, len(used), said)


def beginning(sample: Sample) -> bytes:
    """The first bytes of a sample without its compression. Raises Undecodable."""
    codec = codec_of(sample.key)
    if codec is None or not sample.source.size:
        return sample.source.read(0, min(SAMPLED_BYTES, sample.source.size)) if sample.source.size else b""
    found = b""
    for piece in Stream(sample.source, codec, Allowance(1 << 40, "of samples")).pieces():
        found += piece
        if len(found) >= SAMPLED_BYTES:
            break
    return found[:SAMPLED_BYTES]


def checked(text: str, file: str, used: Iterable[Sample]) -> int:
    """How many rows the samples have by the text. Raises NothingGuessed if one is refused."""
    (route,) = parse(text, file).core_routes()
    decoding = decoding_of(route)
    rows = 0
    for sample in used:
        done = tried(decoding, key_of(sample, route), sample.source, 0)
        if done.refused:
            raise NothingGuessed(
                f"{sample.name} does not become rows of what the samples suggest, so nothing is written: {done.reason}"
            )
        rows += done.rows
    return rows


def _unpacked_name(key: str) -> str:
    return next((key.removesuffix(suffix) for suffix in CODECS if key.endswith(suffix)), key)


def _called(of: SampleFormat) -> str:
    options = "".join(f", {name} {value!r}" for name, value in of.options)
    return f"{of.format}{options}"


# ---- what is printed


def show(file: Path, route: GuessedRoute, rows: int, skipped: Sequence[SkippedFile], used: Sequence[Sample]) -> None:
    out = render.console()
    count = f"{counted(len(used), 'file')} with {counted(rows, 'row')}"
    out.print(Text(f"{file}: route {route.name}, {route.format}, {count} decoded"), soft_wrap=True)
    for name, each in route.columns.items():
        if each.ddl:
            remark = f"    ({in_one_line(each.remark)})" if each.remark else ""
            out.print(Text(f"  {name} {each.ddl}{remark}"), soft_wrap=True)
        else:
            left = in_one_line(f"{name}: {each.remark}")
            out.print(Text.assemble(("  left out: ", "yellow"), left), soft_wrap=True)
    if len(used) + len(skipped) >= MOST_SAMPLES:
        out.print(
            Text(f"  of a folder or a prefix only the first {counted(MOST_SAMPLES, 'file')} were looked at"),
            soft_wrap=True,
        )
    for skipped_file in skipped:
        out.print(Text.assemble(("skipped: ", "yellow"), f"{skipped_file.file}: {skipped_file.why}"), soft_wrap=True)
    out.print("next:")
    for command in next_commands(file, route, used):
        out.print(Text(f"  {runnable(command)}"), soft_wrap=True)


def next_commands(file: Path, route: GuessedRoute, used: Sequence[Sample]) -> list[str]:
    option = "" if str(file) == "tidegate.toml" else f" --config {shlex.quote(str(file))}"
    more = ["tidegate doctor --aws" + option] if route.existing else ["tidegate local up" + option]
    checked = "tidegate check" if str(file) == "tidegate.toml" else f"tidegate check {shlex.quote(str(file))}"
    return [f"tidegate try {route.name} {shlex.quote(used[0].name)}{option}", checked, *more]


def as_document(file: Path, route: GuessedRoute, rows: int, skipped: Sequence[SkippedFile]) -> dict[str, Any]:
    names = "route=name bucket prefix=key_prefix suffix=key_suffix format options table samples"
    return {
        **json_output.document(config=file, **json_output.picked(route, names), rows=rows, skipped=skipped),
        "columns": [
            {"name": name, "type": each.ddl, "remark": each.remark or None} for name, each in route.columns.items()
        ],
    }
