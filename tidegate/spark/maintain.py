"""A job that maintains tables, one after the other (`tidegate.core.maintenance`).

    step, for each table                      if the driver dies right after it       if a twin runs beside it
    1 read the table's history, and judge     nothing has happened                    the same
      what may expire
    2 compact small files, at most so many    they stay small files of old            of two rewrites of a file one
                                              snapshots; the next run compacts on     commits, the other fails
    3 rewrite manifests, if they are many     the same rows in fewer manifests        the same
    4 expire snapshots, the oldest first      the next run expires the rest; files    the second finds nothing left
                                              that were not deleted are orphans
    5 delete orphan files                     the next run deletes the rest           each deletes what is there
    6 merge files of position deletes, if     they stay; the next run merges them     as 2
      they are many
    7 write complete.json, if there is none   done                                    one writes it

The request was read before the job: its floors are of then, or older. A floor that was written later lies at or above
the head of then, and everything above that is younger than the request: step 4 takes nothing that young
(`tidegate.flows.maintain`). Step 1 and step 4 may see two states of the table. In between `main` may grow, which keeps
more; or be rolled back or replaced, which loses the floors whatever is expired. A retention that somebody gives to
`main` in between is not seen: a batch may halt.

If the settings change meanwhile, the request keeps its own. If the ledger was rebuilt in between, the request
may lack a batch: its floor may expire, and then nobody publishes it by itself.

An error in one table is its trouble, and the next one is maintained. No table is begun once half of the job's time is
over (`MaintainLimits.begin_for`); the next period begins with another table.
"""

import json
import logging
import time
from collections.abc import Callable
from dataclasses import replace

import boto3
from pyspark.sql import SparkSession

from tidegate.aws.work import S3Work
from tidegate.core.maintenance import (
    CompleteMaintenance,
    MaintainedTable,
    MaintenanceRequest,
    decode_maintenance_request,
    maintenance_folder,
    retention,
)
from tidegate.sinks.iceberg.causes import cause
from tidegate.sinks.iceberg.columns import quoted
from tidegate.sinks.iceberg.table import MAINTAIN
from tidegate.sinks.iceberg.upkeep import TARGET_DEFAULT, Upkeep
from tidegate.spark.session import open_session

log = logging.getLogger("tidegate")


def run(identifier: str, work_bucket: str, account: str) -> int:
    """Maintain as run `identifier` asks. 0 if every table was, now or already."""
    work = S3Work(boto3.client("s3"), work_bucket, account)
    folder = maintenance_folder(identifier)
    try:
        asked = work.get(folder + "request.json")
        if asked is None:
            raise ValueError(f"{folder}request.json is not in the work bucket")
        spark = open_session(f"tidegate-maintain-{identifier}")
        complete = maintain_tables(spark, decode_maintenance_request(asked))
        work.put_if_absent(folder + "complete.json", complete.encode())
        spark.stop()
    except Exception as error:
        log.exception("nothing was maintained")
        work.put(folder + "failure.json", json.dumps({"reason": cause(error)}).encode())
        return 1
    return 1 if complete.troubled else 0


def maintain_tables(
    spark: SparkSession, request: MaintenanceRequest, clock: Callable[[], float] = time.monotonic
) -> CompleteMaintenance:
    """Maintain the tables of the request, in their order."""
    begun = clock()
    done: list[MaintainedTable] = []
    for name in request.tables:
        if clock() - begun > request.limits.begin_for:
            done.append(MaintainedTable(name, trouble="not begun: the tables before it took too long"))
            continue
        done.append(_maintained(Upkeep(spark, name), request))
        log.info("%s", done[-1])
    return CompleteMaintenance(tuple(done))


def _maintained(upkeep: Upkeep, request: MaintenanceRequest) -> MaintainedTable:
    done = MaintainedTable(upkeep.name)
    try:
        if not upkeep.exists:
            return replace(done, remarks=("there is no such table yet",))
        if upkeep.is_kept_whole:
            return replace(done, remarks=("left alone: its property gc.enabled is false",))
        if upkeep.name not in request.asked_for and not upkeep.is_ours:
            return replace(done, remarks=(_NOT_OURS.format(table=quoted(upkeep.name)),))
        for step in (_compact, _rewrite_manifests, _expire, _remove_orphans, _merge_deletes):
            done = step(upkeep, request, done)
    except Exception as error:
        log.exception("table %s", upkeep.name)
        return replace(done, trouble=cause(error))
    return done


