"""The verb `try`: what a route's job would make of files, without a stack. Only SQL needs Java."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table

from tidegate.cli import deployment, json_output, plugins, printed, render
from tidegate.cli.exits import Exit
from tidegate.cli.options import ConfigOption, JsonOption, check_route
from tidegate.cli.sampling.samples import Sample, samples
from tidegate.cli.terminal import Text
from tidegate.cli.values import plain, visible
from tidegate.core.advice import about_the_table
from tidegate.core.lineage import LINEAGE_COLUMNS
from tidegate.core.quantities import counted
from tidegate.core.routes import Dataset, Route, RouteIndex
from tidegate.core.uploads import Upload
from tidegate.formats.reasons import first_line
from tidegate.formats.registry import KEEP, REST, adds, unknown_of
from tidegate.formats.type_names import type_name
from tidegate.formats.unknown import called, listed
from tidegate.reading.arrow_schema import arrow_schema
from tidegate.reading.decoding import Decoding
from tidegate.reading.trial import FileTrial, tried
from tidegate.settings import SettingsError, load

MOST_FILES = 1_000
"""Of a folder or of a prefix."""

MOST_EVALUATED = 1_000
"""Rows of a file, from the first one on, for which SQL is evaluated."""

SHOWN_TEXT = 200
"""Characters of a bad row that are shown."""


@dataclass(frozen=True, slots=True)
class TriedFile:
    """A file with its key, the routes that would take it, each with the address that it would have there, and what
    became of it."""

    sample: Sample
    key: str
    taken_by: Mapping[str, str]
    trial: FileTrial

    @property
    def empty(self) -> bool:
        return self.sample.source.size == 0


def try_files(
    route: Annotated[str, typer.Argument(metavar="ROUTE", help="The route that decodes them.")],
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Files, folders, s3://BUCKET/KEY or s3://BUCKET/PREFIX/.")
    ],
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=0, help="Print so many rows.")] = 5,
    key: Annotated[
        str | None, typer.Option("--key", metavar="KEY", help="The key that the file would have. Only for one file.")
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Decode files as a route's job would, and print rows.

    Of a refused file it prints the error that a quarantine would hold. It needs no stack, and changes nothing. A file
    of this machine is taken for one under the prefix. SQL is evaluated for the first 1,000 rows, by Spark: only that
    needs the extra `local`. Ends with 1 if a file is refused, or if no route takes its key.
    """
    routes = load(deployment.config_file(config)).core_routes()
    found = {each.name: each for each in routes}
    check_route(route, found)
    mine = found[route]
    decoding = decoding_of(mine)
    given = list(samples(files, MOST_FILES, mine.owner))
    if key is not None and len(given) != 1:
        raise typer.BadParameter(f"--key is for one file, and {len(given)} are given")
    done: list[TriedFile] = []
    with sql_of_route(mine) as evaluate:
        for sample in given:
            whole = key if key is not None else key_of(sample, mine)
            trial = tried(decoding, whole, sample.source, max(limit, MOST_EVALUATED) if evaluate else limit)
            trial = with_sql(trial, evaluate, limit) if evaluate else trial
            done.append(TriedFile(sample, whole, takers(whole, sample, mine, routes, fixed=key is not None), trial))
            if not as_json:
                show(done[-1], mine)
    if as_json:
        typer.echo(json_output.dumps(as_document(mine, decoding, done)))
    elif not given:
        render.error(f"there is no file in {', '.join(files)}")
    elif limit and (accepted := [each for each in done if not each.trial.refused]):
        # of one file, because there may be a thousand
        most = max(accepted, key=lambda each: each.trial.first.num_rows > 0)
        out = render.console()
        out.print(rows_table(most.trial, most.sample.name, out.width))
    if not given or any(each.trial.refused or not each.taken_by for each in done):
        raise typer.Exit(int(Exit.FINDING))


def decoding_of(route: Route) -> Decoding:
    """How the files of a route are decoded. Raises SettingsError."""
    try:
        generated = [name for name, _ in route.dataset.generated]
        decoding = Decoding(route.dataset, arrow_schema(route.dataset.schema, without=generated))
        decoding.prepare()
    except ValueError as error:
        raise SettingsError(f"route {route.name}: {first_line(error)}") from error
    return decoding


@contextmanager
def sql_of_route(route: Route) -> Iterator[Callable[..., Any] | None]:
    """What evaluates the SQL of a route (`sinks.iceberg.sql_trial.TriedSql`); None if it has none, or if Spark is not
    installed. Raises SettingsError if no job could evaluate it."""
    try:
        start = plugins.local("tried_sql") if route.dataset.where or route.dataset.generated else None
    except plugins.NotInstalled:
        start = None
    if start is None:
        yield None
        return
    from tidegate.flows.sink import Hopeless

    try:
        with start(route.dataset) as evaluate:
            yield evaluate
    except Hopeless as error:
        raise SettingsError(f"route {route.name}: {error}") from error


