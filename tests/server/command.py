"""`rowq serve` in this process, as far as a test wants it: until it refuses to start, or up to the moment at which it would listen."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rowq.server import logs
from rowq.server import run as module
from rowq.server.config import Config
from rowq.server.run import Address
from tests.cli.driver import Result, Run


class Command:
    """The command with its options and variables, in a folder."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self._monkeypatch = monkeypatch
        self._folder = folder

    def refused(self, *args: str, code: int = 2, **environment: str) -> str:
        """What it says when it does not start; it prints nothing."""

        def serve(*_: object) -> None:
            raise AssertionError("it starts")

        with self._monkeypatch.context() as patch:
            patch.setattr(logs, "configure", lambda format, level: None)  # the logs of this process are not its own
            patch.setattr(module, "_serve_alone", serve)
            patch.setattr(module, "_serve_together", serve)
            done = self._run(patch, *args, **environment)
        assert done.exit_code == code, done
        assert done.out == "" and "Traceback" not in done.err
        return done.err

    def said(self, *args: str, **environment: str) -> tuple[Config, str]:
        """How it would serve, and what it says as soon as it does."""
        configs: list[Config] = []

        def serve(config: Config, announce: Callable[[Address], None]) -> None:
            configs.append(config)
            announce(Address("http://127.0.0.1:5", config.url, bool(config.keys), config.workers, "http://127.0.0.1:6"))

        with self._monkeypatch.context() as patch:
            patch.setattr(module, "serve", serve)
            done = self._run(patch, *args, **environment)
        assert (done.exit_code, done.err) == (0, "")
        return configs[0], done.out

    def _run(self, patch: pytest.MonkeyPatch, *args: str, **environment: str) -> Result:
        for name in [name for name in os.environ if name.startswith("ROWQ_")]:
            patch.delenv(name)
        for name, value in environment.items():
            patch.setenv(name, value)
        patch.chdir(self._folder)
        return Run(self._monkeypatch)("serve", "--port", "0", *args)
