"""Parts and the manifest as files, and uploads shared out among tasks."""

import gzip
import json
from dataclasses import replace
from typing import Any

import pytest
import time_machine
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.support.build import BUCKET, notice, part_of, upload, uploads
from tests.support.ledgers import START
from tidegate.core.errors import Rejected
from tidegate.core.manifests import (
    OwnedUpload,
    Sealed,
    batch_folder,
    bin_pack,
    decode_part,
    decode_sealed,
    floor_name,
    make_part,
    notice_of_part,
    pack_tasks,
    unpack_task,
)
from tidegate.core.uploads import Upload

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
UPLOADS = st.builds(Upload, st.just(BUCKET), TEXT, TEXT, st.integers(0, 2**60), TEXT | st.just(""))
MANY = st.lists(UPLOADS, min_size=1, max_size=12, unique_by=lambda each: each.identity)
ID = "0123456789" * 4


# ---- parts


@given(MANY, st.randoms())
def test_a_part_is_the_same_bytes_whoever_writes_it(of: list[Upload], random):
    assert make_part(ID, BUCKET, random.sample(of, len(of))) == make_part(ID, BUCKET, of)


def test_a_part_is_the_same_bytes_whenever_it_is_written():
    with time_machine.travel(START, tick=False) as time:
        part = make_part(ID, BUCKET, [upload()])
        time.shift(3600)
        assert make_part(ID, BUCKET, [upload()]) == part


@given(MANY)
def test_what_is_written_into_a_part_is_read_from_it(of: list[Upload]):
    items = decode_part(make_part(ID, BUCKET, of).body)
    assert items == [OwnedUpload(ID, each) for each in sorted(of, key=lambda each: each.identity)]


@given(MANY, MANY)
def test_other_uploads_are_another_part_beside_it_not_over_it(one: list[Upload], other: list[Upload]):
    assume(set(one) != set(other))
    assert make_part(ID, BUCKET, one).name != make_part(ID, BUCKET, other).name


@given(MANY)
def test_a_part_knows_its_sums(of: list[Upload]):
    part = make_part(ID, BUCKET, of)
    assert (part.objects, part.size) == (len(of), sum(each.size for each in of))


def test_the_name_of_a_part_names_its_notice():
    of = notice("a", "b")
    assert notice_of_part(part_of(of).name) == of.id


def test_the_name_of_a_part_is_pinned_for_batches_under_way_hold_it():
    assert (
        part_of(notice("flights/a.json", "flights/b.json")).name
        == "parts/6444962112b2a8037aee5ad05d66e23c06122e72-e004b00bf0c54480.jsonl.gz"
    )


@pytest.mark.parametrize("key", ["line\nbreak", "line\u2028separator", "next\x85line", "form\ffeed", "\x1c\x1d\x1e"])
def test_a_line_break_in_a_key_breaks_no_line_of_the_part(key: str):
    part = make_part(ID, BUCKET, [upload(key), upload("other")])
    assert {item.upload.key for item in decode_part(part.body)} == {key, "other"}


def test_a_part_of_a_later_version_is_rejected():
    header, *lines = gzip.decompress(make_part(ID, BUCKET, [upload()]).body).decode().splitlines()
    body = gzip.compress("\n".join([json.dumps({**json.loads(header), "v": 2}), *lines]).encode())
    with pytest.raises(Rejected, match="a part has version 2; this code reads 1"):
        decode_part(body)


@given(MANY, st.integers(1, 7))
def test_each_task_gets_its_own_uploads_with_their_positions(of: list[Upload], count: int):
    items = [OwnedUpload(ID, replace(each, at=number)) for number, each in enumerate(of)]
    tasks = [list(range(start, len(items), count)) for start in range(count)]
    unpacked = [unpack_task(each) for each in pack_tasks(items, tasks)]
    assert unpacked == [[(position, items[position]) for position in task] for task in tasks]
    assert [[item.upload.at for _, item in task] for task in unpacked] == tasks


def test_an_upload_takes_little_more_than_its_own_text():
    items = [OwnedUpload(ID, each) for each in uploads(1_000)]
    (packed,) = pack_tasks(items, [range(1_000)])
    assert len(packed) < 1_000 * (len(ID) + 100)


# ---- the manifest


@given(st.lists(TEXT), st.integers(0), st.integers(0), TEXT)
def test_what_is_written_into_a_manifest_is_read_from_it(parts: list[str], objects: int, size: int, table: str):
    sealed = Sealed("01BATCH", "flights", tuple(parts), objects, size, table)
    assert decode_sealed(sealed.encode()) == sealed
    assert sealed.encode() == Sealed("01BATCH", "flights", tuple(parts), objects, size, table).encode()


SEALED = Sealed("01BATCH", "flights", ("parts/a", "parts/b"), 3, 40, "lake.raw.flights")


@pytest.mark.parametrize(
    "other",
    [{"batch": "01OTHER"}, {"parts": ("parts/a",)}, {"parts": ("parts/a", "parts/c")}, {"objects": 4}, {"size": 41}],
    ids=lambda other: "".join(other),
)
def test_a_manifest_that_counts_something_else_has_another_digest(other: dict[str, Any]):
    assert replace(SEALED, **other).digest != SEALED.digest


def test_neither_the_order_of_the_parts_nor_where_the_rows_go_is_in_the_digest():
    assert replace(SEALED, parts=("parts/b", "parts/a"), route="other", table="").digest == SEALED.digest


def test_the_digest_is_pinned_for_ledgers_and_receipts_remember_it():
    assert SEALED.digest == "cd03b28f348c6328e92e6ee68e649a11"


