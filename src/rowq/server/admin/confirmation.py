"""The confirmation page before anything is deleted: it says what and how many, and carries the form's fields."""

from __future__ import annotations

from starlette.responses import Response

from rowq.server.admin.request import AdminRequest

_OWN = ("csrf", "confirmed")


def is_given(request: AdminRequest) -> bool:
    """Whether the operator has confirmed."""
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
    """The page. It posts the same fields to the same address again, with the confirmation; `label` is the text of its button.

    `number`: how many it concerns now, None if unknown; not `is_exact`: at least that many.
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
