"""The page of a job: its progress, and the button that cancels it."""

from __future__ import annotations

from starlette.responses import Response

from rowq.server.admin.jobs import Job
from rowq.server.admin.request import AdminRequest


async def show_job(request: AdminRequest) -> Response:
    job = request.context.jobs.find(request.identity, request.path["id"])
    response = request.show("jobs/job.html", job=job)
    if request.is_fragment and not job.is_running:
        response.headers["HX-Refresh"] = "true"  # the open page reloads, and shows how the job ended
    return response


async def cancel_job(request: AdminRequest) -> Response:
    job = request.context.jobs.find(request.identity, request.path["id"])
    request.identity.check("admin", job.queue)
    await request.context.jobs.cancel(job)
    return request.go(f"/jobs/{job.id}")


def follow(request: AdminRequest, job: Job) -> Response:
    """To its progress page; or back, with a notice, if it has already ended."""
    return request.go(f"/jobs/{job.id}") if job.is_running else request.go(job.back, job.summary)
