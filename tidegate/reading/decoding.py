"""One file's bytes become a table, or the reason why not."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from tidegate.core.routes import Dataset
from tidegate.formats.decode import Decoder, decoder
from tidegate.formats.paths import unplaceable
from tidegate.formats.reasons import Undecodable, first_line
from tidegate.reading.decompress import decompress

log = logging.getLogger("tidegate.reading")


@dataclass(frozen=True, slots=True)
class Refused:
    """The file cannot become rows. The reason is for its owner, and so is `where` in the file it is (`formats.places`):
    it quotes the file, so it is never logged."""

    reason: str
    where: str = ""


Decode = Callable[[str, bytes], pa.Table | Refused]
"""The table in a file of this key and these bytes."""


@dataclass(frozen=True)
class Decoding:
    """How the files of a dataset are decoded. It is sent to other processes, so it has plain values only."""

    dataset: Dataset
    schema: pa.Schema

    def __call__(self, key: str, body: bytes) -> pa.Table | Refused:
        """Raises MemoryError, and nothing else: other files must land, whatever this one contains."""
        limit = self.dataset.max_object_bytes
        try:
            table = self._decode(decompress(key, body, limit))
            unplaced = unplaceable(table, self.dataset.partition_by)
        except Undecodable as error:
            return Refused(str(error), error.where)
        except MemoryError:
            # perhaps not the fault of the file: another worker, or the next attempt, may have the memory
            raise
        except Exception as error:
            log.exception("decoding %s failed", key)
            return Refused(
                f"the decoder failed, which is a bug of the decoder: {type(error).__name__}: {first_line(error)}"
            )
        return Refused(unplaced) if unplaced else table

    @cached_property
    def _decode(self) -> Decoder:
        given = self.dataset
        return decoder(given.format, self.schema, given.options, max_bytes=given.max_object_bytes)
