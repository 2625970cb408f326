"""Keys to the server on the command line."""

from __future__ import annotations

import re

from rowq import Broker
from tests.cli.driver import Run


def test_create_prints_the_secret_and_nothing_else(run: Run, broker: Broker) -> None:
    result = run("keys", "create", "worker", "--scope", "send", "--scope", "receive", "--queue", "orders.*")
    assert result.exit_code == 0
    assert re.fullmatch(r"rowq_[A-Za-z0-9_-]{43}\n", result.out)
    assert result.err == ""
    [key] = broker.api_keys()
    assert (key.name, key.scopes, key.queues) == ("worker", ("send", "receive"), ("orders.*",))


def test_on_a_terminal_it_is_said_that_the_secret_is_shown_once(run: Run) -> None:
    assert "shown only once" in run("keys", "create", "worker", "--scope", "send", terminal=True).err


def test_create_with_json_is_a_document(run: Run) -> None:
    document = run("keys", "create", "worker", "--scope", "admin", "--json").json
    assert document.pop("secret").startswith("rowq_")
    assert document == {"name": "worker", "scopes": ["admin"], "queues": ["*"]}


def test_create_makes_the_database(run: Run) -> None:
    assert run("keys", "create", "worker", "--scope", "send").exit_code == 0
    assert [key["name"] for key in run("keys", "list", "--json").lines] == ["worker"]


def test_list_shows_what_each_key_may_do_and_no_secret(run: Run) -> None:
    secret = run("keys", "create", "worker", "--scope", "send", "--queue", "a", "--queue", "b.*").out.strip()
    shown = run("keys", "list")
    line = shown.out.splitlines()[-1]
    assert line.startswith("worker") and "send" in line and "a, b.*" in line
    assert secret not in shown.out + run("keys", "list", "--json").out


def test_list_with_json_is_one_list(run: Run, broker: Broker) -> None:
    assert run("keys", "list", "--json").lines == []
    broker.create_key("worker", scopes=["metrics"])
    [key] = run("keys", "list", "--json").lines
    assert (key["name"], key["scopes"], key["queues"]) == ("worker", ["metrics"], ["*"])


def test_revoke_takes_a_key_away(run: Run, broker: Broker) -> None:
    broker.create_key("worker", scopes=["send"])
    assert run("keys", "revoke", "worker").out == "worker is revoked\n"
    assert broker.api_keys() == []


def test_revoking_what_is_not_there_is_exit_code_3(run: Run, broker: Broker) -> None:
    result = run("keys", "revoke", "nobody", "--json")
    assert (result.exit_code, result.error["code"]) == (3, "not_found")


def test_a_key_that_makes_no_sense_is_exit_code_2(run: Run) -> None:
    assert run("keys", "create", "worker", "--scope", "write").exit_code == 2
    assert run("keys", "create", "a b", "--scope", "send").exit_code == 2
    assert "--scope" in run("keys", "create", "worker").err
    run("keys", "create", "worker", "--scope", "send")
    assert "already" in run("keys", "create", "worker", "--scope", "send").err


def test_the_audit_tells_who_made_a_key(run: Run) -> None:
    run("keys", "create", "worker", "--scope", "send")
    told = run("audit").out
    assert "key_created" in told and "worker" in told and "cli:" in told
