"""Commitments: they fix a draw except for its luck, which comes later.

A commitment freezes what a draw depends on besides its luck. Its code is published before anybody
knows the luck: whoever has the code can check that nothing was changed afterwards to suit the luck.
A commitment freezes the plan of a round (`plans.commitments` says which parts of it) or a trial
(`assignment.frozen`). The header of a trial's commitment begins with the key OF_TRIAL; that of both
kinds says by WHAT_COUNTS that capitals, spaces and the like do not count in a luck in words.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from ..errors import InvalidInput
from ..for_json import read_json
from . import schema
from .luck import Beacon, Chain, Luck, Source
from .store import Connection, Store, now, sign

__all__ = [
    "IS_OF_TRIAL",
    "OF_TRIAL",
    "WHAT_COUNTS",
    "Commitment",
    "code_before",
    "code_of",
    "last_trial_committed",
    "load_commitment",
    "luck_after",
    "luck_of_trial",
    "names_digest",
    "store_commitment",
    "trials_undrawn",
    "used_after",
]

OF_TRIAL = "trial"
WHAT_COUNTS = "what_counts"  # keys are sorted: it stands behind those by which kinds are told apart
# The header of a plan's commitment begins otherwise: its keys are sorted, and the first is batch.
IS_OF_TRIAL = schema.commitment.c.header.startswith(f'{{"{OF_TRIAL}": ')


@dataclass(frozen=True, eq=False)
class Commitment:
    """A plan or a trial whose luck is still open."""

    id: int
    created: str
    round: int  # of the plan, or the first of the trial
    beacon: int  # the round of the chain of beacons that may be its luck
    header: str  # JSON
    content: bytes  # arrays, NumPy's npz
    digest: str

    @property
    def code(self) -> str:
        """The code that is published."""
        return code_of(self.digest)

    def fresh_digest(self) -> str:
        """The digest of what is stored."""
        digest = hashlib.sha256(
            json.dumps([self.created, self.round, self.beacon, self.header]).encode()
        )
        digest.update(self.content)
        return digest.hexdigest()

    def parts(self) -> dict[str, Any]:
        """What is frozen besides arrays."""
        parts: dict[str, Any] = read_json(self.header)
        return parts

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays that are frozen."""
        with np.load(io.BytesIO(self.content)) as stored:
            return {name: stored[name] for name in stored.files}


def code_of(digest: str) -> str:
    """The code of a commitment: the first half of its digest, in groups of four digits."""
    return "-".join(digest[i : i + 4] for i in range(0, 32, 4))


def names_digest(names: Iterable[str]) -> str:
    """A hash that stands in a commitment for people's identifiers, from which luck follows."""
    return hashlib.sha256("\n".join(names).encode("utf-8", "surrogatepass")).hexdigest()


def store_commitment(
    connection: Connection,
    round: int,
    parts: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    chain: Chain,
) -> Commitment:
    """Write a commitment, with the round of a chain of beacons that may be its luck."""
    content, created = io.BytesIO(), now()
    np.savez_compressed(content, **dict[str, Any](arrays))
    commitment = Commitment(
        id=0,
        created=created,
        round=round,
        beacon=chain.round_after(created),
        header=json.dumps({**parts, WHAT_COUNTS: "letters and digits"}, sort_keys=True),
        content=content.getvalue(),
        digest="",
    )
    commitment = replace(commitment, digest=commitment.fresh_digest())
    values = {name: value for name, value in vars(commitment).items() if name != "id"}
    key = connection.execute(schema.commitment.insert().values(**values)).inserted_primary_key
    assert key is not None
    sign(connection, schema.commitment, int(key[0]))
    return replace(commitment, id=int(key[0]))


def load_commitment(connection: Connection, number: int) -> Commitment:
    """The commitment with a number."""
    t = schema.commitment
    row = connection.execute(sa.select(t).where(t.c.id == number)).one()
    schema.refuse_types(t, row)
    return Commitment(**{column.name: getattr(row, column.name) for column in fields(Commitment)})


def code_before(database: Store, luck: Luck | None) -> str | None:
    """The code of the commitment before a luck; None: what it drew was made in one step."""
    if luck is None or luck.commitment is None:
        return None
    with database.reading() as connection:
        return load_commitment(connection, luck.commitment).code


