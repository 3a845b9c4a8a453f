"""A file as a piece of a text of many files, which is decoded in one call.

Decoding a file has a cost besides its bytes: for 2 KB it is most of the cost. So small files of text are written one
after the other, and decoded as one. `reading.together` does that, and says why it changes nothing.

A format's module has `make_piece(schema, max_bytes, **options)` if its files can be joined. It returns a function from
a file's bytes to its `Piece`, or None if the file must be decoded alone. It promises:

- The decoder takes `head` and the `text` of several pieces of the same head, joined in this order, exactly if it takes
  each of the files alone. The rows are then those of the files, in this order, `rows` of each.
- The decoder would not refuse any of the files for its size.

What the decoder checks of a file as a whole is not promised: whether it has a column of the schema at all.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Piece:
    """`text` ends with the end of a line, and has `rows` rows. Texts follow each other after one `head`."""

    head: bytes
    text: bytes
    rows: int