_NOT_OURS = (
    "left alone: Tidegate has not created it, and others may need its old snapshots. To have it maintained, set"
    " `maintain = true` in its route, or ALTER TABLE {table} SET TBLPROPERTIES ('"
    + MAINTAIN
    + "' = 'true'); to be rid of this remark, set `maintain = false`"
)


def _compact(upkeep: Upkeep, request: MaintenanceRequest, done: MaintainedTable) -> MaintainedTable:
    small, size = upkeep.small_files()
    done = replace(done, small=small)
    if small < 2 and not upkeep.many_deletes():
        return done
    files, of_bytes = (small, max(1, size)) if small else (1, TARGET_DEFAULT)
    at_most = min(request.limits.compact_files, max(2, request.limits.compact_bytes * files // of_bytes))
    if small > at_most:
        done = _behind(done, f"{small - at_most} small files are left for later runs")
    if request.dry_run:
        return done
    files, into, read, failed = upkeep.compact(at_most)
    done = replace(done, compacted=files, compacted_into=into, compacted_bytes=read)
    return _behind(done, f"{failed} files could not be compacted") if failed else done


def _merge_deletes(upkeep: Upkeep, request: MaintenanceRequest, done: MaintainedTable) -> MaintainedTable:
    """The last step: nothing rests on it, and Iceberg refuses some tables, such as one whose column was dropped by
    which it was partitioned."""
    if request.dry_run or not upkeep.many_deletes():
        return done
    try:
        return replace(done, deletes=upkeep.merge_deletes())
    except Exception as error:
        log.exception("the files of deletes of table %s", upkeep.name)
        return replace(done, remarks=(*done.remarks, f"files of deletes were not merged: {cause(error)}"))


def _rewrite_manifests(upkeep: Upkeep, request: MaintenanceRequest, done: MaintainedTable) -> MaintainedTable:
    return done if request.dry_run else replace(done, manifests=upkeep.rewrite_manifests())


def _expire(upkeep: Upkeep, request: MaintenanceRequest, done: MaintainedTable) -> MaintainedTable:
    standing = upkeep.standing()
    done = replace(done, snapshots=standing.snapshots)
    if standing.obstacle:
        return _behind(done, f"no snapshot expires: {standing.obstacle}")
    keep = retention(standing.ancestors, standing.uuid, request.unfinished, request.limits, request.at)
    if keep.held_by:
        return _behind(
            done,
            f"no snapshot expires: the history reaches no floor of batch {keep.held_by}, and a person has to decide"
            " about it first (`tidegate status`)",
        )
    if keep.later:
        done = _behind(done, f"{keep.later} snapshots are left for later runs")
    if request.dry_run:
        return replace(done, expired=keep.expirable)
    deleted = upkeep.expire(keep)
    left = upkeep.standing().snapshots
    return replace(done, expired=max(0, standing.snapshots - left), deleted=deleted)


def _remove_orphans(upkeep: Upkeep, request: MaintenanceRequest, done: MaintainedTable) -> MaintainedTable:
    if other := upkeep.other_table():
        return replace(done, remarks=(*done.remarks, _SHARED.format(file=other.file, uuid=other.uuid)))
    older_than = request.at - request.limits.orphans_after
    return replace(done, orphans=upkeep.remove_orphans(older_than, dry_run=request.dry_run))


_SHARED = (
    "orphan files stay: in this table's folder are files of another table too ({file} is of table uuid {uuid}), and"
    " they would go with the orphans. A table that was renamed, or dropped without its files, leaves them there"
    " (docs/operations.md, Old tables)"
)


def _behind(done: MaintainedTable, text: str) -> MaintainedTable:
    """Something is left, and `text` says what and why."""
    return replace(done, remarks=(*done.remarks, text), behind=True)
