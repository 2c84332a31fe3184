"""The pages, each a function of a request; what they show comes from the programme's functions."""

from fastapi import APIRouter

from . import fairness, importing, looking, people, planning, round, signing, working

__all__ = ["router"]

router = APIRouter(include_in_schema=False)
for part in (signing, looking, round, planning, people, importing, fairness, working):
    router.include_router(part.router)
