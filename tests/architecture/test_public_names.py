"""What users may rely on: the public names, the error codes, the version."""

from __future__ import annotations

import inspect
import re
import tomllib
from collections import Counter

import rowq
from rowq import errors
from tests.architecture.source import ROOT

ERRORS = {name: kind for name, kind in vars(errors).items() if inspect.isclass(kind) and issubclass(kind, errors.RowqError)}

PUBLISHED_CODES = {
    "ambiguous_id",
    "broker_closed",
    "checkpoint_mismatch",
    "consumer_gone",
    "database_restored",
    "forbidden",
    "held_by_stream",
    "id_taken",
    "internal",
    "invalid_argument",
    "invalid_receipt",
    "receipt_required",
    "java_not_found",
    "lake_busy",
    "lake_error",
    "lake_mismatch",
    "lease_lost",
    "message_not_found",
    "name_reserved",
    "not_found",
    "outcome_unknown",
    "payload_rejected",
    "payload_too_large",
    "queue_full",
    "queue_not_found",
    "request_conflict",
    "schema_mismatch",
    "server_unavailable",
    "staging_lost",
    "store_busy",
    "store_corrupt",
    "store_error",
    "store_full",
    "store_read_only",
    "store_unavailable",
    "stream_not_found",
    "stream_revoked",
    "stream_taken",
    "too_many_failures",
    "unauthorized",
}


def test_every_public_name_exists() -> None:
    missing = [name for name in rowq.__all__ if not hasattr(rowq, name)]
    assert not missing, f"rowq.__all__ promises {missing}: import them in rowq/__init__.py, or take them off the list"


def test_public_names_are_sorted_and_listed_once() -> None:
    assert list(rowq.__all__) == sorted(set(rowq.__all__)), "sort rowq.__all__ by code point (capitals first), each name once"


def test_every_error_is_public() -> None:
    hidden = sorted(set(ERRORS) - set(rowq.__all__))
    assert not hidden, f"users cannot catch {hidden} by name: add them to rowq.__all__"


def test_every_error_has_a_code_of_its_own() -> None:
    inherited = [name for name, kind in ERRORS.items() if "code" not in vars(kind)]
    assert not inherited, f"give {inherited} a code of their own in errors.py"
    shared = [code for code, times in Counter(kind.code for kind in ERRORS.values()).items() if times > 1]
    assert not shared, f"several errors share {shared}: a program could not tell them apart"
    malformed = [kind.code for kind in ERRORS.values() if not re.fullmatch(r"[a-z]+(_[a-z]+)*", kind.code)]
    assert not malformed, f"codes are lower_case_words: {malformed}"


def test_published_error_codes_stay_as_they_are() -> None:
    codes = {kind.code for kind in ERRORS.values()}
    assert not PUBLISHED_CODES - codes, "programs out there compare with these codes: bring them back"
    assert not codes - PUBLISHED_CODES, "a new code is a promise: add it to PUBLISHED_CODES, and to CHANGELOG.md"


def test_the_package_tells_the_version_it_was_built_as() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert rowq.__version__ == project["version"], "after a change of version run `make test` again, which installs it"
