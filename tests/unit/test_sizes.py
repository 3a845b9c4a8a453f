"""A size in `tidegate.toml` is read as a whole, or refused."""

import pytest
from pydantic import TypeAdapter, ValidationError

from tidegate.settings.values import Size


@pytest.mark.parametrize(
    ("text", "bytes"), [("256MB", 256_000_000), ("1GiB", 1 << 30), ("1.5GB", 1_500_000_000), ("7 kB", 7_000)]
)
def test_a_size_is_a_number_and_a_unit(text: str, bytes: int):
    assert TypeAdapter(Size).validate_python(text) == bytes


@pytest.mark.parametrize("text", ["1,5GB", "2 GB max", "1.5.GB", "GB", "", "-1GB", "1e3MB", "1.500,5MB", "0x10"])
def test_what_only_begins_as_a_size_is_none(text: str):
    with pytest.raises(ValidationError, match="a size is a number and a unit"):
        TypeAdapter(Size).validate_python(text)
