"""A shell completes commands, options and the names of queues, by the script that `rowq --show-completion` prints."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import rowq
from tests.cli.driver import Run
from tests.docs.running import install_commands
from tests.support.servers import Unavailable

BASH = """
eval "$SCRIPT"
COMP_WORDS=({words}) COMP_CWORD={last}
_rowq_completion rowq
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
"""What bash itself does when somebody presses Tab: it sets the words, calls the function that was registered, and reads the answer."""


def bash(script: str, variables: dict[str, str], folder: Path) -> str:
    if shutil.which("bash") is None:
        raise Unavailable("bash is not installed")
    done = subprocess.run(["bash", "-c", script], env=variables, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables of a user with `rowq` on the PATH and a home that is nobody's, and the script that rowq prints in a bash."""
    home = tmp_path_factory.mktemp("home")
    known = {name: value for name, value in os.environ.items() if not name.startswith("ROWQ_")}
    variables = {**known, "PATH": f"{install_commands(home / 'bin')}:{os.environ['PATH']}", "HOME": str(home)}
    return {**variables, "SCRIPT": bash("rowq --show-completion; exit", variables, home)}


def complete(shell: dict[str, str], folder: Path, *words: str) -> list[str]:
    """What a bash offers."""
    return bash(BASH.format(words=" ".join(f"'{word}'" for word in words), last=len(words) - 1), shell, folder).split()


SingleCall = Callable[..., str]


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SingleCall:
    """What rowq answers to a shell with these variables, asked in this process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROWQ_URL", raising=False)

    def ask(**variables: str) -> str:
        with monkeypatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            patch.setattr(sys, "argv", ["rowq"])
            return Run(patch)().out

    return ask


def offered(ask: SingleCall, *words: str, **variables: str) -> list[str]:
    """To the script that a bash has."""
    return ask(_ROWQ_COMPLETE="complete_bash", COMP_WORDS=" ".join(words), COMP_CWORD=str(len(words) - 1), **variables).split()


def test_commands_and_options_are_completed(ask: SingleCall) -> None:
    assert offered(ask, "rowq", "st") == ["stats", "streams"]
    assert offered(ask, "rowq", "keys", "") == ["create", "list", "revoke"]
    assert offered(ask, "rowq", "serve", "--max-") == ["--max-body-bytes", "--max-header-bytes", "--max-connections"]


def test_queues_are_completed(shell: dict[str, str], ask: SingleCall, tmp_path: Path) -> None:
    with rowq.connect(f"sqlite:///{tmp_path}/shop.db") as broker:
        for queue in ("mails", "mails.eu", "orders"):
            broker.send(queue, 1)
    url = f"sqlite:///{tmp_path}/shop.db"
    assert complete(shell, tmp_path, "rowq", "stats", "--url", url, "ma") == ["mails", "mails.eu"]
    assert offered(ask, "rowq", "purge", "", ROWQ_URL=url) == ["mails", "mails.eu", "orders"]


def test_a_database_that_is_not_there_offers_nothing_and_is_not_made(ask: SingleCall, tmp_path: Path) -> None:
    assert offered(ask, "rowq", "stats", "") == []
    assert offered(ask, "rowq", "stats", "--url", "nonsense://", "") == []
    assert not list(tmp_path.iterdir())


def test_it_is_installed_for_the_shell_that_asks(shell: dict[str, str], tmp_path: Path) -> None:
    told = bash("rowq --install-completion; exit", {**shell, "HOME": str(tmp_path)}, tmp_path)
    assert "bash completion installed in" in told
    assert "complete -o default -F _rowq_completion rowq" in next(tmp_path.rglob("rowq.sh")).read_text(encoding="utf-8")
    assert "rowq.sh" in (tmp_path / ".bashrc").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("kind", "variables", "answer"),
    [
        ("zsh", {"_TYPER_COMPLETE_ARGS": "rowq st"}, '"stats":"Count'),
        ("fish", {"_TYPER_COMPLETE_ARGS": "rowq st", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}, "stats\tCount"),
    ],
)
def test_other_shells_get_a_script_and_answers_in_their_words(kind: str, variables: dict[str, str], answer: str, ask: SingleCall) -> None:
    assert f"_ROWQ_COMPLETE=complete_{kind}" in ask(_ROWQ_COMPLETE=f"source_{kind}")
    assert answer in ask(_ROWQ_COMPLETE=f"complete_{kind}", **variables)
