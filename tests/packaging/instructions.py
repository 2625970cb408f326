"""A Dockerfile, read as what it tells to do. Only as much of the language as ours speaks; anything else is an error."""

from __future__ import annotations

import fnmatch
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

_VARIABLE = re.compile(r"\$\{(\w+)\}|\$(\w+)")


@dataclass
class Stage:
    """One FROM, and what follows it."""

    image: str
    name: str
    copies: list[tuple[str | None, list[str], str]] = field(default_factory=list)
    """From which stage (None: from the context), what, and where to."""
    runs: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)
    """USER, WORKDIR, ENTRYPOINT and the like: the last one holds."""

    def words(self, instruction: str) -> list[str]:
        """A command that is written as a list, so that no shell stands between it and its signals."""
        given = self.told[instruction]
        return msgspec.json.decode(given[given.index("[") :], type=list[str])


def read(path: Path) -> list[Stage]:
    arguments: dict[str, str] = {}
    stages: list[Stage] = []
    for line in _lines(path.read_text(encoding="utf-8")):
        instruction, _, rest = line.partition(" ")
        match instruction:
            case "ARG":
                name, _, value = rest.partition("=")
                arguments[name] = value
            case "FROM":
                image, _, name = _filled(rest, arguments).partition(" AS ")
                stages.append(Stage(image, name))
            case "COPY":
                _copy(stages[-1], rest)
            case "RUN":
                stages[-1].runs.append(_filled(rest, arguments))
            case "ENV":
                stages[-1].variables |= dict(word.partition("=")[::2] for word in shlex.split(rest))
            case "USER" | "WORKDIR" | "VOLUME" | "EXPOSE" | "STOPSIGNAL" | "HEALTHCHECK" | "ENTRYPOINT" | "CMD":
                stages[-1].told[instruction] = rest
            case _:
                raise ValueError(f"nobody checks {instruction}: teach tests/packaging/instructions.py to")
    return stages


def lets_through(ignored: Path, path: str) -> bool:
    """Whether a .dockerignore leaves a path in the context: the last line that matches decides."""
    kept = True
    for line in _lines(ignored.read_text(encoding="utf-8")):
        pattern = line.removeprefix("!")
        anywhere = pattern.startswith("**/")
        of_path = Path(path).parts if anywhere else [Path(path).as_posix(), *(parent.as_posix() for parent in Path(path).parents)]
        if any(fnmatch.fnmatch(each, pattern.removeprefix("**/")) for each in of_path):
            kept = line.startswith("!")
    return kept


def _copy(stage: Stage, rest: str) -> None:
    words = rest.split()
    source = words.pop(0).removeprefix("--from=") if words[0].startswith("--from=") else None
    stage.copies.append((source, words[:-1], words[-1]))


def _lines(text: str) -> list[str]:
    """Without comments; a line that ends with a backslash goes on in the next."""
    plain = "\n".join(line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    return [re.sub(r"\s+", " ", line).strip() for line in re.sub(r"\\\n", " ", plain).splitlines()]


def _filled(text: str, arguments: dict[str, str]) -> str:
    return _VARIABLE.sub(lambda found: arguments[found[1] or found[2]], text)
