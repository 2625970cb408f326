"""The unit is one that systemd understands, keeps its service on a short lead, and starts something that runs."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from rowq.cli.output import USAGE
from rowq.server.config import Config, load
from tests.docs.page import ROOT
from tests.support.servers import Unavailable

UNIT = (ROOT / "deploy/rowq.service").read_text(encoding="utf-8")
MOST_EXPOSED = 2.0
"""Of 10, as `systemd-analyze security` counts; a service that says nothing has 9.6."""


def settings(unit: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r"^(\w+)=(.*)$", unit, re.MULTILINE):
        found.setdefault(name, []).append(value)
    return found


def analyze(unit: str, folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    if shutil.which("systemd-analyze") is None:
        raise Unavailable("systemd-analyze is not installed: it is in Debian's package systemd")
    program = folder / "rowq"
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    path = folder / "rowq.service"
    path.write_text(unit.replace("/opt/rowq/bin/rowq", str(program)), encoding="utf-8")
    return subprocess.run(["systemd-analyze", *command, str(path)], capture_output=True, text=True, check=False, timeout=60)


def test_systemd_understands_every_line(tmp_path: Path) -> None:
    done = analyze(UNIT, tmp_path, "verify")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_line_that_it_does_not_understand_is_told(tmp_path: Path) -> None:
    assert "ProtectSytem" in analyze(UNIT.replace("ProtectSystem", "ProtectSytem"), tmp_path, "verify").stderr


def exposure(unit: str, folder: Path) -> float:
    done = analyze(unit, folder, "security", "--offline=yes", "--no-pager")
    found = re.search(r"exposure level for rowq\.service: ([\d.]+)", done.stdout)
    assert found is not None, done.stderr
    return float(found[1])


def test_its_service_can_do_little_harm(tmp_path: Path) -> None:
    assert exposure(UNIT, tmp_path) <= MOST_EXPOSED


def test_without_its_lead_it_could(tmp_path: Path) -> None:
    loose = re.sub(
        r"^(DynamicUser|Protect\w+|Private\w+|Restrict\w+|SystemCall\w+|CapabilityBoundingSet)=.*$", "", UNIT, flags=re.MULTILINE
    )
    assert exposure(loose, tmp_path) > MOST_EXPOSED


def test_its_times_and_limits_fit_the_server() -> None:
    told, server = settings(UNIT), Config()
    assert int(told["TimeoutStopSec"][0]) > server.stop_timeout
    assert int(told["LimitNOFILE"][0]) > server.max_connections + server.backlog


def test_what_it_starts_is_the_server_on_its_own_folder() -> None:
    told = settings(UNIT)
    assert told["ExecStart"] == ["/opt/rowq/bin/rowq serve"]
    given = dict(line.replace("%S", "/var/lib").partition("=")[::2] for line in told["Environment"])
    assert load({}, given, folder=Path("/nowhere")).url == f"sqlite:////var/lib/{told['StateDirectory'][0]}/rowq.db"


def test_a_configuration_that_cannot_be_is_not_tried_again() -> None:
    assert settings(UNIT)["RestartPreventExitStatus"] == [str(USAGE)]
