"""A route's schema as Spark has it."""

from functools import lru_cache
from typing import cast

from pyspark.errors import ArithmeticException, ParseException
from pyspark.sql.types import StructType

from tidegate.flows.sink import Hopeless
from tidegate.sinks.iceberg.causes import cause
from tidegate.sinks.iceberg.columns import ColumnFacts


@lru_cache(64)
def struct_of(ddl: str) -> StructType:
    """Nobody may change it: a driver asks for the schema of a route with every batch, and Spark takes 50 ms for 200
    columns. Raises Hopeless if it is no DDL."""
    try:
        return cast(StructType, StructType.fromDDL(ddl))
    except (ParseException, ArithmeticException) as error:
        raise Hopeless(f"the route's schema is not Spark DDL: {cause(error)}") from error


def facts_of(struct: StructType) -> dict[str, ColumnFacts]:
    return {column.name: ColumnFacts(column.dataType.simpleString(), column.nullable) for column in struct}
