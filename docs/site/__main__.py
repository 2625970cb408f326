"""`make docs`: builds the site, says where it is, and fails over a link that leads nowhere."""

from __future__ import annotations

import sys
from pathlib import Path

from docs.site.builder import Builder

ROOT = Path(__file__).parents[2]


def main() -> int:
    site = ROOT / "build" / "site"
    builder = Builder(ROOT, site)
    builder.run()
    for fault in builder.faults:
        sys.stderr.write(f"{fault}\n")
    if not builder.faults:
        sys.stdout.write(f"{len(builder.documents)} documents: {(site / 'index.html').as_uri()}\n")
    return 1 if builder.faults else 0


if __name__ == "__main__":
    sys.exit(main())
