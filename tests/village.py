"""A programme for the tests of the page: 40 people of two workers, a list of 8, all roles."""

from __future__ import annotations

import numpy as np

from softfair.programme import imports, plans
from softfair.programme.settings import initialise
from softfair.programme.store import Store
from softfair.web.accounts import new_account, new_token

NAME = "softfair test"
PASSWORD = "correct horse battery"
ROLES = ("viewer", "worker", "officer", "admin")
MINE = ("worker", "Asha")  # whose list the worker's account sees
PEOPLE, ROUNDS = 40, 12


def people_file() -> bytes:
    rows = [
        f"v{i:02d},{('Asha', 'Bela')[i % 2]},{('hill', 'lake', 'mill')[i % 3]},0170-{i:04d}"
        for i in range(PEOPLE)
    ]
    return "\n".join(["id,worker,village,phone", *rows, ""]).encode()


def history_file() -> bytes:
    """A history whose states follow chances that are written in this function."""
    rng = np.random.default_rng(3)
    good, rows = rng.random(PEOPLE) < 0.5, ["id,round,state,contacted"]
    for week in range(1, ROUNDS + 2):
        contacted = rng.random(PEOPLE) < 0.2
        for i in range(PEOPLE):
            told = int(contacted[i]) if week <= ROUNDS else ""
            rows.append(f"v{i:02d},{week},{int(good[i])},{told}")
        chance = np.where(good, 0.8, 0.2) + np.where(contacted, 0.15, 0.0)
        good = rng.random(PEOPLE) < chance
    return "\n".join([*rows, ""]).encode()


def empty(url: str) -> Store:
    """A programme without people, with an account for each role."""
    database = Store(url)
    initialise(database, NAME, capacity=8, seed=1)
    for role in ROLES:
        scope = MINE if role == "worker" else None
        # One password costs a tenth of a second to hash; the others are entered without.
        new_account(database, role, role, PASSWORD if role == "officer" else None, scope)
    return database


def founded(url: str) -> Store:
    """A programme with people, history and the list of round 13."""
    database = empty(url)
    imports.import_people(database, people_file(), NAME)
    imports.import_history(database, history_file(), NAME)
    plans.make_plan(database, NAME)
    return database


def tokens(database: Store) -> dict[str, str]:
    """A token for each role."""
    return {
        role: new_token(database, f"{role} program", role, MINE if role == "worker" else None)[1]
        for role in ROLES
    }
