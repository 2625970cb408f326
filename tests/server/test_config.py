"""The configuration: where it comes from, what beats what, and what a mistake is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import rowq
from rowq import InvalidArgument
from rowq.model.access import SCOPES, digest_of
from rowq.server.config import FILE, SCALARS, Config, check_exposed, load, making_a_key
from tests.docs.page import page

DIGEST = digest_of("s3cret").hex()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def written(folder: Path, text: str, name: str = FILE) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def loaded(folder: Path, environment: dict[str, str] | None = None, **flags: Any) -> Config:
    return load(flags, environment or {}, folder=folder)


class TestSources:
    def test_nothing_said_is_a_server_for_this_machine(self, folder: Path) -> None:
        config = loaded(folder)
        assert (config.url, config.host, config.port, config.workers) == ("sqlite:///rowq.db", "127.0.0.1", 8080, 1)
        assert (config.max_body_bytes, config.max_header_bytes, config.max_connections) == (16 << 20, 32 << 10, 10_000)
        assert config.exposed is None and config.keys == ()

    def test_a_flag_beats_a_variable_beats_the_file(self, folder: Path) -> None:
        written(folder, '[server]\nhost = "localhost"\nport = 1\nbacklog = 7\n')
        config = loaded(folder, {"ROWQ_PORT": "2", "ROWQ_BACKLOG": "8"}, backlog=9)
        assert (config.host, config.port, config.backlog) == ("localhost", 2, 9)

    def test_a_file_can_be_named(self, folder: Path) -> None:
        written(folder, "[server]\nport = 1\n")
        other = written(folder, "[server]\nport = 2\n", "other.toml")
        assert load({}, {}, file=other, folder=folder).port == 2
        assert loaded(folder, {"ROWQ_CONFIG": str(other)}).port == 2

    def test_a_file_that_was_named_must_be_there(self, folder: Path) -> None:
        with pytest.raises(InvalidArgument, match="cannot be read"):
            load({}, {}, file=folder / "missing.toml")

    @pytest.mark.parametrize(
        ("variable", "name", "value"),
        [
            ("true", "http2", True),
            ("1", "access_log", True),
            ("0", "otel", False),
            ("0.5", "header_timeout", 0.5),
            ("75", "idle_timeout", 75.0),
            ("json", "log_format", "json"),
            ("sqlite:///a.db", "url", "sqlite:///a.db"),
        ],
    )
    def test_a_variable_is_text_and_becomes_what_is_meant(self, folder: Path, variable: str, name: str, value: object) -> None:
        assert getattr(loaded(folder, {f"ROWQ_{name.upper()}": variable}), name) == value

    def test_an_empty_variable_says_nothing(self, folder: Path) -> None:
        assert loaded(folder, {"ROWQ_PORT": ""}).port == 8080

    def test_every_setting_can_be_said_in_each_way(self, folder: Path) -> None:
        certificate = written(folder, "", "cert.pem")
        values: dict[str, Any] = {
            "url": "sqlite:///b.db",
            "redis": "redis://localhost/1",
            "host": "localhost",
            "port": 1,
            "admin": True,
            "admin_host": "localhost",
            "admin_port": 2,
            "workers": 1,
            "http2": True,
            "tls_cert": str(certificate),
            "tls_key": str(certificate),
            "max_body_bytes": 2_000,
            "max_header_bytes": 2_000,
            "header_timeout": 1.5,
            "body_timeout": 2.5,
            "idle_timeout": 3.5,
            "max_connections": 4,
            "backlog": 5,
            "stop_timeout": 6.5,
            "log_format": "json",
            "log_level": "debug",
            "access_log": True,
            "otel": True,
            "metrics": True,
            "compat": "forq,keyval",
        }
        assert set(values) == set(SCALARS)
        expected = Config(**values)
        variables = {f"ROWQ_{name.upper()}": str(value).lower() if value is True else str(value) for name, value in values.items()}
        toml = "".join(f"{name} = {msgspec.json.encode(value).decode()}\n" for name, value in values.items())
        assert loaded(folder, **values) == expected
        assert loaded(folder, variables) == expected
        written(folder, "[server]\n" + toml)
        assert loaded(folder) == expected

    def test_defaults_are_settings_of_queues(self, folder: Path) -> None:
        written(folder, '[server.defaults]\nlease_ms = 60000\nbackoff_ms = [1000, 2000]\nkeep = "outcome"\n')
        config = loaded(folder)
        assert config.defaults == rowq.Settings(lease_ms=60_000, backoff=rowq.model.retry.Delays((1_000, 2_000)), keep="outcome")
        assert loaded(folder, {"ROWQ_DEFAULTS": '{"max_attempts": 3}'}).defaults == rowq.Settings(max_attempts=3)


class TestKeys:
    def test_a_key_of_the_file_is_kept_as_a_digest(self, folder: Path) -> None:
        written(folder, '[[server.keys]]\nname = "a"\nsecret = "s3cret"\nscopes = ["send"]\nqueues = ["orders.*"]\n')
        [(key, digest)] = loaded(folder).keys
        assert (key.name, key.scopes, key.queues, digest) == ("a", ("send",), ("orders.*",), digest_of("s3cret"))
        assert "s3cret" not in repr(loaded(folder))

    def test_a_key_can_be_told_by_its_digest_alone(self, folder: Path) -> None:
        written(folder, f'[[server.keys]]\nname = "a"\nsecret_sha256 = "{DIGEST}"\nscopes = ["send"]\n')
        [(key, digest)] = loaded(folder).keys
        assert (key.queues, digest.hex()) == (("*",), DIGEST)

    def test_one_variable_makes_one_key_to_everything(self, folder: Path) -> None:
        [(key, digest)] = loaded(folder, {"ROWQ_API_KEY": "s3cret"}).keys
        assert (key.name, key.scopes, key.queues, digest) == ("env", SCOPES, ("*",), digest_of("s3cret"))

    def test_keys_add_up_and_the_environment_beats_the_file(self, folder: Path) -> None:
        written(
            folder,
            '[[server.keys]]\nname = "a"\nsecret = "one"\nscopes = ["send"]\n'
            '[[server.keys]]\nname = "b"\nsecret = "two"\nscopes = ["send"]\n',
        )
        variables = {"ROWQ_API_KEYS": '[{"name": "b", "secret": "three", "scopes": ["admin"]}]', "ROWQ_API_KEY": "four"}
        keys = {key.name: digest for key, digest in loaded(folder, variables).keys}
        assert keys == {"a": digest_of("one"), "b": digest_of("three"), "env": digest_of("four")}

    @pytest.mark.parametrize(
        ("keys", "told"),
        [
            ('[{"name": "a", "scopes": ["send"]}]', "either secret or secret_sha256"),
            (f'[{{"name": "a", "scopes": ["send"], "secret": "hidden", "secret_sha256": "{DIGEST}"}}]', "either"),
            ('[{"name": "a", "scopes": ["write"], "secret": "hidden"}]', "'write' is not a scope"),
            ('[{"name": "a b", "scopes": ["send"], "secret": "hidden"}]', "not a name for a key"),
            ('[{"name": "a", "scopes": [], "secret": "hidden"}]', "without scopes"),
            ('[{"name": "a", "scopes": ["send"], "secret": "hidden", "queue": ["*"]}]', "did you mean queues"),
            ('[{"name": "a", "scopes": "send", "secret": "hidden"}]', "key 1 of ROWQ_API_KEYS"),
            ('[{"name": "a", "scopes": ["send"], "secret_sha256": "hidden"}]', "64 hexadecimal digits"),
            ('[{"name": "a", "scopes": ["send"], "secret": "hidden hidden"}]', "visible characters"),
            ('[{"name": "a", "scopes": ["send"], "secret": "hidden"}, {"name": "a", "scopes": ["send"], "secret": "x"}]', "are named 'a'"),
            (
                '[{"name": "a", "scopes": ["send"], "secret": "hidden"}, {"name": "b", "scopes": ["send"], "secret": "hidden"}]',
                "same secret",
            ),
            ('["hidden"]', "key 1"),
            ('{"hidden": 1}', "JSON list"),
            ("hidden", "not valid JSON"),
        ],
    )
    def test_a_wrong_key_is_told_without_its_secret(self, folder: Path, keys: str, told: str) -> None:
        with pytest.raises(InvalidArgument, match=told) as refused:
            loaded(folder, {"ROWQ_API_KEYS": keys})
        assert "hidden" not in str(refused.value)


class TestMistakes:
    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("[server]\nprot = 1\n", "'prot': did you mean port?"),
            ("[server]\nmax_body = 1\n", "did you mean max_body_bytes?"),
            ("[sever]\nport = 1\n", "'sever': did you mean server?"),
            ("port = 1\n", "'port'; known names: server"),
            ("[server.defaults]\nlease = 1\n", "did you mean lease_ms?"),
            ("[server.defaults]\nlease_ms = 0\n", "server.defaults"),
            ('[server]\nport = "8080"\n', "server.port is invalid"),
            ("[server]\nport = 99999\n", "server.port is invalid"),
            ("[server]\nkeys = 1\n", r"\[\[server.keys\]\]"),
            ("server = 1\n", "must be a table"),
            ("[server\n", "not valid TOML"),
            ('[server]\nlog_level = "loud"\n', "server.log_level"),
            ("[server]\nheader_timeout = 0\n", "server.header_timeout"),
        ],
    )
    def test_a_mistake_in_the_file_is_named(self, folder: Path, text: str, told: str) -> None:
        written(folder, text)
        with pytest.raises(InvalidArgument, match=told) as refused:
            loaded(folder)
        assert FILE in str(refused.value)

    @pytest.mark.parametrize(
        ("variable", "value", "told"),
        [
            ("ROWQ_PROT", "1", "did you mean ROWQ_PORT?"),
            ("ROWQ_MAX_BODY", "1", "did you mean ROWQ_MAX_BODY_BYTES?"),
            ("ROWQ_APIKEY", "x", "did you mean ROWQ_API_KEY?"),
            ("ROWQ_FROBNICATE", "x", "unknown ROWQ_FROBNICATE"),
            ("ROWQ_SECRET", "x", "unknown ROWQ_SECRET"),
            ("ROWQ_PORT", "abc", "ROWQ_PORT is invalid"),
            ("ROWQ_HTTP2", "maybe", "ROWQ_HTTP2 is invalid"),
            ("ROWQ_DEFAULTS", "[1]", "JSON object"),
            ("ROWQ_DEFAULTS", '{"schema": {"type": 7}}', "schema"),
            ("ROWQ_API_KEY", "a b", "visible characters"),
        ],
    )
    def test_a_mistake_in_the_environment_is_named(self, folder: Path, variable: str, value: str, told: str) -> None:
        with pytest.raises(InvalidArgument, match=told):
            loaded(folder, {variable: value})

    @pytest.mark.parametrize(
        ("variable", "value"),
        [
            ("ROWQ_HYPOTHESIS", "thorough"),
            ("ROWQ_SERVICE_HOST", "10.0.0.7"),
            ("ROWQ_SERVICE_PORT", "8080"),
            ("ROWQ_PORT", "tcp://10.0.0.7:8080"),
            ("ROWQ_PORT_8080_TCP_ADDR", "10.0.0.7"),
            ("OTHER_PROT", "1"),
        ],
    )
    def test_what_others_put_into_the_environment_is_left_alone(self, folder: Path, variable: str, value: str) -> None:
        assert loaded(folder, {variable: value}) == Config()

    def test_several_processes_are_refused_on_sqlite_with_the_reason(self, folder: Path) -> None:
        with pytest.raises(InvalidArgument, match="one process write at a time"):
            loaded(folder, workers=2)

    def test_a_key_file_needs_its_certificate(self, folder: Path) -> None:
        key = written(folder, "", "key.pem")
        with pytest.raises(InvalidArgument, match="certificate"):
            loaded(folder, tls_key=str(key))

    def test_a_certificate_must_be_there(self, folder: Path) -> None:
        with pytest.raises(InvalidArgument, match="no such file"):
            loaded(folder, tls_cert=str(folder / "missing.pem"))

    def test_a_password_in_a_url_is_not_shown(self, folder: Path) -> None:
        with pytest.raises(InvalidArgument) as refused:
            loaded(folder, url=["sqlite://user:hidden@host/db"])
        assert "hidden" not in str(refused.value)


class TestExposure:
    @pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "queue.example.com", "*"])  # noqa: S104
    def test_others_reach_a_server_with_keys_only(self, folder: Path, host: str) -> None:
        assert loaded(folder, host=host).exposed == host
        check_exposed(host, "sqlite:///rowq.db", has_keys=True)
        with pytest.raises(InvalidArgument, match="only listens on this machine"):
            check_exposed(host, "sqlite:///rowq.db", has_keys=False)

    def test_the_key_is_made_in_the_database_that_is_served(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("ROWQ_URL", raising=False)
        assert making_a_key("sqlite:///rowq.db") == "rowq keys create NAME --scope admin"
        assert making_a_key("sqlite:///jobs.db") == "rowq keys create NAME --scope admin --url sqlite:///jobs.db"
        monkeypatch.setenv("ROWQ_URL", "sqlite:///jobs.db")
        assert making_a_key("sqlite:///jobs.db") == "rowq keys create NAME --scope admin"
        assert making_a_key("sqlite:///rowq.db") == "rowq keys create NAME --scope admin --url sqlite:///rowq.db"

    @pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "::1"])
    def test_this_machine_reaches_it_without(self, folder: Path, host: str) -> None:
        assert loaded(folder, host=host).exposed is None

    @pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.2"])  # noqa: S104
    def test_pages_for_others_need_a_key_too(self, folder: Path, host: str) -> None:
        assert loaded(folder, admin_host=host).exposed == host
        assert loaded(folder, admin_host=host, admin=False).exposed is None

    @pytest.mark.parametrize(("port", "chosen", "pages"), [(8080, None, 8081), (9000, None, 9001), (0, None, 0), (9000, 7000, 7000)])
    def test_pages_stand_behind_the_port_of_the_api(self, folder: Path, port: int, chosen: int | None, pages: int) -> None:
        assert loaded(folder, port=port, admin_port=chosen).page_port == pages

    def test_no_host_at_all_would_be_every_host(self, folder: Path) -> None:
        with pytest.raises(InvalidArgument, match="--host"):
            loaded(folder, host="")


class TestDocuments:
    GUIDE = page("docs/guide/serving.md")

    def test_every_scope_is_listed(self) -> None:
        assert {row[0].strip("`") for row in self.GUIDE.table("scope")} == set(SCOPES)

    def test_the_files_that_are_shown_are_possible(self, folder: Path) -> None:
        shown = [block.text for block in self.GUIDE.blocks if block.info == "" and "server" in block.text.partition("\n")[0]]
        assert len(shown) == 2
        written(folder, "\n".join(reversed(shown)))
        config = loaded(folder)
        assert (config.host, config.defaults.max_attempts, config.keys[0][0].name) == ("0.0.0.0", 8, "shop")  # noqa: S104