def with_sql(trial: FileTrial, evaluate: Callable[..., Any], limit: int) -> FileTrial:
    """The trial of a file after the SQL of its route, with so many of the first rows that land."""
    if trial.refused:
        return trial
    said = evaluate(trial.first, [each.row for each in trial.bad])
    if said.reason:
        return FileTrial(0, said.lands, trial.piecewise, said.reason, said.where)
    first, left, by_sql = said.lands.slice(0, limit), said.left_out, trial.first.num_rows
    # what SQL leaves out of the rows behind the first ones is not known
    rows = trial.rows - left if by_sql == trial.rows else trial.rows
    return replace(trial, rows=rows, first=first, bad=trial.bad[:limit], by_sql=by_sql, left_out=left)


def key_of(sample: Sample, route: Route) -> str:
    """The key of a file: an object's own; of a file of this machine its name, under the route's prefix."""
    inside = sample.upload is not None or sample.key.startswith(route.prefix)
    return sample.key if inside else route.prefix + sample.key


def takers(key: str, sample: Sample, mine: Route, routes: Sequence[Route], *, fixed: bool) -> dict[str, str]:
    """The routes that would take the file, with its address there: of an object one at most; of a file of this machine
    this one, or those whose suffix its name has. If its key is `fixed`, it is uploaded under no other one."""
    size = sample.source.size
    if sample.upload is not None:
        taken = RouteIndex(routes).route_of(Upload(sample.upload.bucket, key, sample.upload.version, size))
        return {taken.name: f"s3://{taken.bucket}/{key}"} if taken else {}
    found = {}
    for each in (mine, *routes):
        there = Upload(each.bucket, key if fixed or each is mine else key_of(sample, each), "", size)
        if not each.retired and each.takes(there):
            found[each.name] = there.uri
        if mine.name in found:
            break
    return found


# ---- for people


def show(one: TriedFile, route: Route) -> None:
    out = render.console()
    trial = one.trial
    if trial.refused:
        out.print(Text.assemble(("refused: ", "bold red"), f"{one.sample.name}: {trial.reason}"), soft_wrap=True)
        if trial.where:
            out.print(Text(f"    {trial.where}"), soft_wrap=True)
        if about := about_the_table(trial.reason, route.dataset.table):
            out.print(Text.assemble(("    once uploads were read: ", "yellow"), about), soft_wrap=True)
    else:
        size = "empty" if one.empty else counted(one.sample.source.size, "byte")
        rows = counted(trial.rows, "row")
        piecewise = ", decoded piece by piece" if trial.piecewise else ""
        out.print(Text.assemble((f"{rows}: ", "green"), f"{one.sample.name} ({size}{piecewise})"), soft_wrap=True)
        if sql := about_sql(trial, route.dataset):
            out.print(Text.assemble((f"    {sql[0]}: ", "yellow"), sql[1]), soft_wrap=True)
    if trial.rejected:
        several = counted(trial.rejected, "row")
        out.print(Text.assemble(("    set aside: ", "yellow"), f"{several}, in {route.dataset.rejected_table}"))
        for each in trial.bad:
            out.print(Text(f"      {as_cell(each.error)}"), soft_wrap=True)
            out.print(Text(f"        {each.place}: {as_cell(each.text[:SHOWN_TEXT])}", "dim"), soft_wrap=True)
    if trial.nulls:
        nulls = f"{', '.join(trial.nulls)}. The file has no such column, calls it otherwise, or has no value in it"
        out.print(Text.assemble(("    null in every row: ", "yellow"), nulls), soft_wrap=True)
    for about in about_unknown(trial.unknown, trial.first.schema.names, route.dataset.options):
        out.print(Text.assemble(("    not in the schema: ", "yellow"), about), soft_wrap=True)
    if advice := misplaced(one, route):
        out.print(Text.assemble(("not this route's: ", "bold yellow"), advice), soft_wrap=True)


def about_sql(trial: FileTrial, dataset: Dataset) -> tuple[str, str] | None:
    """What is said of the SQL of a route: what that is about, and a text; None if there is nothing to say."""
    if trial.by_sql is None:
        names = [*(["where"] if dataset.where else []), *(name for name, _ in dataset.generated)]
        return ("by the job only", f"{', '.join(names)} (SQL; here it takes the extra `local`)") if names else None
    first = "the first " if trial.by_sql not in (trial.rows, trial.rows + trial.left_out) else ""
    if dataset.where:
        return "left out", f"{trial.left_out:,} of {first}{counted(trial.by_sql, 'row')}"
    return ("by SQL", f"{first}{counted(trial.by_sql, 'row')}") if first else None


