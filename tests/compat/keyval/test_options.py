"""`[compat.keyval]` and the manifest: what they say holds, and what they cannot mean is told before the server listens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rowq.errors import InvalidArgument
from rowq.server import config
from rowq.server.compat.keyval.api import LOCK_MS, Options
from rowq.server.compat.registry import open_apis
from tests.compat.keyval.client import Client
from tests.server.support import ask, serving
from tests.support.patience import eventually
from tests.support.serving import Served

MANIFEST = """\
name: keyval
base: /keyval
queue:
  cleanupInterval: 60000  # 60 seconds (default)
  lockDuration: 45000
"""


PRINTED = (
    """\
queue:
  lockDuration: 30000  # 30 seconds (default)
""",
    """\
queue:
  cleanupInterval: 60000  # 60 seconds (default)
  lockDuration: 30000     # 30 seconds (default)
""",
)


def load(folder: Path, table: str, manifest: str = MANIFEST) -> Options:
    (folder / "manifest.yaml").write_text(manifest, encoding="utf-8")
    (folder / "rowq.toml").write_text(f"[compat.keyval]\n{table}\n".replace("FOLDER", str(folder)), encoding="utf-8")
    options: Options = config.load({}, {}, folder=folder).compat_options["keyval"]
    return options


def test_a_manifest_says_how_long_a_lock_lasts(tmp_path: Path) -> None:
    options = load(tmp_path, 'manifest = "FOLDER/manifest.yaml"')
    assert (options.lock_duration_ms, options.cleanup_interval_ms) == (45_000, 60_000)


@pytest.mark.parametrize("manifest", PRINTED)
def test_the_printed_manifests_say_what_holds_without_them(tmp_path: Path, manifest: str) -> None:
    options = load(tmp_path, 'manifest = "FOLDER/manifest.yaml"', manifest)
    assert options.lock_duration_ms == LOCK_MS
    assert options.cleanup_interval_ms in (None, 60_000)


def test_what_the_configuration_says_itself_comes_first(tmp_path: Path) -> None:
    options = load(tmp_path, 'manifest = "FOLDER/manifest.yaml"\nlock_duration_ms = 5000')
    assert (options.lock_duration_ms, options.cleanup_interval_ms) == (5_000, 60_000)


@pytest.mark.parametrize("manifest", ["", "name: keyval\n", "queue:\n", "queue: {}\n"])
def test_a_manifest_may_say_nothing_of_the_queue(tmp_path: Path, manifest: str) -> None:
    assert load(tmp_path, 'manifest = "FOLDER/manifest.yaml"', manifest).lock_duration_ms is None


@pytest.mark.parametrize(
    "manifest",
    [
        "queue: [1]\n",
        "queue: 30000\n",
        "- queue\n",
        "queue:\n  lockDuration: 0\n",
        "queue:\n  lockDuration: 30s\n",
        "queue:\n  lockDuration: -1\n",
        "queue:\n  cleanupInterval: -1\n",
        "queue:\n  lockDurations: 1\n",
        "queue: {\n",
        "queue: !!python/object:os.system {}\n",
        "\0",
    ],
)
def test_a_manifest_that_makes_no_sense_is_refused(tmp_path: Path, manifest: str) -> None:
    with pytest.raises(InvalidArgument, match=r"compat\.keyval.*manifest\.yaml"):
        load(tmp_path, 'manifest = "FOLDER/manifest.yaml"', manifest)


def test_a_manifest_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"nowhere\.yaml cannot be read: No such file"):
        load(tmp_path, 'manifest = "FOLDER/nowhere.yaml"')


@pytest.mark.parametrize(
    "table",
    [
        'queue = "no name"',
        'queue = "jobs.dlq"',
        "queue = 1",
        "lock_duration_ms = 0",
        'lock_duration_ms = "30s"',
        "cleanup_interval_ms = -1",
        "in_flight = 0",
        "in_flight = 1001",
        "lock_duration = 1",
    ],
)
def test_options_that_make_no_sense_are_refused(tmp_path: Path, table: str) -> None:
    with pytest.raises(InvalidArgument, match=r"compat\.keyval"):
        load(tmp_path, table)


def test_the_queue_may_have_another_name(tmp_path: Path) -> None:
    with serving(tmp_path, compat=open_apis(("keyval",), {"keyval": Options(queue="jobs")})) as server:
        id = Client(server).enqueue(1)
        assert ask(server, "POST", "/v1/queues/jobs/deliveries").json["deliveries"][0]["id"] == id


def test_a_lock_duration_that_is_named_holds_for_a_queue_that_is_there(tmp_path: Path) -> None:
    with serving(tmp_path, compat=open_apis(("keyval",), {"keyval": Options(lock_duration_ms=60_000)})) as server:
        client = Client(server)
        assert ask(server, "PUT", "/v1/queues/keyval", {"lease_ms": 1}).status == 200
        id = client.enqueue(1)
        client.poll()
        message = ask(server, "GET", f"/v1/messages/{id}").json
        assert message["lease_until"] - message["leased_at"] == 60_000


def test_c12_without_cleanup_nothing_is_stranded(tmp_path: Path) -> None:
    (tmp_path / "manifest.yaml").write_text("queue:\n  cleanupInterval: 0\n  lockDuration: 300\n", encoding="utf-8")
    (tmp_path / "rowq.toml").write_text('[compat.keyval]\nmanifest = "manifest.yaml"\n', encoding="utf-8")
    served = Served(tmp_path, "--json", "--compat", "keyval")
    try:
        served.announced()
        id = served.ask("POST", "/keyval/api/queue/enqueue", {"value": 1}).json["id"]

        def poll() -> Any:
            return served.ask("GET", "/keyval/api/queue/poll").json["message"]

        assert poll()["attempts"] == 1
        again = eventually(poll)
        assert (again["id"], again["attempts"]) == (id, 2)
        eventually(lambda: served.ask("GET", "/keyval/api/queue/stats").json["processing"] == 0)
        assert served.ask("GET", "/api/v1/queues/q/messages").status == 404  # the APIs that were not asked for are closed
    finally:
        served.close()
