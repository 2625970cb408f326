"""Sound values of every kind that is written down somewhere and read again, as Hypothesis makes them up."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, get_args, get_origin

import msgspec
from hypothesis import strategies as st

from rowq.model.duration import LONGEST_MS
from rowq.model.message import Draft, Message, State
from rowq.model.queue import Settings
from rowq.model.retry import Backoff, Delays, Exponential, Linear
from rowq.store.notify.notifier import Notification

millis = st.integers(0, LONGEST_MS)
moments = st.integers(0, 1 << 48)
seqs = st.integers(0, (1 << 62) - 1)
tokens = st.integers(0, (1 << 63) - 1)
text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=30)
own_ids = st.from_regex(r"[A-Za-z0-9._:-]{1,128}", fullmatch=True)
queues = st.from_regex(r"[A-Za-z0-9._-]{1,60}", fullmatch=True).filter(lambda name: not name.endswith((".dlq", "-dlq")))
json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)
payloads = json | st.binary(max_size=50)
headers = st.dictionaries(text, text, max_size=4)
kv_keys = st.lists(st.lists(names | st.integers(-(1 << 53) + 1, (1 << 53) - 1), min_size=1, max_size=4), min_size=1, max_size=3)

backoffs: st.SearchStrategy[Backoff] = st.one_of(
    st.builds(Delays, st.lists(millis, max_size=5).map(tuple)),
    st.builds(Linear, millis, millis),
    st.builds(Exponential, millis, st.floats(1, 1000), millis, st.floats(0, 1), st.tuples(millis, millis)),
)


def seconds(least: int = 0) -> st.SearchStrategy[float]:
    return st.integers(least, LONGEST_MS).map(lambda ms: ms / 1000)


coming = st.datetimes(max_value=datetime(9000, 1, 1), timezones=st.timezones())
times = st.fixed_dictionaries({"delay": seconds()}) | st.fixed_dictionaries({"at": coming})
drafts = st.builds(
    lambda payload, times, **options: Draft(payload, **times, **options),
    payloads,
    times,
    key=st.none() | names,
    group=st.none() | names,
    priority=st.integers(-(1 << 31) + 1, (1 << 31) - 1),
    ttl=st.none() | seconds(),
    deadline=st.none() | seconds(1),
    max_attempts=st.none() | st.integers(0, 1 << 31),
    backoff=st.none() | backoffs,
    headers=st.none() | headers,
    keys_if_undelivered=st.none() | kv_keys,
    id=st.none() | own_ids,
)

messages = st.builds(
    Message,
    id=own_ids,
    queue=queues,
    state=st.sampled_from(State),
    payload=payloads,
    headers=headers,
    priority=st.integers(-(1 << 31) + 1, (1 << 31) - 1),
    attempts=st.integers(0, 1000),
    sent_at=moments,
    key=st.none() | names,
    group=st.none() | names,
    ttl_ms=st.none() | millis,
    deadline=st.none() | st.integers(1, LONGEST_MS),
    max_attempts=st.none() | st.integers(0, 1 << 31),
    backoff=st.none() | backoffs,
    keys_if_undelivered=st.none() | kv_keys,
    due_at=st.none() | st.integers(1, LONGEST_MS),
    error=st.none() | text,
    cursor=text,
)


def _of_field(field: msgspec.structs.FieldInfo) -> st.SearchStrategy[object]:
    if field.name == "backoff":
        return backoffs
    if field.name == "schema":
        return st.just({"type": "object"})
    hint = next(each for each in get_args(field.type) if each is not type(None))
    return st.integers(1, 256 << 20) if get_origin(hint) is Annotated else st.from_type(hint)


settings = st.fixed_dictionaries({}, optional={field.name: _of_field(field) for field in msgspec.structs.fields(Settings)}).map(
    lambda given: msgspec.convert({name: msgspec.to_builtins(value) for name, value in given.items()}, Settings)
)

places = st.tuples(st.integers(-(1 << 62), 1 << 62), st.integers(-(1 << 62), 1 << 62))
notification = st.builds(
    Notification, st.dictionaries(queues, st.tuples(st.integers(0, 1 << 40), st.none() | places), max_size=4), st.booleans()
)
