"""A file without the compression that its key names."""

from tidegate.formats.recognize import CODECS
from tidegate.formats.streams import unpack


def codec_of(key: str) -> str | None:
    """Arrow's name of the compression that the key's suffix names."""
    return next((name for suffix, name in CODECS.items() if key.endswith(suffix)), None)


def decompress(key: str, body: bytes, max_bytes: int) -> bytes:
    """`body` without the compression that the key's suffix names. Raises Undecodable, also past `max_bytes`."""
    codec = codec_of(key)
    return body if codec is None or not body else unpack(codec, body, max_bytes)
