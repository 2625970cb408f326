"""Asked again before anything is lost: a page that names what would go and how many, and carries what was asked for."""

from __future__ import annotations

from starlette.responses import Response

from rowq.server.admin.request import AdminRequest

_OWN = ("csrf", "confirmed")


def is_given(request: AdminRequest) -> bool:
    """Whether somebody has read the page and agreed."""
    return request.given("confirmed") == "yes"


def ask(
    request: AdminRequest,
    *,
    sentence: str,
    number: int | None,
    label: str,
    back: str,
    noun: str = "message",
    of: str = "",
    is_exact: bool = True,
    danger: bool = True,
) -> Response:
    """The page. It posts the same fields to the same address once more, with the consent; `label` is what its button says.

    `number`: how many it concerns as of now, None where nobody knows; not `is_exact`: at least so many.
    """
    fields = [(name, value) for name, values in request.form.items() if name not in _OWN for value in values]
    return request.show(
        "confirmation.html",
        sentence=sentence,
        number=number,
        noun=noun,
        of=of,
        is_exact=is_exact,
        label=label,
        back=back,
        fields=fields,
        kind="danger" if danger else "primary",
    )
