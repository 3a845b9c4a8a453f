"""The end of an ORC file: its stripes, and what Arrow's reader does not say of them.

Arrow decodes the columns. It does not say how many rows a stripe has, in which zone the writer was, and by which
calendar it counted days. So the footers are read here: they are messages of Protocol Buffers in blocks of the file's
codec. Specification: https://orc.apache.org/specification/ORCv1/
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from tidegate.formats.blocks import inflate, unsnap
from tidegate.formats.places import run
from tidegate.formats.reasons import CELL_BYTES, Oversized, Undecodable
from tidegate.formats.streams import LONGEST_RECORD, ByteSource, unpack

MAGIC = b"ORC"
LARGEST_POSTSCRIPT = 256
CODECS: Mapping[int, tuple[str, Callable[[bytes, int], bytes] | None]] = {
    0: ("none", None),
    1: ("zlib", inflate),
    2: ("snappy", unsnap),
    5: ("zstd", partial(unpack, "zstd")),
}
PROLEPTIC = 2
"""The number of the calendar of ISO 8601. Other writers count days before 15 October 1582 by the Julian one, or do not
say by which."""
VARINT, EIGHT, LENGTH, FOUR = 0, 1, 2, 5
"""How the value of a field is written."""
LAST_OF_VARINT = 0x80
LONGEST_VARINT = 10


@dataclass(frozen=True, slots=True)
class Stripe:
    """`number` counts from 0. The footer of the stripe has `footer` bytes from `end - footer`."""

    number: int
    rows: int
    end: int
    footer: int


@dataclass(frozen=True, slots=True)
class Tail:
    """`rows` are those that the footer names. `days_are_iso`: whether all days are counted by ISO 8601's calendar.
    `sizes`: how many bytes the values of each column take in memory, by the file's statistics; a damaged file may say
    less."""

    rows: int
    stripes: tuple[Stripe, ...]
    days_are_iso: bool
    codec: int
    sizes: Mapping[str, int]


def read_tail(source: ByteSource) -> Tail:
    """Raises Undecodable, and what `source` raises."""
    size = source.size
    last = source.read(max(0, size - 1 - LARGEST_POSTSCRIPT), size) if size else b""
    length = last[-1] if last else 0
    if not length or length + 1 + len(MAGIC) > size:
        raise Undecodable("not ORC: it does not end as an ORC file does")
    postscript = _fields(last[-1 - length : -1])
    if _bytes(postscript, 8000) != MAGIC:
        raise Undecodable("not ORC: it does not end as an ORC file does")
    codec, footer = _number(postscript, 2), _number(postscript, 1)
    if codec not in CODECS:
        known = ", ".join(name for name, _ in CODECS.values())
        raise Undecodable(f"its stripes are packed by a codec that is not read. These are: {known}")
    end = size - 1 - length
    if footer > LONGEST_RECORD:
        raise Undecodable(f"too large: a footer of {footer} bytes, at most {LONGEST_RECORD}")
    if not 0 < footer <= end:
        raise Undecodable("not ORC: its footer is longer than the file")
    about = _fields(_unpacked(source.read(end - footer, end), codec))
    if 10 in about:
        raise Undecodable("it has encrypted columns, for which there is no key here")
    stripes = tuple(_stripe(number, _fields(_as_bytes(each)), end) for number, each in enumerate(about.get(3, ())))
    return Tail(_number(about, 6), stripes, _number(about, 11) == PROLEPTIC, codec, _sizes(about))


def _stripe(number: int, about: "Fields", end: int) -> Stripe:
    offset, index, data, footer, rows = (_number(about, each) for each in (1, 2, 3, 4, 5))
    stop = offset + index + data + footer
    if not len(MAGIC) <= offset < stop <= end or not footer:
        raise Undecodable(f"not ORC: {run('stripe', number)} lies outside of the file", where=run("stripe", number))
    return Stripe(number, rows, stop, footer)


def _sizes(about: "Fields") -> dict[str, int]:
    """By the name of each column. It is the first of a run of types: those of its values, down to the next column."""
    types = [_fields(_as_bytes(each)) for each in about.get(4, ())]
    values = [_size(_fields(_as_bytes(each))) for each in about.get(7, ())]
    root = types[0] if types else {}
    begins = [number for each in root.get(2, ()) for number in _numbers(each)]
    names = [_as_bytes(each).decode("utf-8", "replace") for each in root.get(3, ())]
    ends = [*begins[1:], len(types)]
    return {name: sum(values[begin:end]) for name, begin, end in zip(names, begins, ends, strict=False)}


def _size(statistics: "Fields") -> int:
    """What the values take: each some bytes, and its text."""
    texts = _number(_fields(_bytes(statistics, 4)), 3) >> 1
    others = _number(_fields(_bytes(statistics, 8)), 1) >> 1
    return CELL_BYTES * _number(statistics, 1) + texts + others


def _numbers(packed: int | bytes) -> list[int]:
    """Numbers that are written one by one, or together."""
    if isinstance(packed, int):
        return [packed]
    found, place = [], 0
    while place < len(packed):
        number, place = _varint(packed, place)
        found.append(number)
    return found


def zones(source: ByteSource, tail: Tail) -> Iterator[tuple[Stripe, str]]:
    """The zone of each stripe's writer, empty if it does not say. Raises Undecodable, and what `source` raises."""
    for stripe in tail.stripes:
        if stripe.footer > LONGEST_RECORD:
            raise Undecodable(f"too large: a footer of {stripe.footer} bytes", where=run("stripe", stripe.number))
        packed = source.read(stripe.end - stripe.footer, stripe.end)
        try:
            yield stripe, _bytes(_fields(_unpacked(packed, tail.codec)), 3).decode("utf-8", "replace")
        except Undecodable as error:
            error.where = run("stripe", stripe.number)
            raise


