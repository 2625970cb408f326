"""docs/reference/spark.md lists every option and every column, and nothing else."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from rowq.spark.options import OPTIONS
from rowq.spark.tables import KINDS, SCHEMAS
from tests.docs.page import page

REFERENCE = page("docs/reference/spark.md")
TYPES = {"string": "string", "int64": "bigint", "binary": "binary", "timestamp[us, tz=UTC]": "timestamp"}


def test_every_option_is_listed_with_its_use_and_its_default() -> None:
    listed = [(row[0].strip("`"), tuple(row[1].split(", ")), row[2].strip("`") or None) for row in REFERENCE.table("option")]
    assert listed == [(option.name, option.uses, option.default) for option in OPTIONS]


def test_every_option_says_what_it_means() -> None:
    assert all(row[3] for row in REFERENCE.table("option"))


@pytest.mark.parametrize("kind", KINDS)
def test_every_column_is_listed_with_its_type(kind: str) -> None:
    listed = [(re.sub("`", "", row[0]), row[1]) for row in REFERENCE.table(f"column of `{kind}`")]
    assert listed == [(field.name, TYPES[str(field.type)]) for field in SCHEMAS[kind]]
    assert all(pa.types.is_timestamp(field.type) or str(field.type) in TYPES for field in SCHEMAS[kind])
