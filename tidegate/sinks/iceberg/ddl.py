"""A route's schema as Spark has it."""

from typing import cast

from pyspark.errors import ArithmeticException, ParseException
from pyspark.sql.types import StructType

from tidegate.flows.sink import Hopeless
from tidegate.sinks.iceberg.causes import cause
from tidegate.sinks.iceberg.columns import ColumnFacts


def struct_of(ddl: str) -> StructType:
    """Raises Hopeless if it is no DDL."""
    try:
        return cast(StructType, StructType.fromDDL(ddl))
    except (ParseException, ArithmeticException) as error:
        raise Hopeless(f"the route's schema is not Spark DDL: {cause(error)}") from error


def facts_of(struct: StructType) -> dict[str, ColumnFacts]:
    return {column.name: ColumnFacts(column.dataType.simpleString(), column.nullable) for column in struct}
