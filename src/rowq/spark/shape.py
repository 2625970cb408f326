"""The columns of a DataFrame: those of the table, fewer if the user chooses, plus the lease's on request."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from rowq.errors import InvalidArgument
from rowq.spark.options import LOG
from rowq.spark.tables import PLACE_COLUMNS, SCHEMAS

if TYPE_CHECKING:
    from rowq.spark.options import Given


def schema_of(given: Given) -> StructType:
    """The schema if the user gives none. Spark does not say here whether it is for a batch or a stream."""
    full = _full(given)
    names = given["columns"] or [name for name in full.names if name != "headers" or given["includeHeaders"]]
    unknown = [name for name in names if name not in full.names]
    if unknown:
        raise InvalidArgument(f"option columns: there is no column {unknown[0]}; the table has {', '.join(full.names)}")
    return from_arrow_schema(pa.schema([full.field(name) for name in names]))


def columns_of(given: Given, schema: StructType) -> list[str]:
    """The names to read. A schema given by the user may leave columns out, but not change them."""
    full = _full(given)
    asked = to_arrow_schema(schema, timezone="UTC")
    for field in asked:
        if field.name not in full.names:
            raise InvalidArgument(f"there is no column {field.name} in the schema of {_table(given)}, which has {', '.join(full.names)}")
        if field.type != full.field(field.name).type:
            offered = from_arrow_schema(pa.schema([full.field(field.name)]))[0].dataType.simpleString()
            raise InvalidArgument(f"column {field.name} is read as {offered}: give it that type in the schema, and cast it afterwards")
    return list(asked.names)


def _full(given: Given) -> pa.Schema:
    fields = list(SCHEMAS[_table(given)])
    return pa.schema([*fields, *PLACE_COLUMNS] if given["includeLease"] else fields)


def _table(given: Given) -> str:
    table: str | None = given["table"]
    return table or ("history" if given["mode"] == LOG else "messages")