def about_unknown(
    unknown: Iterable[str], columns: Iterable[str], options: Iterable[tuple[str, Any]] = ()
) -> Iterator[str]:
    """What to do about names that the schema lacks, whose `columns` these are; `options` are those of the route."""
    by_lower = {each.lower(): each for each in columns if each != REST}
    may_be_added = []
    for name in unknown:
        if name in by_lower.values():
            yield f"{name}. The column has its values from the key"
        elif column := by_lower.get(name.lower()):
            yield f"{name}. The schema has {column}, and names are compared letter by letter: call it so in the files"
        elif name.lower() in LINEAGE_COLUMNS:
            yield f"{name}. Tidegate adds a column of this name: call it otherwise in the files"
        elif name == called(""):
            yield f"{name}. Give the column a name in the files"
        else:
            may_be_added.append(name)
    if may_be_added:
        becomes = "Add them to the schema, if somebody wants them"
        if unknown_of(options) == KEEP:
            becomes = f"Their values go into {REST}"
        if adds(options):
            becomes = f"They become columns of the table. What fits none goes into {REST}"
        yield f"{listed(may_be_added)}. {becomes}"


def misplaced(one: TriedFile, route: Route) -> str:
    """What is said of a file whose key the route would not take; empty if it would."""
    if route.name in one.taken_by:
        return ""
    if route.retired:
        why = f"route {route.name} is retired and takes no uploads"
    elif one.sample.upload is not None and one.sample.upload.bucket != route.bucket:
        why = f"route {route.name} takes uploads of bucket {route.bucket}"
    elif not one.key.startswith(route.prefix):
        why = f"the key {one.key} does not begin with {route.prefix!r}, the prefix of route {route.name}"
    else:
        why = f"the key {one.key} does not end in {route.suffix!r}, the suffix of route {route.name}"
    others = " or ".join(f"route {name} would take it as {uri}" for name, uri in one.taken_by.items())
    return f"{why}; {others or 'no route would take it'}"


LEAST_WIDTH = 12
"""Characters of a column below which nobody can read it."""
BESIDE = 3
"""Rows that stand side by side, if each column has a line."""
EDGE = 3
"""Characters between two columns."""


def rows_table(trial: FileTrial, name: str, width: int) -> Table:
    """The columns with their types, and the first rows. Where so many columns are not `width` characters wide, each has
    a line of its own."""
    table = Table(box=box.SIMPLE, title=Text(f"the first rows of {name}"), title_justify="left")
    rows = trial.first.to_pylist()
    heads = [
        (printed.visible(each.name), f"{type_name(each.type)}{'' if each.nullable else ' not null'}")
        for each in trial.first.schema
    ]
    if len(heads) * LEAST_WIDTH > width:
        # the values are cut, and never the names
        room = width - EDGE
        for title, texts in zip(("column", "type"), zip(*heads, strict=True), strict=True):
            taken = min(max(map(len, (title, *texts))), width // 4)
            room -= taken + EDGE
            table.add_column(Text(title), overflow="fold", min_width=taken, max_width=taken)
        rows = rows[: max(1, min(BESIDE, room // (LEAST_WIDTH + EDGE)))]
        for number in range(1, len(rows) + 1):
            most = max(LEAST_WIDTH, room // len(rows) - EDGE)
            table.add_column(Text(f"row {number}"), no_wrap=True, overflow="ellipsis", max_width=most)
        for head, field in zip(heads, trial.first.schema.names, strict=True):
            table.add_row(*map(Text, head), *(_cell(row[field]) for row in rows))
    else:
        for head in heads:
            table.add_column(Text("\n".join(head)), overflow="fold")
        for row in rows:
            table.add_row(*map(_cell, row.values()))
    if trial.rows > len(rows) > 0:
        table.caption = f"{trial.rows - len(rows):,} more"
    return table


def _cell(value: Any) -> Text:
    return Text(as_cell(value), style="dim" if value is None else "")


def as_cell(value: Any) -> str:
    return "null" if value is None else visible(value)


# ---- for programs


def as_document(route: Route, decoding: Decoding, done: Sequence[TriedFile]) -> dict[str, Any]:
    names = (
        "file=sample.name key bytes=sample.source.size rows=trial.rows rejected_rows=trial.rejected"
        " rejected=trial.bad null_columns=trial.nulls unknown_columns=trial.unknown error=trial.reason"
        " where=trial.where left_out_rows=trial.left_out"
    )
    return json_output.document(
        route=route.name,
        table=route.dataset.table,
        columns=[
            {"name": each.name, "type": type_name(each.type), "nullable": each.nullable}
            for each in next(
                (each.trial.first.schema for each in done if each.trial.by_sql is not None), decoding.schema
            )
        ],
        rows=sum(each.trial.rows for each in done),
        refused=sum(each.trial.refused for each in done),
        files=[
            {
                **json_output.document(**json_output.picked(each, names), taken_by=[*each.taken_by]),
                "first": plain(each.trial.first.to_pylist()),
            }
            for each in done
        ],
    )
