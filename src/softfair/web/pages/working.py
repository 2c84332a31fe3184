"""The progress and the result of work that takes longer than a page waits."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from ..access import Changes
from ..work import Jobs, StillWorking
from .shared import outcome

__all__ = ["router"]

router = APIRouter()


@router.get("/work/{key}")
def work(request: Request, visitor: Changes, key: str) -> Response:
    """The progress of a job, or its result once it is finished."""
    jobs: Jobs = request.app.state.jobs
    job = jobs.look(visitor.account.name, key)
    if job.finished is None:
        raise StillWorking(job.said, job.seconds)
    return outcome(request, visitor, job.finished)
