"""The tidegate.toml of a world."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

from simulation.world.knobs import PLAIN, Knobs
from tidegate.core.batches import BatchLimits
from tidegate.settings import fixed

TABLES = ("lake.sim.events", "lake.sim.plain", "lake.sim.closed")


NEVER = 365 * 86_400
"""Seconds; no world lasts as long. What is halted keeps its slot until a person acts."""


def configured(knobs: Knobs = PLAIN, retired: tuple[str, ...] = ()) -> str:
    """Two routes, one of a bucket with versions and one of a bucket without; a third one, if its bucket is to close.
    `retired` are routes that once were in the place of the first one. What no `tidegate.toml` says is in `pace`."""
    tables = (TABLES[0], TABLES[0] if knobs.one_table else TABLES[1], TABLES[2])
    lanes = f"lanes = {knobs.lanes}\n" if knobs.lanes > 1 else ""
    lanes += 'on_overwrite = "replace"\n' if knobs.replaces else ""
    lanes += 'on_overwrite = "skip same bytes"\n' if knobs.skips and not knobs.replaces else ""
    lanes += 'on_delete = "remove"\n' if knobs.replaces and knobs.removes else ""
    routes = [
        ("events", f'{lanes}bucket = "landing"\nprefix = "events/"\nsuffix = ".json"', tables[0]),
        ("plain", 'bucket = "plain"\nversioned = false', tables[1]),
        ("closed", 'bucket = "closed"\nversioned = false', tables[2]),
    ]
    limits = {"in_flight": knobs.in_flight, "max_wait": f'"{knobs.max_wait}s"'}
    differing = [name for name in limits if getattr(knobs, name) != getattr(BatchLimits(), name)]
    batch = "\n".join(["[route.batch]", *(f"{name} = {limits[name]}" for name in differing), ""])
    audited = f'[audit]\nevery = "{knobs.audit_every:.0f}s"\n' if knobs.audit else ""
    stays = f'[limits]\nstay = "{knobs.stay}s"\n'
    announced = "" if knobs.announced else '[announce]\nbus = ""\n'
    if knobs.where:
        batch = f'where = "{knobs.where}"\n{batch}'
    if knobs.screened:
        batch = f'audit_from = "s3-metadata-inventory"\n{batch}'
    return (
        announced
        + stays
        + audited
        + "\n".join(
            f'[[route]]\nname = "{name}"\n{where}\nformat = "json"\ntable = "{table}"\nschema = "id bigint"\n{batch}'
            for name, where, table in [
                *routes[: 3 if knobs.closed_bucket else 2],
                *((name, routes[0][1] + "\nretired = true", tables[0]) for name in retired),
            ]
        )
    )


@contextmanager
def pace(knobs: Knobs) -> Iterator[None]:
    """What a deployment does not choose, in a world that does not last as long."""
    batch = replace(fixed.BATCH, attempts=knobs.attempts, step_aside=round(knobs.step_aside) or NEVER)
    given = {"BATCH": batch, "MIN_AGE": round(knobs.audit) or fixed.MIN_AGE}
    with patch.multiple(fixed, **given):
        yield
