"""Texts that mean something to a database, a template, a browser or a terminal, and nothing here."""

from __future__ import annotations

SQL = (
    "'",
    '"',
    "`",
    "\\",
    "\\'",
    "''",
    "' OR '1'='1",
    "'; DROP TABLE rowq_messages; --",
    "\\'; DROP TABLE rowq_messages; --",
    '"; DROP TABLE rowq_messages; --',
    "'); DELETE FROM rowq_queues; COMMIT; --",
    "' UNION SELECT name, digest FROM rowq_api_keys --",
    "1; SELECT pg_sleep(60)",
    "' AND SLEEP(60) AND '1'='1",
    "%",
    "_",
    "%s",
    "%(queue)s",
    "%%b",
    ":queue",
    ":seqs[]",
    "?",
    "$1",
    "{schema}",
    "{door}",
    "/* */",
    "--",
    "#",
    "x'00'",
    "\n",
    "\x1a",
    "中\\",  # its last bytes are one character to a database that reads GBK
    "\u02bc\uff07",  # quotes that some converters make plain
)
FEW = ("'", "\\'", "'; DROP TABLE rowq_messages; --", "%", "%(queue)s", ":queue", "?", "\x1a")
"""One of each kind: they end a text, end a statement, or stand for something in a pattern or a driver."""
MARKUP = (
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "' onmouseover='alert(1)",
    "javascript:alert(1)",
    "{{ 7 * 7 }}{% raw %}",
    "<!--",
    "&lt;b&gt;",
    "\u202egnp.exe",
    "\x1b[2J\x1b]0;owned\x07",
)
ALL = (*SQL, *MARKUP)
