"""Columns whose values are in the key of a file: `from_key = "year={year}/month={month}/"`.

What is in the key is read as a field of CSV is, by the type of the column. What Hive writes for null is null, and in
`name=value` what it escapes is what it stands for.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import unquote

import pyarrow as pa

from tidegate.formats.columns import conform
from tidegate.formats.complaints import shown
from tidegate.formats.reasons import Undecodable
from tidegate.formats.registry import key_pattern

NULL_OF_HIVE = "__HIVE_DEFAULT_PARTITION__"
MOST_REMEMBERED = 10_000
"""Different values of one worker, which are small."""


@dataclass(frozen=True)
class KeyColumns:
    """`pattern` is the option `from_key`, `schema` that of the route. It is sent to other processes, so it has plain
    values only."""

    pattern: str
    schema: pa.Schema

    @cached_property
    def _expression(self) -> re.Pattern[str]:
        return re.compile(key_pattern(self.pattern))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns that are in the key, as the schema has them in order."""
        there = self._expression.groupindex if self.pattern else {}
        return tuple(name for name in self.schema.names if name in there)

    @cached_property
    def _of_hive(self) -> frozenset[str]:
        return frozenset(re.findall(r"=\{([^{}]+)\}", self.pattern))

    @property
    def of_file(self) -> pa.Schema:
        """The columns that files have themselves."""
        return pa.schema(field for field in self.schema if field.name not in self.names)

    @cached_property
    def _read(self) -> dict[tuple[str, ...], dict[str, pa.Array]]:
        return {}

    def values(self, key: str) -> dict[str, pa.Array]:
        """The value of each column, as an array of one. Raises Undecodable."""
        if not self.names:
            return {}
        found = self._expression.search(key)
        if found is None:
            raise Undecodable(f"its key {shown(key)} does not fit from_key of the route, which is {self.pattern}")
        texts = tuple(unquote(found[name]) if name in self._of_hive else found[name] for name in self.names)
        # many files have the same
        if texts not in self._read:
            if len(self._read) == MOST_REMEMBERED:
                self._read.clear()
            self._read[texts] = self._values(texts)
        return self._read[texts]

    def _values(self, texts: tuple[str, ...]) -> dict[str, pa.Array]:
        columns = [pa.array([None if text == NULL_OF_HIVE else text], pa.string()) for text in texts]
        fields = pa.schema([self.schema.field(name) for name in self.names])
        given = pa.Table.from_arrays(columns, names=list(self.names))
        read = conform(given, fields, texts=True, place=lambda _: "its key")
        return {name: read[name].combine_chunks() for name in self.names}

    def joined(self, table: pa.Table, values: Mapping[str, pa.Array]) -> pa.Table:
        """All columns of the schema: of the table of a file, or of several, and for each of its rows of `values`."""
        columns = [values[field.name] if field.name in values else table[field.name] for field in self.schema]
        done = pa.Table.from_arrays(columns, schema=self.schema)
        return done.replace_schema_metadata(table.schema.metadata)

    def complete(self, table: pa.Table, values: Mapping[str, pa.Array]) -> pa.Table:
        """As `joined`, of the rows of one file."""
        if not self.names:
            return table
        return self.joined(table, {name: pa.repeat(value[0], table.num_rows) for name, value in values.items()})
