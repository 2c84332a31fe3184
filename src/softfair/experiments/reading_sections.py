"""The sections of the report on readings of Table 2 and Figure 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ..figures import COLOURS, FAINT, INK, new_figure
from .paper import PAPER_TABLE_2
from .readings import (
    CHOICES,
    DEFAULT,
    FIGURE_1_COHORTS,
    Distance,
    Effect,
    Reading,
    distance_of,
    grid,
    main_effects,
    nearest,
    starved,
)
from .sections import Judgement, Results, Section, Table, describe, parts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["READING_SECTIONS"]

SHOWN = 12  # readings in the table
HALF = (45.0, 52.0)  # per cent of arms that a reader would call "almost 50%"


def _distances(results: Results) -> dict[Reading, Distance]:
    """The readings that were run, with their distances from Table 2."""
    by_id = {outcome.experiment.x: outcome for outcome in parts(results, "table2-readings")}
    return {
        reading: distance_of(by_id[reading.id].rows) for reading in grid() if reading.id in by_id
    }


def _caption_table_2(results: Results) -> str:
    return (
        f"CPAP cohort; {describe(parts(results, 'table2-readings'))}. Each point is a reading of "
        "what the paper leaves open about its cohort; each panel sorts the same readings by one "
        "choice, and a bar marks the mean. Distance: the largest difference between our mean "
        "benefit and the paper's, over Random, Myopic, FairMyopic and SoftFair (mean field), in "
        "the paper's standard deviations. Dotted: within one standard deviation. Star: the "
        "default of this software, which was chosen after seeing the table."
    )


def draw_table_2(distances: Mapping[Reading, Distance]) -> Figure:
    """Draw the distance of every reading from Table 2, once for each choice.

    A panel shows all readings, sorted by the values of one choice; a bar marks the mean for each
    value. The more the bars differ, the more the choice matters. The star is the default reading.
    """
    figure, axes = new_figure(columns=len(CHOICES), width=2.3, height=3.4)
    effects = main_effects(distances)
    most = max(o.distance for o in distances.values())
    for ax, (choice, title) in zip(axes, CHOICES.items(), strict=True):
        values = list(dict.fromkeys(getattr(reading, choice) for reading in distances))
        of_choice = [effect for effect in effects if effect.choice == choice]
        for place, (value, effect) in enumerate(zip(values, of_choice, strict=True)):
            shared = {r: o.distance for r, o in distances.items() if getattr(r, choice) == value}
            # Points are spread by golden steps, which keeps neighbours apart without randomness.
            aside = 0.3 * ((np.arange(len(shared)) * 0.618) % 1 - 0.5)
            ax.scatter(place + aside, list(shared.values()), s=8, color=COLOURS[0], alpha=0.5)
            ax.plot([place - 0.3, place + 0.3], [effect.distance] * 2, color=INK, linewidth=1.5)
            if DEFAULT in shared:
                ax.plot(place, shared[DEFAULT], marker="*", color=COLOURS[1], markersize=11)
        ax.axhline(1, color=FAINT, linestyle=":", linewidth=1)
        ax.set_xticks(range(len(values)), [effect.value for effect in of_choice], fontsize=8)
        ax.set_title(title, fontsize=9, color=INK)
        ax.set_ylim(0, 1.05 * most)
    axes[0].set_ylabel("distance from Table 2 (in its sd)")
    return figure


def draw_starved(shares: Mapping[str, Mapping[str, tuple[float, float]]]) -> Figure:
    """Draw bars from the lowest to the highest share of arms never helped, over instances."""
    figure, (ax,) = new_figure(columns=1, width=7.2, height=3.6)
    width = 0.8 / len(shares)
    for number, (policy, cohorts) in enumerate(shares.items()):
        places = np.arange(len(cohorts)) + (number - (len(shares) - 1) / 2) * width
        low, high = (np.array([ends[i] for ends in cohorts.values()]) for i in (0, 1))
        colour = COLOURS[number % len(COLOURS)]
        ax.bar(places, high - low, 0.9 * width, bottom=low, color=colour, label=policy)
    ax.axhline(50, color=INK, linestyle=":", linewidth=1)
    ax.set_xticks(range(len(next(iter(shares.values())))), list(next(iter(shares.values()))))
    ax.set_ylim(0, 100)
    ax.set_ylabel("arms never helped, %")
    ax.set_xlabel("cohort (p10: chance that help in the bad state brings the good one)")
    figure.legend(loc="outside upper center", ncols=len(shares), frameon=False, fontsize=8)
    return figure


def _draw_table_2(results: Results) -> Figure:
    return draw_table_2(_distances(results))


def _tables_table_2(results: Results) -> list[Table]:
    distances = _distances(results)
    lines = list(PAPER_TABLE_2)
    printed = [f"{benefit:g}" for (benefit, _), _ in PAPER_TABLE_2.values()]
    readings = Table(
        (
            "adherent",
            "effect by",
            "effect is",
            "noise",
            "noise on",
            *(f"{line}, %" for line in lines),
            "distance, sd",
            "cohorts within",
        ),
        (
            ("the paper", "", "", "", "", *printed, "", ""),
            *(
                (
                    f"{100 * reading.adherent:g} %" + (" (default)" if reading == DEFAULT else ""),
                    reading.effect_by,
                    reading.effect_kind,
                    f"{reading.noise:g}",
                    reading.noise_on,
                    *(f"{distance.benefit[line]:.0f}" for line in lines),
                    f"{distance.distance:.2f}",
                    f"{distance.cohorts_within} of {distance.cohorts}",
                )
                for reading, distance in nearest(distances, SHOWN)
            ),
        ),
        f"The {SHOWN} nearest of {len(distances)} readings: benefit of each policy. Within: cohorts"
        " in which all four benefits lie within the paper's standard deviations.",
    )
    effects = Table(
        ("choice", "value", "readings", "within", "Random's benefit, %", "mean distance, sd"),
        tuple(
            (
                CHOICES[effect.choice],
                effect.value,
                f"{effect.readings}",
                f"{effect.within}",
                f"{effect.random:.0f}",
                f"{effect.distance:.1f}",
            )
            for effect in main_effects(distances)
        ),
        "Means over all readings that share a value.",
    )
    return [readings, effects]


def spans(effects: list[Effect]) -> dict[str, float]:
    """The range of the mean distances over the values of each choice, the widest range first."""
    by_choice: dict[str, list[float]] = {}
    for effect in effects:
        by_choice.setdefault(effect.choice, []).append(effect.distance)
    widths = {choice: max(values) - min(values) for choice, values in by_choice.items()}
    return dict(sorted(widths.items(), key=lambda item: -item[1]))


def judge_readings(distances: Mapping[Reading, Distance]) -> list[Judgement]:
    """Whether some reading reproduces Table 2, and which choices matter."""
    within = [reading for reading, distance in distances.items() if distance.within]
    best, least = min(distances.items(), key=lambda item: item[1].distance)
    ours = (
        f"{len(within)} of {len(distances)} readings have all four mean benefits within the "
        f"paper's standard deviations. The nearest ({best.id}) is {least.distance:.2f} of them away"
    )
    if DEFAULT in distances:
        default = distances[DEFAULT]
        ours += (
            f", the default ({DEFAULT.id}) {default.distance:.2f}, and in {default.cohorts_within} "
            f"of {default.cohorts} single cohorts all four are within"
        )
    if DEFAULT in within:
        verdict = (
            "Recovered under the default reading, which takes the paper's words as they stand; its "
            "mix and noise, which are not in the words, were chosen after seeing the table."
        )
    elif within:
        verdict = f"Recovered under other readings than the default: {within[0].id} is one."
    else:
        verdict = "Not recovered: no reading that was tried comes within the standard deviations."
    matter = ", ".join(
        f"{CHOICES[choice]} {width:.1f}" for choice, width in spans(main_effects(distances)).items()
    )
    return [
        Judgement("Table 2, whose cohort is described in two sentences.", f"{ours}.", verdict),
        Judgement(
            "The paper does not say which reading is its own.",
            f"difference between the mean distances of a choice's values: {matter}",
            "The first choices named are those that matter most.",
        ),
    ]


def _judge_table_2(results: Results) -> list[Judgement]:
    return judge_readings(_distances(results))


def _starved(results: Results) -> dict[str, dict[str, tuple[float, float]]]:
    tables = {
        str(outcome.experiment.x): outcome.rows for outcome in parts(results, "fig1-readings")
    }
    return starved({name: tables[name] for name in FIGURE_1_COHORTS if name in tables})


def _caption_figure_1(results: Results) -> str:
    return (
        f"{describe(parts(results, 'fig1-readings'))}. A bar reaches from the cohort with the "
        "fewest arms never helped to the one with the most. Whittle indices see every state; "
        "Threshold Whittle sees only the states of arms that it helps. Dotted: one half."
    )


def _draw_figure_1(results: Results) -> Figure:
    return draw_starved(_starved(results))


def judge_starved(shares: Mapping[str, Mapping[str, tuple[float, float]]]) -> list[Judgement]:
    """The cohorts on which an index never helps almost half of the arms."""
    half = [
        f"{policy} on {cohort} ({low:.0f} to {high:.0f} %)"
        for policy, cohorts in shares.items()
        for cohort, (low, high) in cohorts.items()
        if low <= HALF[1] and high >= HALF[0]
    ]
    ranges = [ends for cohorts in shares.values() for ends in cohorts.values()]
    ours = (
        f"from {min(low for low, _ in ranges):.0f} to "
        f"{max(high for _, high in ranges):.0f} % over all cohorts and indices"
    )
    if half:
        verdict = f"Recovered on some of the paper's own cohorts: {'; '.join(half)}."
    else:
        verdict = (
            f"Not recovered: nowhere does an index leave {HALF[0]:.0f} to {HALF[1]:.0f} % out."
        )
    return [
        Judgement('Figure 1: "almost 50% of the arms never get activated".', f"{ours}", verdict)
    ]


def _judge_figure_1(results: Results) -> list[Judgement]:
    return judge_starved(_starved(results))


READING_SECTIONS = (
    Section(
        "table2-readings",
        "Table 2 under every reading of its words",
        ("table2-readings",),
        _caption_table_2,
        _draw_table_2,
        _judge_table_2,
        _tables_table_2,
    ),
    Section(
        "fig1-readings",
        "Figure 1 on each of the paper's cohorts",
        ("fig1-readings",),
        _caption_figure_1,
        _draw_figure_1,
        _judge_figure_1,
    ),
)
