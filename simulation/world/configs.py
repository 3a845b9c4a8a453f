"""The tidegate.toml of a world."""

from simulation.world.knobs import PLAIN, Knobs
from tidegate.core.batches import BatchLimits

TABLES = ("lake.sim.events", "lake.sim.plain", "lake.sim.closed")


SUBNETS = '[network]\nsubnets = ["subnet-01234567"]\nsecurity_groups = ["sg-01234567"]\n'
NEVER = "365d"
"""No world lasts as long. What is halted keeps its slot until a person acts, as people may configure it."""


def configured(knobs: Knobs = PLAIN, retired: tuple[str, ...] = (), step_aside: str = "") -> str:
    """Two routes, one of a bucket with versions and one of a bucket without; a third one, if its bucket is to close.
    `retired` are routes that once were in the place of the first one. `step_aside` replaces that of the knobs."""
    tables = (TABLES[0], TABLES[0] if knobs.one_table else TABLES[1], TABLES[2])
    lanes = f"lanes = {knobs.lanes}\n" if knobs.lanes > 1 else ""
    routes = [
        ("events", f'{lanes}bucket = "landing"\nprefix = "events/"\nsuffix = ".json"', tables[0]),
        ("plain", 'bucket = "plain"\nversioned = false', tables[1]),
        ("closed", 'bucket = "closed"\nversioned = false', tables[2]),
    ]
    limits = {"in_flight": knobs.in_flight, "attempts": knobs.attempts, "max_wait": f'"{knobs.max_wait}s"'}
    differing = [name for name in limits if getattr(knobs, name) != getattr(BatchLimits(), name)]
    turned = [f"{name} = {limits[name]}" for name in differing]
    aside = step_aside or (f"{knobs.step_aside:.0f}s" if knobs.step_aside else NEVER)
    batch = "\n".join(["[route.batch]", f'step_aside = "{aside}"', *turned, ""])
    audited = f'[audit]\nmin_age = "{knobs.audit:.0f}s"\nevery = "{knobs.audit_every:.0f}s"\n' if knobs.audit else ""
    announced = "" if knobs.announced else "[announce]\nenabled = false\n"
    # each lane needs an invocation of its own; a job that waits makes a call a second, and needs subnets
    quotas = [f"dispatch_concurrency = {knobs.lanes}"] * (knobs.lanes > 3) + [f'linger = "{knobs.linger}s"'] * bool(
        knobs.linger
    )
    shared = (SUBNETS if knobs.linger else "") + ("\n".join(["[limits]", *quotas, ""]) if quotas else "")
    if knobs.screened:
        batch = f'audit_from = "s3-metadata-inventory"\n{batch}'
    return (
        announced
        + audited
        + shared
        + "\n".join(
            f'[[route]]\nname = "{name}"\n{where}\nformat = "json"\ntable = "{table}"\nschema = "id bigint"\n{batch}'
            for name, where, table in [
                *routes[: 3 if knobs.closed_bucket else 2],
                *((name, routes[0][1] + "\nretired = true", tables[0]) for name in retired),
            ]
        )
    )