@pytest.mark.parametrize("field", ["batch", "parts", "objects", "bytes", "digest"])
def test_a_manifest_that_was_changed_is_rejected(field: str):
    data = json.loads(SEALED.encode())
    changed = {"batch": "01OTHER", "parts": ["parts/a"], "objects": 4, "bytes": 41, "digest": "0" * 32}
    body = json.dumps({**data, field: changed[field]}).encode()
    with pytest.raises(Rejected, match=r"sealed\.json of batch 01\w+ was changed"):
        decode_sealed(body)


def test_a_manifest_of_a_later_version_is_rejected():
    data = json.loads(Sealed("01BATCH", "flights", (), 0, 0).encode())
    with pytest.raises(Rejected, match=r"sealed\.json has version 2; this code reads 1"):
        decode_sealed(json.dumps({**data, "v": 2}).encode())


def test_no_batchs_folder_lies_within_anothers():
    assert batch_folder("01A") == "batches/01A/"
    assert not batch_folder("01AB").startswith(batch_folder("01A"))


def test_each_floor_of_a_batch_has_a_name_of_its_own():
    assert [floor_name(number) for number in (0, 1, 2)] == ["floor.json", "floor-1.json", "floor-2.json"]


# ---- shares of the work

SIZES = st.lists(st.integers(0, 1000) | st.integers(0, 10), max_size=60)


@given(SIZES, st.integers(1, 8), st.integers(1, 2000), st.integers(1, 50))
def test_every_object_is_in_exactly_one_task(sizes: list[int], parallelism: int, task_bytes: int, task_objects: int):
    tasks = bin_pack(sizes, parallelism=parallelism, task_bytes=task_bytes, task_objects=task_objects)
    assert sorted(position for task in tasks for position in task) == list(range(len(sizes)))


@given(SIZES, st.integers(1, 8), st.integers(1, 2000), st.integers(1, 50))
def test_no_task_is_empty_and_none_is_without_need(
    sizes: list[int], parallelism: int, task_bytes: int, task_objects: int
):
    tasks = bin_pack(sizes, parallelism=parallelism, task_bytes=task_bytes, task_objects=task_objects)
    assert all(tasks)
    assert len(tasks) <= len(sizes)
    assert len(tasks) >= min(len(sizes), parallelism)


@given(SIZES, st.integers(1, 8), st.integers(1, 2000), st.integers(1, 50))
def test_a_task_is_over_its_bytes_by_less_than_its_smallest_object(
    sizes: list[int], parallelism: int, task_bytes: int, task_objects: int
):
    lightest = max(1, task_bytes // task_objects)
    for task in bin_pack(sizes, parallelism=parallelism, task_bytes=task_bytes, task_objects=task_objects):
        weights = [max(lightest, sizes[position]) for position in task]
        assert sum(weights) - min(weights) < task_bytes


@given(SIZES, st.integers(1, 8), st.integers(1, 40), st.integers(1, 50))
def test_no_task_has_more_objects_than_it_may(sizes: list[int], parallelism: int, each_bytes: int, task_objects: int):
    tasks = bin_pack(sizes, parallelism=parallelism, task_bytes=each_bytes * task_objects, task_objects=task_objects)
    assert all(len(task) <= task_objects for task in tasks)


@given(SIZES, st.integers(1, 8), st.integers(1, 2000), st.integers(1, 50))
def test_the_heaviest_task_is_at_most_one_object_ahead_of_the_lightest(
    sizes: list[int], parallelism: int, task_bytes: int, task_objects: int
):
    lightest = max(1, task_bytes // task_objects)
    weights = [max(lightest, size) for size in sizes]
    tasks = bin_pack(sizes, parallelism=parallelism, task_bytes=task_bytes, task_objects=task_objects)
    loads = [sum(weights[position] for position in task) for task in tasks]
    assert not loads or max(loads) - min(loads) <= max(weights)


def test_sharing_out_is_the_same_every_time():
    sizes = [5, 5, 5, 1, 1, 9, 9, 0]
    assert bin_pack(sizes, parallelism=3, task_bytes=10, task_objects=2) == bin_pack(
        sizes, parallelism=3, task_bytes=10, task_objects=2
    )


def test_nothing_needs_no_task():
    assert bin_pack([], parallelism=8, task_bytes=1, task_objects=1) == []


def test_a_hundred_thousand_empty_objects_keep_every_slot_busy():
    tasks = bin_pack([0] * 100_000, parallelism=16, task_bytes=64_000_000, task_objects=5_000)
    assert {len(task) for task in tasks} == {3_125}
    assert len(tasks) == 2 * 16


def test_a_task_is_filled_to_its_bounds_before_there_is_another():
    assert bin_pack([1] * 10, parallelism=1, task_bytes=10, task_objects=10) == [list(range(10))]
    assert len(bin_pack([1] * 11, parallelism=1, task_bytes=10, task_objects=10)) == 2


@given(SIZES, st.integers(2, 8), st.integers(1, 2000))
def test_tasks_come_in_whole_rounds_of_the_slots(sizes: list[int], parallelism: int, task_bytes: int):
    small = [size for size in sizes if size <= task_bytes]
    tasks = bin_pack(small, parallelism=parallelism, task_bytes=task_bytes, task_objects=task_bytes)
    assert len(tasks) == len(small) or len(tasks) % parallelism == 0


def test_one_huge_object_gets_a_task_to_itself():
    tasks = bin_pack([10_000, 1, 1, 1], parallelism=2, task_bytes=100, task_objects=100)
    assert [0] in tasks