def _unpacked(packed: bytes, codec: int) -> bytes:
    """The text of blocks. Each has a header of three bytes: its length, and whether it is as it was."""
    unpack_block = CODECS[codec][1]
    if unpack_block is None:
        return packed
    found: list[bytes] = []
    place = size = 0
    while place < len(packed):
        header = int.from_bytes(packed[place : place + 3], "little")
        place += 3
        length = header >> 1
        block = packed[place : place + length]
        if len(block) != length or place > len(packed):
            raise Undecodable("not ORC: a block of a footer ends too early")
        place += length
        try:
            found.append(block if header & 1 else unpack_block(block, LONGEST_RECORD - size))
        except Oversized as error:
            raise Undecodable(f"too large: a footer of more than {LONGEST_RECORD} bytes, unpacked") from error
        size += len(found[-1])
        if size > LONGEST_RECORD:
            raise Undecodable(f"too large: a footer of more than {LONGEST_RECORD} bytes, unpacked")
    return b"".join(found)


# ---- messages (https://protobuf.dev/programming-guides/encoding/)

Fields = dict[int, list[int | bytes]]
"""The values of a message by the numbers of their fields, as they are written."""


def _fields(message: bytes) -> Fields:
    """Raises Undecodable."""
    found: Fields = {}
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        kind = key & 7
        if kind == VARINT:
            value: int | bytes
            value, place = _varint(message, place)
        else:
            length = {EIGHT: 8, FOUR: 4}.get(kind, -1)
            if kind == LENGTH:
                length, place = _varint(message, place)
            if not 0 <= length <= len(message) - place:
                raise Undecodable("not ORC: a footer is damaged")
            value = message[place : place + length]
            place += length
        found.setdefault(key >> 3, []).append(value)
    return found


def _varint(message: bytes, place: int) -> tuple[int, int]:
    """A number, and where it ends."""
    number = 0
    for shift, byte in enumerate(message[place : place + LONGEST_VARINT]):
        number |= (byte & 0x7F) << 7 * shift
        if byte < LAST_OF_VARINT:
            return number, place + shift + 1
    raise Undecodable("not ORC: a footer is damaged")


def _number(fields: Fields, field: int) -> int:
    value = fields.get(field, [0])[-1]
    if not isinstance(value, int):
        raise Undecodable("not ORC: a footer is damaged")
    return value


def _bytes(fields: Fields, field: int) -> bytes:
    return _as_bytes(fields.get(field, [b""])[-1])


def _as_bytes(value: int | bytes) -> bytes:
    if not isinstance(value, bytes):
        raise Undecodable("not ORC: a footer is damaged")
    return value
