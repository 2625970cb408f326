"""Types for single values: checked where a request is read, and shown in its description.

`extra_json_schema` is only shown; what it says is checked elsewhere, with a helpful message.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from rowq.model.duration import LAST_MS
from rowq.model.member import MOST_SHARES

_NO_NUL = {"pattern": r"^[^\u0000]*$"}
_BASE64 = r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"

Name = Annotated[str, Meta(min_length=1, max_length=255, extra_json_schema=_NO_NUL)]
Storable = Annotated[str, Meta(extra_json_schema=_NO_NUL)]
SomeText = Annotated[str, Meta(min_length=1, extra_json_schema=_NO_NUL)]
OwnId = Annotated[str, Meta(max_length=128, extra_json_schema={"pattern": "^[A-Za-z0-9._:-]{1,128}$"})]
Base64 = Annotated[str, Meta(extra_json_schema={"contentEncoding": "base64", "pattern": _BASE64})]
Note = Annotated[str, Meta(max_length=100_000)]
KeyText = Annotated[str, Meta(min_length=1, max_length=1024, extra_json_schema=_NO_NUL)]
KeyPart = KeyText | Annotated[int, Meta(gt=-(1 << 53), lt=1 << 53)]
KvPath = KeyText | Annotated[list[KeyPart], Meta(min_length=1, max_length=20)]
ShareBody = tuple[Annotated[int, Meta(ge=0, lt=MOST_SHARES)], Annotated[int, Meta(ge=1, le=MOST_SHARES)]]
Moment = Annotated[int, Meta(ge=0, le=LAST_MS)]
InFlight = Annotated[int, Meta(ge=1, le=1_000)]
Limit = Annotated[int, Meta(ge=1, le=1_000)]
StateName = Literal["ready", "scheduled", "leased", "blocked", "dead", "finished"]
QueueName = Annotated[str, Meta(extra_json_schema={"pattern": "^[A-Za-z0-9._-]{1,64}([.-]dlq)?$"})]
