"""The identity of an upload."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.uploads import Upload, object_hash, version_of

TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def test_size_and_sequencer_are_no_part_of_the_identity():
    assert Upload("b", "k", "v", 1, "A").identity == Upload("b", "k", "v", 2, "B").identity


def test_a_versioned_upload_is_read_by_its_version_id():
    upload = Upload("b", "k", "v1", 1)
    assert (upload.version_id, upload.etag) == ("v1", None)


def test_an_unversioned_upload_is_read_by_its_etag():
    upload = Upload("b", "k", "etag:abc", 1)
    assert (upload.version_id, upload.etag) == (None, "abc")


@given(TEXT | st.none(), TEXT | st.none())
def test_a_version_leads_back_to_exactly_one_way_of_reading(version_id: str | None, etag: str | None):
    version = version_of(version_id, etag)
    if not version:
        return
    upload = Upload("b", "k", version, 1)
    assert (upload.version_id is None) != (upload.etag is None)


def test_the_null_version_names_nothing():
    assert version_of("null", '"abc"') == "etag:abc"
    assert version_of("null", None) == ""
    assert version_of("nullable", None) == "nullable"


@pytest.mark.parametrize("etag", ["X", "XabX", 'a"b', "9bb58f26-38"])
def test_of_an_etag_the_quotes_around_it_go_and_nothing_else(etag: str):
    assert version_of(None, f'"{etag}"') == version_of(None, etag) == f"etag:{etag}"


def test_a_person_can_read_which_upload_it_is():
    assert str(Upload("landing", "a b.json", "v1", 1)) == "s3://landing/a b.json (v1)"


@given(TEXT)
def test_the_hash_has_one_length_and_is_fit_for_a_table_key(key: str):
    assert len(object_hash("landing", key)) == 40
    assert set(object_hash("landing", key)) <= set("0123456789abcdef")


@given(st.tuples(TEXT, TEXT), st.tuples(TEXT, TEXT))
def test_different_objects_have_different_hashes(one: tuple[str, str], other: tuple[str, str]):
    # a bucket's name holds no NUL, so bucket and key cannot be cut differently into the same text
    one, other = ((pair[0].replace("\0", ""), pair[1]) for pair in (one, other))
    assert (object_hash(*one) == object_hash(*other)) == (one == other)


@pytest.mark.parametrize(("one", "other"), [(("a", "b/c"), ("a/b", "c")), (("a", "bc"), ("ab", "c"))])
def test_bucket_and_key_cannot_be_cut_differently(one: tuple[str, str], other: tuple[str, str]):
    assert object_hash(*one) != object_hash(*other)


def test_the_hash_is_pinned_for_it_is_the_ledgers_key():
    assert object_hash("landing", "flights/a.json") == "a61e3d76cd8fa8264fa0a2777506f749d343c500"
