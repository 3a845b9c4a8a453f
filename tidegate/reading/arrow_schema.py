"""The Arrow schema of a route's columns, without Spark.

It is the one that Spark makes of them, which jobs use (`pyspark.sql.pandas.types.to_arrow_schema`, source of Spark 4.1
read). A test compares the two.
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from tidegate.schemas.ddl import parse
from tidegate.schemas.types import Array, Column, Decimal, Map, Struct, Type

SCALARS: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


def arrow_schema(ddl: str, without: Sequence[str] = ()) -> pa.Schema:
    """The schema of columns in Spark's DDL: `id bigint not null, name string`; of all but these. Raises ValueError."""
    parsed = parse(ddl)
    if parsed.mistakes:
        raise ValueError(f"the schema is wrong: {parsed.mistakes[0].message}")
    return pa.schema([_field(each) for each in parsed.columns if each.name not in without])


def _field(column: Column) -> pa.Field:
    return pa.field(column.name, _type(column.type), column.nullable)


def _type(kind: Type) -> pa.DataType:
    match kind:
        case Decimal():
            return pa.decimal128(kind.precision, kind.scale)
        case Array():
            return pa.list_(pa.field("element", _type(kind.element)))
        case Map():
            return pa.map_(_type(kind.key), pa.field("value", _type(kind.value)))
        case Struct():
            return pa.struct([_field(each) for each in kind.fields])
    return SCALARS[kind.name]
