"""Long tables in numbered pages of a hundred rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rowq.server.admin.request import AdminRequest

PAGE = 100


def paged(request: AdminRequest, rows: Sequence[Any]) -> dict[str, Any]:
    """The rows to show, and what the links to other pages need. An invalid page number means the first page."""
    asked = request.asked("page")
    pages = max(1, -(-len(rows) // PAGE))
    page = min(max(1, int(asked)) if asked.isascii() and asked.isdigit() and len(asked) < 7 else 1, pages)
    return {"rows": rows[(page - 1) * PAGE : page * PAGE], "count": len(rows), "page": page, "pages": pages}
