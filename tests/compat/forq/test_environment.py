"""FORQ_… in the environment: what each means, what beats it, and what a mistake is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rowq import InvalidArgument
from rowq.model.access import SCOPES, digest_of
from rowq.server.compat.forq.api import Options
from rowq.server.compat.forq.environment import KNOWN
from rowq.server.config import Config, load
from tests.docs.page import page
from tests.support.serving import Served

SECRET = "a-secret-of-thirty-two-characters"  # noqa: S105  # of this test


def loaded(folder: Path, environment: dict[str, str], **flags: Any) -> Config:
    return load(flags, environment, folder=folder)


class TestMeaning:
    def test_without_any_of_them_nothing_changes(self, tmp_path: Path) -> None:
        assert loaded(tmp_path, {"FORQ_AUTH_SECRET": "", "FORQUE": "x"}) == Config()

    def test_the_secret_is_a_key_that_may_do_everything(self, tmp_path: Path) -> None:
        ((key, digest),) = loaded(tmp_path, {"FORQ_AUTH_SECRET": SECRET}).keys
        assert (key.name, key.scopes, key.sees_all, digest) == ("forq", SCOPES, True, digest_of(SECRET))

    def test_the_secret_of_the_metrics_opens_them_alone(self, tmp_path: Path) -> None:
        config = loaded(tmp_path, {"FORQ_AUTH_SECRET": SECRET, "FORQ_METRICS_AUTH_SECRET": "another", "FORQ_METRICS_ENABLED": "true"})
        assert {key.name: key.scopes for key, _ in config.keys} == {"forq": SCOPES, "forq-metrics": ("metrics",)}
        assert config.metrics

    def test_one_secret_for_both_is_one_key(self, tmp_path: Path) -> None:
        ((key, _),) = loaded(tmp_path, {"FORQ_AUTH_SECRET": SECRET, "FORQ_METRICS_AUTH_SECRET": SECRET}).keys
        assert key.name == "forq"

    @pytest.mark.parametrize("name", ["FORQ_AUTH_SECRET", "FORQ_DB_PATH", "FORQ_ENV"])
    def test_metrics_are_off_once_any_is_set(self, tmp_path: Path, name: str) -> None:
        assert not loaded(tmp_path, {name: "local"}).metrics
        assert loaded(tmp_path, {name: "local", "FORQ_METRICS_ENABLED": "true"}).metrics
        assert loaded(tmp_path, {name: "local", "ROWQ_METRICS": "true"}).metrics

    def test_hours_are_those_of_the_api(self, tmp_path: Path) -> None:
        config = loaded(tmp_path, {"FORQ_QUEUE_TTL_HOURS": "48"})
        assert config.compat_options == {"forq": Options(queue_ttl_hours=48, dlq_ttl_hours=168)}
        assert loaded(tmp_path, {"FORQ_DLQ_TTL_HOURS": "1"}).compat_options["forq"] == Options(queue_ttl_hours=24, dlq_ttl_hours=1)

    def test_they_beat_the_file(self, tmp_path: Path) -> None:
        (tmp_path / "rowq.toml").write_text("[server]\nport = 1\n[compat.forq]\nqueue_ttl_hours = 2\npoll = 5\n", encoding="utf-8")
        config = loaded(tmp_path, {"FORQ_QUEUE_TTL_HOURS": "3", "FORQ_API_ADDR": "localhost:2"})
        assert (config.port, config.compat_options["forq"]) == (2, Options(queue_ttl_hours=3, poll=5))

    def test_the_path_may_hold_anything(self, tmp_path: Path) -> None:
        assert loaded(tmp_path, {"FORQ_DB_PATH": "/var/lib/my forq?.db"}).url == "sqlite:////var/lib/my%20forq%3F.db"
        assert loaded(tmp_path, {"FORQ_DB_PATH": "./forq.db"}).url == "sqlite:///./forq.db"

    @pytest.mark.parametrize(
        ("address", "host", "port"),
        [("localhost:8080", "localhost", 8080), ("[::1]:80", "::1", 80), (":8080", "0.0.0.0", 8080), ("10.0.0.1:0", "10.0.0.1", 0)],  # noqa: S104
    )
    def test_an_address_is_a_host_and_a_port(self, tmp_path: Path, address: str, host: str, port: int) -> None:
        config = loaded(tmp_path, {"FORQ_API_ADDR": address, "FORQ_UI_ADDR": address})
        assert (config.host, config.port, config.admin_host, config.admin_port) == (host, port, host, port)

    def test_our_own_names_and_flags_beat_them(self, tmp_path: Path) -> None:
        of_forq = {"FORQ_API_ADDR": "localhost:1", "FORQ_DB_PATH": "forq.db", "FORQ_METRICS_ENABLED": "true"}
        config = loaded(tmp_path, {**of_forq, "ROWQ_PORT": "2", "ROWQ_METRICS": "false"}, url="sqlite:///flag.db")
        assert (config.host, config.port, config.url, config.metrics) == ("localhost", 2, "sqlite:///flag.db", False)


class TestMistakes:
    @pytest.mark.parametrize(
        ("name", "text"),
        [
            *(
                (name, text)
                for name in ("FORQ_API_ADDR", "FORQ_UI_ADDR")
                for text in ("8080", "host:port", "host:65536", "a:b:1", "http://x:1")
            ),
            *(
                (name, text)
                for name in ("FORQ_QUEUE_TTL_HOURS", "FORQ_DLQ_TTL_HOURS")
                for text in ("x", "0", "-1", "1.5", "99999", "9" * 5000)
            ),
            ("FORQ_METRICS_ENABLED", "perhaps"),
            ("FORQ_AUTH_SECRET", "with space"),
            ("FORQ_DB_PATH", "not-utf-8-\udcff.db"),
        ],
    )
    def test_what_cannot_be_is_told_with_its_name(self, tmp_path: Path, name: str, text: str) -> None:
        with pytest.raises(InvalidArgument, match=name):
            loaded(tmp_path, {name: text})

    def test_a_secret_is_never_told(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidArgument) as refused:
            loaded(tmp_path, {"FORQ_AUTH_SECRET": "with space"})
        assert "with space" not in str(refused.value)

    def test_an_unknown_name_is_remarked_on_and_not_refused(self, tmp_path: Path) -> None:
        config = loaded(tmp_path, {"FORQ_ENV": "local", "FORQ_QUEUE_TTL_HOUR": "1"})
        assert [remark.partition(" ")[0] for remark in config.remarks] == ["FORQ_ENV", "FORQ_QUEUE_TTL_HOUR"]
        assert "did you mean FORQ_QUEUE_TTL_HOURS?" in config.remarks[1]


class TestDocuments:
    GUIDE = page("docs/guide/forq.md")

    def test_every_variable_is_listed(self) -> None:
        assert {row[0].strip("`") for row in self.GUIDE.table("variable")} == set(KNOWN)

    def test_the_file_that_is_shown_is_possible(self, tmp_path: Path) -> None:
        (shown,) = [block.text for block in self.GUIDE.blocks if block.text.startswith("[compat.forq]")]
        (tmp_path / "rowq.toml").write_text(shown, encoding="utf-8")
        assert loaded(tmp_path, {}).compat_options["forq"] == Options(queue_ttl_hours=48)


def test_a_server_that_is_started_as_forq_is(tmp_path: Path) -> None:
    environment = {
        "FORQ_AUTH_SECRET": SECRET,
        "FORQ_METRICS_ENABLED": "true",
        "FORQ_METRICS_AUTH_SECRET": "metrics-alone",
        "FORQ_API_ADDR": "localhost:1",
        "FORQ_UI_ADDR": "localhost:8081",
        "FORQ_QUEUE_TTL_HOURS": "2",
        "FORQ_DLQ_TTL_HOURS": "3",
        "FORQ_ENV": "local",
    }
    served = Served(tmp_path, "--json", **environment)
    try:
        assert served.announced()["needs_key"]
        assert served.ask("POST", "/api/v1/queues/emails/messages", {"content": "x"}, x_api_key=SECRET).status == 204
        policy = served.ask("GET", "/v1/queues/emails/policy", x_api_key=SECRET).json
        assert (policy["ttl_ms"], policy["dlq_ttl_ms"]) == (2 * 3_600_000, 3 * 3_600_000)
        assert [served.ask("GET", "/metrics", x_api_key=key).status for key in (SECRET, "metrics-alone", "wrong")] == [200, 200, 401]
        assert served.ask("GET", "/api/v1/queues/emails/messages", x_api_key="metrics-alone").status == 403
        assert "FORQ_ENV has no effect" in served.log and SECRET not in served.log
    finally:
        served.close()


def test_without_a_secret_it_listens_to_this_machine_alone(tmp_path: Path) -> None:
    served = Served(tmp_path, FORQ_API_ADDR=":0")
    try:
        assert served.ended() == 2 and "without a key the server only listens on this machine" in served.log
    finally:
        served.close()
