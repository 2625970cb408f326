"""Runs a command and prints, as JSON, how long it took and how much memory it held at most."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time

_UNIT = 1 if sys.platform == "darwin" else 1024


def main() -> int:
    started = time.perf_counter()
    code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=False).returncode
    seconds = time.perf_counter() - started
    print(json.dumps({"seconds": seconds, "peak_bytes": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * _UNIT}))
    return code


if __name__ == "__main__":
    sys.exit(main())
