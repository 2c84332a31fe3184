"""The readings of Table 2 and Figure 1: the grid is complete, distances are judged correctly."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from softfair.datasets import cpap
from softfair.errors import InvalidInput
from softfair.experiments import find, reading_sections, readings
from softfair.experiments.paper import PAPER_TABLE_2
from softfair.experiments.readings import DEFAULT, STANDS_FOR, Distance, Reading


def rows_of(cohorts: list[dict[str, float]], entropy: float = 4.0) -> pd.DataFrame:
    """Two runs on each cohort, around the benefit given for each line of Table 2."""
    return pd.DataFrame(
        [
            {
                "policy": STANDS_FOR[line],
                "instance": instance,
                "benefit": benefit + wobble,
                "entropy": entropy,
            }
            for instance, benefits in enumerate(cohorts)
            for line, benefit in benefits.items()
            for wobble in (-1.0, 1.0)
        ]
    )


PAPER = {line: benefit for line, ((benefit, _), _) in PAPER_TABLE_2.items()}


def test_the_grid_is_every_combination_once():
    whole = readings.grid()
    assert len(whole) == len(set(whole)) == 4 * 3 * 3 * 2 * 2
    assert len({reading.id for reading in whole}) == len(whole)
    assert DEFAULT in whole
    assert readings.grid((0.5,), ("state",), ("share",), (0.1,), ("both",)) == [
        Reading(0.5, "state", "share", 0.1, "both")
    ]


def test_the_default_reading_is_the_default_of_the_data_set():
    np.testing.assert_array_equal(cpap(30, seed=4, **DEFAULT.parameters()).P, cpap(30, seed=4).P)


@pytest.mark.parametrize("reading", readings.grid()[::7], ids=lambda reading: reading.id)
def test_every_reading_makes_a_cohort(reading):
    assert cpap(20, **reading.parameters()).n == 20


def test_an_empty_grid_is_refused():
    with pytest.raises(InvalidInput) as error:
        readings.grid(noise=())
    assert str(error.value) == (
        "the grid of readings has nothing in it: noise has no value (1 of 5 choices have none); "
        "give at least one value of each"
    )


def test_distance_is_the_worst_line_in_the_papers_standard_deviations():
    assert readings.distance_of(rows_of([PAPER])).distance == pytest.approx(0)
    # Random 6.5 off at a sd of 13 is .5; Myopic 6.6 off at a sd of 3.3 is 2.
    off = PAPER | {"Random": PAPER["Random"] - 6.5}
    assert readings.distance_of(rows_of([off])).distance == pytest.approx(0.5)
    off |= {"Myopic": PAPER["Myopic"] + 6.6}
    judged = readings.distance_of(rows_of([off]))
    assert judged.distance == pytest.approx(2)
    assert not judged.within


def test_cohorts_are_judged_one_by_one_and_the_mean_by_itself():
    high, low = (PAPER | {"Random": PAPER["Random"] + shift} for shift in (20, -20))
    judged = readings.distance_of(rows_of([high, low, PAPER]))
    assert (judged.cohorts, judged.cohorts_within) == (3, 1)
    assert judged.within  # the two errors cancel in the mean
    assert judged.benefit == pytest.approx(PAPER)
    assert judged.entropy["SoftFair"] == 4.0


def distances_of(distances: dict[Reading, float]) -> dict[Reading, Distance]:
    return {
        reading: Distance({"Random": 10 * distance}, {}, distance, 5, 0)
        for reading, distance in distances.items()
    }


def test_main_effects_average_over_what_shares_a_value():
    whole = readings.grid()
    far = {reading: 3.0 if reading.effect_by == "group" else 5.0 for reading in whole}
    effects = {(e.choice, e.value): e for e in readings.main_effects(distances_of(far))}
    assert effects["effect_by", "group"].distance == 3
    assert effects["effect_by", "state"].distance == 5
    assert effects["effect_by", "group"].random == 30
    # Every other choice sees a third of the groups: (3 + 5 + 5) / 3.
    others = [e for e in effects.values() if e.choice != "effect_by"]
    assert {round(e.distance, 9) for e in others} == {round(13 / 3, 9)}
    assert effects["adherent", "17 %"].readings == 36
    assert all(e.within == 0 for e in effects.values())
    near = far | {whole[0]: 0.9}
    assert sum(e.within for e in readings.main_effects(distances_of(near))) == len(readings.CHOICES)


def test_nearest_shows_the_default_wherever_it_stands():
    whole = readings.grid()
    far = {reading: 1.0 + place for place, reading in enumerate(whole)} | {DEFAULT: 99.0}
    shown = readings.nearest(distances_of(far), 3)
    assert [o.distance for _, o in shown] == [2.0, 3.0, 4.0, 99.0]
    near = far | {DEFAULT: 0.0}
    assert [o.distance for _, o in readings.nearest(distances_of(near), 3)] == [0.0, 2.0, 3.0]


def test_pictures_show_every_reading():
    far = {reading: 1.0 + 0.01 * place for place, reading in enumerate(readings.grid())}
    figure = reading_sections.draw_table_2(distances_of(far))
    assert len(figure.axes) == len(readings.CHOICES)
    for ax in figure.axes:
        assert sum(len(dots.get_offsets()) for dots in ax.collections) == len(far)
        assert sum(line.get_marker() == "*" for line in ax.lines) == 1


def test_starved_is_the_range_over_instances():
    table = pd.DataFrame(
        {
            "policy": ["x"] * 4,
            "instance": [0, 0, 1, 1],
            "never_selected": [0.4, 0.6, 0.7, 0.7],
        }
    )
    shares = readings.starved({"here": table, "there": table})
    assert shares["x"]["there"] == pytest.approx((50, 70))
    (ax,) = reading_sections.draw_starved(shares).axes
    assert [(bar.get_y(), bar.get_y() + bar.get_height()) for bar in ax.patches] == [
        pytest.approx((50, 70))
    ] * 2


def test_only_a_recovered_table_is_called_recovered():
    far = {reading: 3.0 + (reading.adherent > 0.5) for reading in readings.grid()}
    none, matter = reading_sections.judge_readings(distances_of(far))
    assert none.verdict.startswith("Not recovered")
    assert matter.ours.startswith(
        "difference between the mean distances of a choice's values: share of adherent patients 1.0"
    )
    other, _ = reading_sections.judge_readings(distances_of(far | {readings.grid()[-1]: 0.5}))
    assert other.verdict.startswith("Recovered under other readings than the default")
    default, _ = reading_sections.judge_readings(distances_of(far | {DEFAULT: 1.0}))
    assert default.verdict.startswith("Recovered under the default reading")
    assert default.ours.startswith("1 of 144 readings")


def test_figure_1_is_recovered_only_where_half_are_left_out():
    (judged,) = reading_sections.judge_starved({"x": {"a": (60, 70), "b": (30, 44)}})
    assert judged.verdict.startswith("Not recovered")
    assert judged.ours == "from 30 to 70 % over all cohorts and indices"
    (judged,) = reading_sections.judge_starved({"x": {"a": (60, 70), "b": (44, 51)}})
    assert "x on b (44 to 51 %)" in judged.verdict
    assert "x on a" not in judged.verdict


def test_a_table_stands_for_its_readings_too():
    assert {e.figure for e in find(["table2"])} == {"table2", "table2-readings"}
    assert {e.figure for e in find(["fig1"])} == {"fig1", "fig1-readings"}
    assert {e.figure for e in find(["fig2"])} == {"fig2a", "fig2b", "fig2c"}
    assert {e.figure for e in find(["table2-readings"])} == {"table2-readings"}
