"""What `rowq doctor` checks on every server."""

from __future__ import annotations

import time

from rowq.store import migrations
from rowq.store.dialect import Finding, Session


def tables(session: Session) -> Finding:
    version = 0
    if session.rows("is_installed")[0][0]:
        version = session.rows("read_version")[0][0] or 0
    if version > migrations.VERSION:
        return Finding("tables", False, f"version {version}, newer than this release knows ({migrations.VERSION})", "upgrade rowq here")
    if version < migrations.VERSION:
        detail = f"version {version}, this release has {migrations.VERSION}" if version else "not there"
        return Finding("tables", False, detail, "run `rowq migrate`")
    return Finding("tables", True, f"version {version}")


def clock(session: Session) -> Finding:
    """For information only: the database's clock is the one that counts."""
    asked_at = time.time()
    theirs = float(session.rows("read_clock")[0][0])
    ahead = theirs - (asked_at + time.time()) / 2
    way = "ahead of" if ahead > 0 else "behind"
    return Finding("clock", True, f"{abs(ahead):.3f} s {way} this machine's; leases and delays go by the database's")
