"""What S3 says about an upload, in all its shapes, and what is made of messages that say nothing of the kind."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.build import BUCKET, ETAG, eventbridge_event, s3_message, s3_record
from tidegate.core.notifications import Garbage, NotAnUpload, Notified, parse
from tidegate.core.uploads import Upload

KEYS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(lambda key: len(key.encode()) <= 1024)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
AWKWARD_KEYS = [
    "flights/2013/01.json.gz",
    "with space.json",
    "a+b.json",
    "a%2Bb.json",
    "a%20b+c d.json",
    "100%.json",
    'quote\'d "twice".json',
    "line\nbreak\r\n.json",
    "tab\tand\0nul",
    "naïve/日本語/😀.json",
    "e\u0301 is not \u00e9",
    "line\u2028separator",
    "a=b&c=d;e?f#g",
    "back\\slash",
    "//double//slash",
    " ",
    "+",
    ".",
]


def parsed(body: str) -> Any:
    """The one record of a message."""
    (record,) = parse(body)
    return record


# ---- keys


@pytest.mark.parametrize("key", AWKWARD_KEYS)
def test_a_key_that_s3_encoded_is_decoded_once(key: str):
    assert parsed(s3_message(s3_record(key))).upload.key == key


@pytest.mark.parametrize("key", AWKWARD_KEYS)
def test_a_key_from_eventbridge_is_taken_as_it_is(key: str):
    assert parsed(json.dumps(eventbridge_event(key))).upload.key == key


@given(KEYS)
@example("a%252Bb")
@example("\x7f\x80\ufffd")
def test_any_key_survives_s3s_encoding(key: str):
    assert parsed(s3_message(s3_record(key))) == Notified(Upload(BUCKET, key, f"etag:{ETAG}", 10, "0055AED6DCD90281E5"))


@given(KEYS)
def test_any_key_survives_eventbridge(key: str):
    assert parsed(json.dumps(eventbridge_event(key))).upload.key == key


@pytest.mark.parametrize("key", ["k" * 1024, "é" * 512, "日" * 341 + "k", "😀" * 256], ids=len)
def test_a_key_of_1024_bytes_is_an_upload(key: str):
    assert len(key.encode()) == 1024
    assert parsed(s3_message(s3_record(key))).upload.key == key
    assert parsed(json.dumps(eventbridge_event(key))).upload.key == key


@pytest.mark.parametrize("key", ["k" * 1025, "é" * 512 + "k", "😀" * 256 + "k"], ids=len)
def test_a_key_of_1025_bytes_is_garbage(key: str):
    for body in (s3_message(s3_record(key)), json.dumps(eventbridge_event(key))):
        assert "1025 bytes" in parsed(body).reason


@pytest.mark.parametrize("encoded", ["%FF", "a%C3", "%ED%A0%80", "ok/%80.json", "%C0%AF"])
def test_percent_sequences_that_are_not_utf8_are_garbage_and_never_another_key(encoded: str):
    record = s3_record("x")
    record["s3"]["object"]["key"] = encoded
    body = s3_message(record)
    found = parsed(body)
    assert isinstance(found, Garbage)
    assert repr(encoded) in found.reason
    assert "UTF-8" in found.reason
    assert json.loads(found.body) == json.loads(body)


def test_half_a_surrogate_pair_is_garbage():
    event = eventbridge_event("x")
    event["detail"]["object"]["key"] = "flights/\ud83d.json"
    assert "Unicode" in parsed(json.dumps(event)).reason


# ---- versions


@pytest.mark.parametrize(
    ("version_id", "etag", "version"),
    [
        ("096fKKXTRTtl3on89fVO.nfljtsv6qko", ETAG, "096fKKXTRTtl3on89fVO.nfljtsv6qko"),
        (None, ETAG, f"etag:{ETAG}"),
        ("", ETAG, f"etag:{ETAG}"),
        ("null", ETAG, f"etag:{ETAG}"),
        (None, f"{ETAG}-38", f"etag:{ETAG}-38"),
        (None, f'"{ETAG}"', f"etag:{ETAG}"),
        ("v1", None, "v1"),
    ],
)
def test_the_version_is_the_version_id_or_where_that_names_nothing_the_etag(
    version_id: str | None, etag: str | None, version: str
):
    for body in (
        s3_message(s3_record("k", version_id=version_id, etag=etag)),
        json.dumps(eventbridge_event("k", version_id=version_id, etag=etag)),
    ):
        assert parsed(body).upload.version == version


@pytest.mark.parametrize(("version_id", "etag"), [(None, None), ("null", None), ("null", ""), ("", '""')])
def test_an_upload_without_any_version_is_garbage(version_id: str | None, etag: str | None):
    assert (
        "neither a version id nor an ETag"
        in parsed(s3_message(s3_record("k", version_id=version_id, etag=etag))).reason
    )


def test_both_shapes_give_one_upload_the_same_identity():
    direct = parsed(s3_message(s3_record("a b+c.json", version_id="v7")))
    bridged = parsed(json.dumps(eventbridge_event("a b+c.json", version_id="v7")))
    assert direct.upload.identity == bridged.upload.identity


# ---- what is no upload, and no garbage


def test_s3s_test_event_is_no_upload():
    body = json.dumps(
        {"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": BUCKET, "RequestId": "5582815E1AEA5ADF"}
    )
    assert parse(body) == [NotAnUpload("s3:TestEvent")]


def test_a_message_of_no_records_says_nothing():
    assert parse('{"Records": []}') == []


@pytest.mark.parametrize(
    "event",
    [
        "ObjectRemoved:Delete",
        "ObjectRestore:Completed",
        "LifecycleExpiration:Delete",
    ],
)
def test_a_deletion_and_the_like_are_no_uploads(event: str):
    assert parse(s3_message(s3_record("k", event=event, etag=None, size=None))) == [NotAnUpload(event)]


def test_a_delete_marker_is_told_apart_from_other_deletions():
    # its record has no size and no ETag, which must not make it garbage
    record = s3_record("k", event="ObjectRemoved:DeleteMarkerCreated", version_id="m1", etag=None, size=None)
    bridged = eventbridge_event("k", kind="Object Deleted", version_id="m1", etag=None)
    del bridged["detail"]["object"]["size"]
    bridged["detail"]["deletion-type"] = "Delete Marker Created"
    for body in (s3_message(record), json.dumps(bridged)):
        found = parsed(body)
        assert (found.upload.version, found.upload.size, found.deletion) == ("m1", 0, True)
    bridged["detail"]["deletion-type"] = "Permanently Deleted"
    assert parse(json.dumps(bridged)) == [NotAnUpload("Object Deleted")]


@pytest.mark.parametrize("detail", [{}, {"detail": []}, {"detail": None}, {"detail": {"deletion-type": 7}}])
def test_a_deletion_that_says_nothing_is_none(detail: dict):
    assert parse(json.dumps({"detail-type": "Object Deleted", **detail})) == [NotAnUpload("Object Deleted")]


@pytest.mark.parametrize(("version_id", "etag"), [("null", None), ("null", ETAG), (None, ETAG)])
def test_the_marker_of_a_bucket_with_suspended_versions_is_no_upload(version_id: str | None, etag: str | None):
    record = s3_record("k", event="ObjectRemoved:DeleteMarkerCreated", version_id=version_id, etag=etag, size=None)
    (found,) = parse(s3_message(record))
    assert isinstance(found, NotAnUpload)


@pytest.mark.parametrize("kind", ["Object Deleted", "Object Access Tier Changed"])
def test_other_eventbridge_events_are_no_uploads(kind: str):
    assert parse(json.dumps(eventbridge_event("k", kind=kind, etag=None))) == [NotAnUpload(kind)]


@pytest.mark.parametrize(
    "event",
    [
        *("ObjectCreated:Put", "ObjectCreated:Post", "ObjectCreated:Copy", "ObjectCreated:CompleteMultipartUpload"),
        "s3:ObjectCreated:Put",  # as services that imitate S3 write it
    ],
)
def test_every_way_of_creating_an_object_is_an_upload(event: str):
    assert isinstance(parsed(s3_message(s3_record("k", event=event))), Notified)


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.6", "2.99", "3.0"])
def test_the_event_version_is_not_looked_at(version: str):
    assert isinstance(parsed(s3_message({**s3_record("k"), "eventVersion": version})), Notified)


def test_a_record_without_a_size_is_an_upload_of_unknown_size():
    assert parsed(s3_message(s3_record("k", size=None))).upload.size == 0


# ---- garbage


@pytest.mark.parametrize("body", ["", " ", "{", "not json", '{"Records": [', "\ufeff{}", "'single'", "{} {}"])
def test_broken_json_is_garbage_kept_to_the_letter(body: str):
    found = parsed(body)
    assert isinstance(found, Garbage)
    assert found.body == body
    assert "not JSON" in found.reason


@pytest.mark.parametrize("body", ["null", "1", '"text"', "[]", '[{"Records": []}]', "true", "NaN"])
def test_json_that_is_no_object_is_garbage(body: str):
    assert parse(body) == [Garbage(body, "the message is JSON but not an object")]


@pytest.mark.parametrize(
    "body", ["{}", '{"Records": null}', '{"Records": {}}', '{"records": []}', '{"Event": "other"}']
)
def test_an_object_of_no_known_shape_is_garbage(body: str):
    found = parsed(body)
    assert isinstance(found, Garbage)
    assert found.body == body
    assert "`Records`" in found.reason


def test_json_nested_too_deeply_to_be_read_is_garbage():
    depth = 100_000  # 200 KB, well within what a queue takes
    body = "[" * depth + "]" * depth
    assert parse(body)[0].body == body


@pytest.mark.parametrize(
    "path",
    [("eventName",), ("s3",), ("s3", "bucket"), ("s3", "bucket", "name"), ("s3", "object"), ("s3", "object", "key")],
    ids=".".join,
)
@pytest.mark.parametrize("wrong", ["absent", None, "", 5, [], {}, True], ids=repr)
def test_a_record_whose_necessary_field_is_missing_or_of_a_wrong_type_is_garbage(path: tuple[str, ...], wrong: Any):
    record = s3_record("k")
    inner = record
    for step in path[:-1]:
        inner = inner[step]
    if wrong == "absent":
        del inner[path[-1]]
    else:
        inner[path[-1]] = wrong
    found = parsed(s3_message(record))
    assert isinstance(found, Garbage)
    assert f"no text at `{'.'.join(path)}" in found.reason
    assert json.loads(found.body) == {"Records": [record]}


@pytest.mark.parametrize("path", [("detail",), ("detail", "bucket"), ("detail", "object"), ("detail", "object", "key")])
@pytest.mark.parametrize("wrong", [None, "", 5, []], ids=repr)
def test_an_eventbridge_event_of_wrong_types_is_garbage(path: tuple[str, ...], wrong: Any):
    event = eventbridge_event("k")
    inner = event
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = wrong
    assert isinstance(parsed(json.dumps(event)), Garbage)


@pytest.mark.parametrize(("field", "missing"), [("detail-type", "`detail-type`"), ("detail", "`detail.object.key`")])
def test_of_an_eventbridge_event_that_lacks_a_half_it_is_said_what_is_missing(field: str, missing: str):
    event = eventbridge_event("k")
    del event[field]
    found = parsed(json.dumps(event))
    assert isinstance(found, Garbage)
    assert found.body == json.dumps(event)
    assert missing in found.reason


@pytest.mark.parametrize("record", [None, 1, "text", [], {}], ids=repr)
def test_a_record_that_is_no_object_is_garbage(record: Any):
    assert isinstance(parsed(s3_message(record)), Garbage)


@pytest.mark.parametrize("size", ["10", -1, 1.5, True, None, [], float("nan"), 2**63], ids=repr)
def test_a_size_that_is_no_count_of_bytes_is_garbage(size: Any):
    record = s3_record("k")
    record["s3"]["object"]["size"] = size
    assert "size" in parsed(s3_message(record)).reason


@pytest.mark.parametrize("size", [0, 5 * 2**40, 2**63 - 1])
def test_a_size_is_whatever_s3_says(size: int):
    assert parsed(s3_message(s3_record("k", size=size))).upload.size == size


@pytest.mark.parametrize(("field", "named"), [("versionId", "version id"), ("eTag", "ETag")])
@pytest.mark.parametrize("value", [5, [], {}, True], ids=repr)
def test_a_version_that_is_no_text_is_garbage(field: str, named: str, value: Any):
    record = s3_record("k")
    record["s3"]["object"][field] = value
    assert f"the {named} of s3://{BUCKET}/k is not text" in parsed(s3_message(record)).reason


def test_a_version_id_of_1024_characters_is_an_upload():
    assert parsed(s3_message(s3_record("k", version_id="v" * 1024))).upload.version == "v" * 1024


@pytest.mark.parametrize("version", ["v" * 1025, "é", "\ud83d"], ids=["too long", "no ASCII", "half a pair"])
def test_a_version_that_s3_would_never_give_is_garbage(version: str):
    assert "none of S3's" in parsed(s3_message(s3_record("k", version_id=version))).reason


@pytest.mark.parametrize("sequencer", [None, 0, ""])
def test_a_record_without_a_sequencer_is_an_upload(sequencer: Any):
    record = s3_record("k")
    record["s3"]["object"]["sequencer"] = sequencer
    assert parsed(s3_message(record)).upload.sequencer == ""


def test_a_broken_record_takes_no_neighbour_with_it():
    broken = {"eventName": "ObjectCreated:Put", "s3": "oops"}
    records = parse(
        s3_message(s3_record("a"), broken, s3_record("b"), None, s3_record("c", event="ObjectRemoved:Delete"))
    )
    assert [type(record) for record in records] == [Notified, Garbage, Notified, Garbage, NotAnUpload]
    assert [record.upload.key for record in records if isinstance(record, Notified)] == ["a", "b"]


def test_garbage_can_be_read_again_once_it_has_been_repaired():
    (garbage,) = parse(s3_message({**s3_record("naïve é.json"), "eventName": None}))
    repaired = json.loads(garbage.body)
    repaired["Records"][0]["eventName"] = "ObjectCreated:Put"
    assert parsed(json.dumps(repaired)).upload.key == "naïve é.json"


def test_garbage_is_text_that_can_be_sent_even_if_its_key_is_not_unicode():
    # JSON can escape half a surrogate pair; UTF-8, hence a queue, has no bytes for it
    record = s3_record("x")
    record["s3"]["object"]["key"] = "\ud83d"
    found = parsed(s3_message(record))
    assert isinstance(found, Garbage)
    found.body.encode()


@given(JSON)
def test_whatever_json_comes_nothing_is_raised(value: Any):
    parse(json.dumps(value))
    parse(json.dumps({"Records": [value, s3_record("k")]}))
    parse(json.dumps({"detail-type": "Object Created", "detail": value}))


@given(st.text())
def test_whatever_text_comes_nothing_is_raised(body: str):
    parse(body)


@given(st.lists(st.sampled_from(["good", "bad", "deleted"])))
def test_records_are_judged_one_by_one_and_in_order(kinds: list[str]):
    records = {"good": s3_record("k"), "bad": {"eventName": 5}, "deleted": s3_record("k", event="ObjectRemoved:Delete")}
    expected = {"good": Notified, "bad": Garbage, "deleted": NotAnUpload}
    found = parse(s3_message(*(records[kind] for kind in kinds)))
    assert [type(record) for record in found] == [expected[kind] for kind in kinds]


@pytest.mark.parametrize(
    ("time", "at"),
    [
        ("2026-11-21T10:00:00.000Z", 1_795_255_200),
        ("2026-11-21T11:00:00+01:00", 1_795_255_200),
        ("1970-01-01T00:00:00.000Z", 0),
        ("2026-11-21T10:00:00", 0),
        ("yesterday", 0),
        (5, 0),
        (None, 0),
    ],
)
def test_an_upload_has_the_time_of_its_event_if_there_is_one(time: Any, at: int):
    (by_s3,) = parse(s3_message({**s3_record("a"), "eventTime": time}))
    (by_eventbridge,) = parse(json.dumps({**eventbridge_event("a"), "time": time}))
    assert isinstance(by_s3, Notified)
    assert isinstance(by_eventbridge, Notified)
    assert (by_s3.upload.at, by_eventbridge.upload.at) == (at, at)
