"""Text in other encodings than UTF-8, as UTF-8: strictly, so that a byte that means nothing refuses the file.

The encodings are those of `formats.registry`. A file in pieces and a whole one are refused in the same words.
"""

import codecs
from collections.abc import Iterable, Iterator

from tidegate.formats import places
from tidegate.formats.reasons import Undecodable
from tidegate.formats.records import Lines
from tidegate.formats.registry import UTF_8, UTF_16

MARK = "\ufeff".encode()
"""The byte order mark in UTF-8."""
UTF_16_MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
KEPT = places.QUOTED + 1
"""How many characters of a line are kept, for the message."""
ONE_BYTE = ("iso-8859-", "windows-")
"""How the names of encodings begin in which each character is one byte, and ASCII's characters have ASCII's bytes."""


def is_of_bytes(encoding: str) -> bool:
    """Whether line ends, quotes and delimiters are found in the bytes as they are."""
    return encoding == UTF_8 or encoding.startswith(ONE_BYTE)


def in_utf8(parts: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """The text in UTF-8, part by part. Raises Undecodable."""
    if encoding == UTF_8:
        yield from parts
        return
    reading: _Transcoding | None = None
    beginning = b""
    for part in parts:
        if reading is None:
            beginning += part
            if len(beginning) < len(MARK):
                continue
            part, reading = beginning, _Transcoding(*_begun(beginning, encoding))
        yield from reading.add(part)
    if reading is None and beginning:
        reading = _Transcoding(*_begun(beginning, encoding))
        yield from reading.add(beginning)
    if reading is not None:
        yield from reading.add(b"", final=True)


def _begun(beginning: bytes, encoding: str) -> tuple[str, str]:
    """What the encoding is called, and Python's name of it."""
    if beginning.startswith(MARK):
        raise Undecodable(
            f"not {encoding}, which the route says: it begins with the byte order mark of UTF-8. Set its `encoding`",
            where="line 1",
        )
    if encoding != UTF_16:
        return encoding, encoding
    if beginning[:2] not in UTF_16_MARKS:
        raise Undecodable(
            f"not {encoding}, which the route says: it has no byte order mark. Write it with one, or set `encoding`",
            where="line 1",
        )
    return encoding, UTF_16_MARKS[beginning[:2]]


class _Transcoding:
    def __init__(self, called: str, codec: str) -> None:
        self._called = called
        self._codec = codec
        self._decoder = codecs.getincrementaldecoder(codec)("strict")
        self._lines = Lines()
        self._line = ""
        """The beginning of the line that has not ended."""

    def add(self, part: bytes, *, final: bool = False) -> Iterator[bytes]:
        """Nothing, or some text."""
        try:
            text = self._decoder.decode(part, final)
        except UnicodeDecodeError as error:
            self._note(error.object[: error.start].decode(self._codec))
            bad = error.object[error.start : max(error.end, error.start + 1)]
            raise Undecodable(
                f"not {self._called}, which the route says: the bytes {bad[:8].hex(' ')} in line"
                f" {self._lines.ended + 1} are no character. Set the `encoding` that it has, or write it in"
                f" {self._called}",
                where=places.line(self._lines.ended + 1, self._line.encode() + bad[:1]),
            ) from error
        self._note(text)
        if text:
            yield text.encode()

    def _note(self, text: str) -> None:
        self._lines.add(text.encode())
        # a return at the end of the part before may be half a line end, which ends no second line
        begin = max(text.rfind("\n"), text.rfind("\r")) + 1
        self._line = (text[begin : begin + KEPT] if begin else self._line + text)[:KEPT].removeprefix("\ufeff")
