"""The pages, each a function of a request; the programme's functions compute what they show."""

from fastapi import APIRouter

from . import fairness, importing, looking, people, planning, round, signing, working

__all__ = ["router"]

router = APIRouter(include_in_schema=False)
for part in (signing, looking, round, planning, people, importing, fairness, working):
    router.include_router(part.router)
