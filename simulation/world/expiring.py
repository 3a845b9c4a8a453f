"""A lifecycle rule of the landing bucket: versions that are not current expire."""

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulation.world.world import World


SAME = "its bytes are those of version "


def expire(world: "World") -> None:
    """The earliest version of each object expires, if the next one brought no rows because of its bytes, and that is in
    the table for good. What expires before it is read has vanished, which is another accident."""
    landing = world.s3.buckets["landing"]
    rows_of = _rows_of(world)
    for key in dict.fromkeys(key for key, _ in landing.versions):
        line = sorted((each for each in landing.versions.values() if each.key == key), key=lambda each: each.number)
        while len(line) > 1 and (key, line[1].version_id) in rows_of:
            if (key, line[0].version_id) not in rows_of and rows_of[key, line[1].version_id] != line[0].version_id:
                break
            world.expired.append(line.pop(0))
            del landing.versions[key, world.expired[-1].version_id]


def _rows_of(world: "World") -> dict[tuple[str, str], str]:
    """By key and version of the uploads whose bytes were there, as published batches say: the version with the rows."""
    found: dict[tuple[str, str], str] = {}
    for batch, _, _ in world.published():
        left = dict(world.left_in(f"batches/{batch}/"))
        staged = json.loads(left.get(f"batches/{batch}/receipt.json", b"{}")).get("staged")
        lines = left.get(f"batches/{batch}/outcomes/{staged}.jsonl.gz", b"").decode().splitlines()
        for each in map(json.loads, lines[1:]):
            if each["bucket"] == "landing" and SAME in each["error"]:
                found[each["key"], each["version"]] = each["error"].rpartition(SAME)[2]
    return found
