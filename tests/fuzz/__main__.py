"""The long form: searches every target for inputs that break it, guided by what code they reach (`make fuzz ARGS="--seconds 600 cron"`).

Each target runs in a process of its own, since libFuzzer ends its process at the first failure. What it found is kept in the corpus.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.fuzz.corpus import keep, kept
from tests.fuzz.target import LONGEST

LONGEST_INPUT = 20_000
_MEMORY_MB = 2_000


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", help="names of targets; all of them without any")
    parser.add_argument("--seconds", type=int, default=600, help="how long in all (%(default)s)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="how many search at once (%(default)s)")
    parser.add_argument("--one", metavar="TARGET", help=argparse.SUPPRESS)
    asked, rest = parser.parse_known_args(arguments)
    if asked.one is not None:
        search(asked.one, rest)
    from tests.fuzz.targets import TARGETS

    if unknown := sorted({*asked.targets} - {*TARGETS}):
        parser.error(f"there is no target {unknown[0]}; there are: {', '.join(TARGETS)}")
    chosen = asked.targets or list(TARGETS)
    seconds = max(1, asked.seconds * asked.processes // len(chosen))
    with ThreadPoolExecutor(asked.processes) as pool:
        found = [path for paths in pool.map(lambda name: _searched(name, TARGETS[name].seeds, seconds), chosen) for path in paths]
    _say(f"{len(chosen)} targets, {seconds} s each: {len(found)} inputs that fail")
    return bool(found)


def search(name: str, options: list[str]) -> None:
    """In a process of its own: never comes back."""
    try:
        import atheris
    except ImportError:
        sys.exit("the search needs atheris, which is not to be had for this Python or machine: pip install atheris")
    with atheris.instrument_imports(include=["rowq", "tests.fuzz", "h2", "hpack", "hyperframe"], enable_loader_override=False):
        from tests.fuzz.targets import TARGETS

    atheris.Setup([name, *options], TARGETS[name].check)
    atheris.Fuzz()


def _searched(name: str, seeds: tuple[bytes, ...], seconds: int) -> list[Path]:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="rowq-fuzz-") as folder:
        start, failures = Path(folder) / "start", Path(folder) / "failures"
        start.mkdir()
        failures.mkdir()
        for number, data in enumerate([*seeds, *(path.read_bytes() for path in kept(name))]):
            (start / str(number)).write_bytes(data)
        options = (
            f"-max_total_time={seconds}",
            f"-max_len={LONGEST_INPUT}",
            f"-timeout={round(LONGEST)}",
            f"-rss_limit_mb={_MEMORY_MB}",
            f"-artifact_prefix={failures}/",
            "-print_final_stats=1",
        )
        ran = subprocess.run([sys.executable, "-m", "tests.fuzz", "--one", name, *options, str(start)], capture_output=True, check=False)
        told = ran.stderr.decode(errors="replace").splitlines()
        inputs = next((line.split()[-1] for line in told if "number_of_executed_units" in line), "0")
        found = [keep(name, failure.read_bytes()) for failure in failures.iterdir()]
    _say(f"{name}: {inputs} inputs in {time.monotonic() - began:.0f} s", *(f"  fails: {path}" for path in found))
    if found or ran.returncode:
        _say(*ran.stdout.decode(errors="replace").splitlines()[-15:], *told[-15:])
    if ran.returncode and not found:
        raise SystemExit(f"{name} could not be searched")
    return found


def _say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
