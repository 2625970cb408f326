"""The page of a job: how far it is, and the button that stops it."""

from __future__ import annotations

from starlette.responses import Response

from rowq.server.admin.jobs import Job
from rowq.server.admin.request import Desk


async def show_job(desk: Desk) -> Response:
    job = desk.office.jobs.find(desk.identity, desk.path["id"])
    response = desk.show("jobs/job.html", job=job, now=desk.service.engine.clock.now())
    if desk.is_fragment and not job.is_running:
        response.headers["HX-Refresh"] = "true"  # a page that was watching shows how it ended
    return response


async def cancel_job(desk: Desk) -> Response:
    job = desk.office.jobs.find(desk.identity, desk.path["id"])
    desk.identity.check("admin", job.queue)
    await desk.office.jobs.cancel(job)
    return desk.go(f"/jobs/{job.id}")


def follow(desk: Desk, job: Job) -> Response:
    """To the page of its progress; back with a notice where it is over already."""
    return desk.go(f"/jobs/{job.id}") if job.is_running else desk.go(job.back, job.summary)