def last_trial_committed(connection: Connection) -> Commitment | None:
    """The last commitment of a trial, whether it was drawn or not."""
    number = connection.execute(sa.select(sa.func.max(schema.commitment.c.id)).where(IS_OF_TRIAL))
    last = number.scalar()
    return None if last is None else load_commitment(connection, last)


def trials_undrawn(connection: Connection, luck: Luck) -> int:
    """How many commitments of trials there are besides that of the trial with this luck."""
    t = schema.commitment
    others = sa.select(sa.func.count()).where(IS_OF_TRIAL, t.c.id != (luck.commitment or 0))
    return int(connection.execute(others).scalar_one())


def luck_of_trial(design: str) -> Luck:
    """The luck of an assignment, from the column ``design`` of a trial.

    A trial from before there was luck from outside has none there: its luck is the programme's own.
    """
    text = read_json(design).get("luck")
    return Luck(Source.PROGRAMME) if text is None else Luck.from_json(text)


def luck_after(
    connection: Connection,
    commitment: Commitment,
    luck: str | Beacon,
    source: Source,
    chain: Chain,
) -> Luck:
    """Luck from outside, for the draw of a commitment.

    Parameters
    ----------
    connection
        A transaction, in which the draw is stored.
    commitment
        The commitment that is drawn.
    luck
        What was seen or said after it, or a round of the chain of beacons.
    source
        Whether a text was seen in public or is a second person's word.
    chain
        The chain of beacons that is trusted.

    Raises
    ------
    InvalidInput
        If a beacon is forged or of another round than the commitment's, if a text is empty or too
        long, or if the luck was used before, for a plan or for a trial.
    """
    if isinstance(luck, Beacon):
        _refuse_beacon(luck, commitment, chain)
        given = Luck(Source.BEACON, beacon=luck, commitment=commitment.id)
    else:
        given = Luck.said(luck, source, commitment.id)
    for what, used in _lucks(connection):
        if used.seen == given.seen:
            raise InvalidInput(
                f"the same luck was used for {what}; "
                "give what came after this commitment, with its date"
            )
    return given


def used_after(commitment: Commitment, luck: Luck, chain: Chain) -> list[str]:
    """What is wrong with the commitment before a draw, or with the luck of the draw."""
    wrong = []
    if commitment.fresh_digest() != commitment.digest:
        wrong.append("the commitment before it is not what was committed")
    elif luck.text is not None:
        all_counts = luck.counts is None and WHAT_COUNTS not in commitment.parts()
        if not all_counts and luck.counts != luck.seen:
            wrong.append("its luck does not count as it was committed")
    if luck.beacon is not None:
        try:
            genuine = luck.beacon.is_genuine(chain)
        except InvalidInput as error:
            return [*wrong, f"its beacon was not checked: {error}"]
        if luck.beacon.round != commitment.beacon or not genuine:
            wrong.append("its beacon is not the one that was announced")
    return wrong


def _lucks(connection: Connection) -> Iterator[tuple[str, Luck]]:
    """All luck from outside that was used, with what it was used for."""
    p, t = schema.plan, schema.trial
    for row in connection.execute(sa.select(p.c.round, p.c.luck).where(p.c.luck.is_not(None))):
        if (luck := Luck.from_json(row.luck)).source is not Source.PROGRAMME:
            yield f"round {row.round}", luck
    for design in connection.execute(sa.select(t.c.design)).scalars():
        if (luck := luck_of_trial(design)).source is not Source.PROGRAMME:
            yield "the trial", luck


def _refuse_beacon(beacon: Beacon, commitment: Commitment, chain: Chain) -> None:
    """Raise unless a beacon is genuine and the one that the commitment announced."""
    if beacon.round != commitment.beacon:
        early = beacon.round < commitment.beacon
        raise InvalidInput(
            f"the beacon is of round {beacon.round}, too {'early' if early else 'late'}: the "
            f"commitment announced round {commitment.beacon} of {chain.name}; give that one"
        )
    if not beacon.is_genuine(chain):
        raise InvalidInput(
            f"the signature of round {beacon.round} is not of {chain.name}; the beacon is forged "
            "or damaged: fetch it again"
        )
