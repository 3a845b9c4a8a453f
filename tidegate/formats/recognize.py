"""What a file is, by its first bytes: asked of a file that was refused, and of samples for a new route.

The marks are those of the formats' specifications: gzip (RFC 1952), Zstandard (RFC 8878), XZ, ZIP (APPNOTE), Parquet,
Avro's object container files, ORC, and the byte order marks of Unicode.
"""

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.formats.registry import UTF_8, UTF_16

CODECS: Mapping[str, str] = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
"""Arrow's name of the compression that the suffix of a key names."""
SUFFIXES = {codec: suffix for suffix, codec in CODECS.items()}
HEAD_BYTES = 4_096
"""So many bytes are enough to say what a file is."""


@dataclass(frozen=True, slots=True)
class Content:
    """What a file is. `format` is Tidegate's name of it, if it is one; `codec` is Arrow's, of a compression."""

    called: str
    format: str = ""
    codec: str = ""


JSON = Content("JSON", format="json")
UTF_16_TEXT = Content("text in UTF-16")
UNMARKED = Content("text in UTF-16 without a byte order mark")
MARKS: tuple[tuple[bytes, Content], ...] = (
    (b"\x1f\x8b", Content("gzip", codec="gzip")),
    (b"\x28\xb5\x2f\xfd", Content("Zstandard", codec="zstd")),
    (b"\x04\x22\x4d\x18", Content("packed by LZ4")),
    (b"\xff\x06\x00\x00sNaPpY", Content("packed by Snappy")),
    (b"\xfd7zXZ\x00", Content("XZ")),
    (b"PK\x03\x04", Content("a ZIP archive")),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", Content("an old Excel or Word file")),
    (b"%PDF-", Content("a PDF")),
    (b"Obj\x01", Content("Avro", format="avro")),
    (codecs.BOM_UTF16_LE, UTF_16_TEXT),
    (codecs.BOM_UTF16_BE, UTF_16_TEXT),
)
MARKS_OF_LETTERS: tuple[tuple[bytes, Content], ...] = (
    (b"PAR1", Content("Parquet", format="parquet")),
    (b"ORC", Content("ORC", format="orc")),
    (b"BZh", Content("bzip2", codec="bz2")),
)
"""These could begin a text, too: they count before bytes that no text has."""
EXCEL = re.compile(rb"\[Content_Types\]\.xml|xl/")
OBJECT = re.compile(rb'(?:\xef\xbb\xbf)?\s*(?:\[\s*)?\{\s*(?:"|\})')
MARKUP = re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:\?xml|!doctype|html)", re.IGNORECASE)
TAG = re.compile(rb"(?:\xef\xbb\xbf)?\s*<[a-z]+[ >:]", re.IGNORECASE)
END_OF_TAG = re.compile(rb"</|/>")
"""A file that begins with a tag is markup if one ends: a column of a CSV file may be called `<a>`."""
CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
SHOWN_FORMATS = {
    "json": "JSON lines",
    "csv": "CSV",
    "parquet": "Parquet",
    "avro": "Avro",
    "orc": "ORC",
}


def recognize(head: bytes) -> Content | None:
    """What the first bytes of a file say that it is; None for text of no such kind, and for what is not known."""
    for mark, content in MARKS:
        if head.startswith(mark):
            is_excel = content.called == "a ZIP archive" and EXCEL.search(head)
            return Content("an Excel workbook") if is_excel else content
    for mark, content in MARKS_OF_LETTERS:
        if head.startswith(mark) and not is_text(head):
            return content
    if OBJECT.match(head):
        return JSON
    if MARKUP.match(head) or (TAG.match(head) and END_OF_TAG.search(head)):
        return Content("XML or HTML")
    few, many = sorted((head[0::2].count(0), head[1::2].count(0)))
    if len(head) >= 4 and few == 0 and many > len(head) // 4 and is_ascii(head.replace(b"\x00", b"")):
        return UNMARKED
    return None


def is_text(head: bytes) -> bool:
    """Whether it may be text in an encoding in which ASCII is ASCII."""
    return not CONTROLS.search(head)


def is_utf_8(head: bytes) -> bool:
    """Whether it is text in UTF-8, of which the end may be cut off."""
    try:
        codecs.getincrementaldecoder(UTF_8)().decode(head)
    except UnicodeDecodeError:
        return False
    return is_text(head)


def is_ascii(head: bytes) -> bool:
    return is_text(head) and head.isascii()


def is_json_array(head: bytes) -> bool:
    """Whether a file begins with an array that is all of it, or of several lines: its lines are no objects. An array on
    a line of its own among others is a line."""
    line, _, rest = head.lstrip().partition(b"\n")
    return line.startswith(b"[") and not (rest.strip() and line.rstrip().endswith(b"]"))


def instead(format: str, encoding: str, head: bytes) -> str:
    """What is said of a refused file that is no file of its route's format at all; empty if it may be one. `head` are
    its first bytes, without the compression that its key names."""
    if format not in SHOWN_FORMATS:
        return ""
    wanted = SHOWN_FORMATS[format]
    if not head:
        return "" if format in ("json", "csv") else f"the file is empty (0 bytes): {wanted} has more, also without rows"
    found = recognize(head)
    if found is None:
        if format in ("json", "csv") or not is_utf_8(head):
            return ""
        begins = repr(head[:20].decode("utf-8", "backslashreplace"))
        return f"the file is text, and the route's format is {format}: it begins with {begins}. Set another `format`"
    if found.format == format:
        return ""
    said = f"the file is {found.called}, and the route's format is {format}"
    if found.codec:
        suffix = SUFFIXES[found.codec]
        return f"the file is {found.called}, and its name does not end in {suffix}: name it so, or upload it unpacked"
    if found.format == "json":
        return f'{said}: set format = "json" for it, or write it as {wanted}'
    if found.format:
        return f'{said}: it begins as {found.called} does. Set format = "{found.format}" for it, or write {wanted}'
    if found in (UTF_16_TEXT, UNMARKED) and format == "json":
        return f"the file is {found.called}, and JSON is in UTF-8: iconv -f UTF-16 -t UTF-8 FILE"
    if found in (UTF_16_TEXT, UNMARKED) and format == "csv" and encoding == UTF_16:
        return ""
    if found is UTF_16_TEXT and format == "csv":
        return f'{said} in {encoding}: set encoding = "utf-16", or write it in {UTF_8}'
    if found is UNMARKED and format == "csv":
        return f'the file is {found.called}: write it with one, and set encoding = "utf-16"; or write it in {UTF_8}'
    return f"{said}: write it as {wanted}"


def not_packed(codec: str, head: bytes) -> str:
    """What is said of a file that cannot be unpacked, and is not packed as its name says; empty if it may be. `head`
    are its first bytes, as it is stored."""
    found = recognize(head)
    if found is not None and found.codec == codec:
        return ""
    called = found.called if found is not None else "text" if head and is_utf_8(head) else ""
    if not called and head:
        called = f"not packed by {codec}"
    if not called:
        return ""
    suffix = SUFFIXES[codec]
    instead = f"name it {SUFFIXES[found.codec]}" if found is not None and found.codec else f"take {suffix} off its name"
    return f"the file is {called}, and its name ends in {suffix}: {instead}, or upload it packed by {codec}"
