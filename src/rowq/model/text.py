"""Text that every database can store: no NUL, at which some truncate, and no lone surrogates, which UTF-8 cannot encode."""

from __future__ import annotations

from rowq.errors import InvalidArgument


def is_text(value: object) -> bool:
    if not isinstance(value, str) or "\0" in value:
        return False
    return value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)


def check_text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise InvalidArgument(f"{what} must be text, not {type(value).__name__}")
    if not is_text(value):
        raise InvalidArgument(f"{what} contains characters that cannot be stored (NUL, or half of a surrogate pair)")
    return value


def clean_text(value: str) -> str:
    """Replaces characters that cannot be stored: for reasons and names that must not cause an error."""
    return value if is_text(value) else value.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
