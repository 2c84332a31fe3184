"""Judgements of the paper's statements by our results, in sentences that intervals decide.

No sentence here rests on a mean alone. If an interval does not decide, the sentence says that the
runs cannot tell. If there are too few cohorts for an interval, the sentence says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from .catalogue import EPISODES
from .drawings import DECOUPLED, PLACE
from .intervals import (
    Answer,
    Difference,
    Floats,
    Summary,
    all_above,
    cohort_means,
    difference,
    difference_of,
    summarise,
)
from .outcomes import Outcome
from .paper import PAPER_TABLE_2
from .sections import (
    SOLVERS,
    Judgement,
    Results,
    Table,
    figures_of_policies,
    number,
    parts,
    solvers_of,
)

RIVALS = ("Random", "Myopic", "FairMyopic")
CANNOT_TELL = "these runs cannot tell"
TOO_FEW = "too few runs to say"
TOO_EARLY = "not judged, after so few episodes"
ABOUT_HALF = (0.4, 0.6)  # share of arms that counts as "almost 50 %"
NEXT_TO_NONE = 0.1  # share of arms that counts as hardly any
NEAR_OPTIMAL = 98.0  # % of the Oracle's benefit
A_POINT = 1.0  # of benefit: a smaller step down does not count against steady growth


def _verdict(answers: dict[str, Answer], if_yes: str, if_no: str) -> str:
    """One sentence over several policies: for which a claim holds, fails or is undecided."""
    words: dict[Answer, str] = {
        "yes": if_yes,
        "no": if_no,
        "open": CANNOT_TELL,
        "few": TOO_FEW,
        "early": TOO_EARLY,
    }
    if set(answers.values()) == {"few"}:
        return f"{TOO_FEW.capitalize()}."
    clauses = []
    for answer in words:
        policies = [policy for policy, own_answer in answers.items() if own_answer == answer]
        if policies and len(answers) == 1:
            clauses.append(words[answer])
        elif policies:
            clauses.append(f"{words[answer]} ({', '.join(policies)})")
    sentence = "; ".join(clauses)
    return f"{sentence[0].upper()}{sentence[1:]}."


def _judged(outcomes: Sequence[Outcome], policy: str, answer: Answer) -> Answer:
    """The answer; "early" if it rests on too few episodes of Algorithm 1."""
    for outcome in outcomes:
        episodes = getattr(outcome.experiment.policies[policy], "episodes", None)
        early = episodes is not None and episodes < EPISODES * outcome.experiment.horizon
        if early and not summarise(outcome.rows, policy, "benefit").settled:
            return "early"
    return answer


def _within(summary: Summary, low: float, high: float) -> Answer:
    """Whether the interval is inside a range ("yes"), outside ("no") or across an end ("open")."""
    if math.isnan(summary.low):
        return "few"
    if low <= summary.low and summary.high <= high:
        return "yes"
    return "no" if summary.high < low or summary.low > high else "open"


def _share(summary: Summary) -> str:
    """A share as a percentage with its interval."""
    scaled = Summary(
        100 * summary.mean,
        100 * summary.sd,
        100 * summary.low,
        100 * summary.high,
        summary.cohorts,
        summary.settled,
    )
    return scaled.text(0, " %")


# -- Figure 1


def judge_figure_1(results: Results) -> list[Judgement]:
    """The shares of arms that are never helped."""
    outcome = results["fig1"]
    never = figures_of_policies(outcome, "never_selected")
    half = never["Threshold Whittle"]
    about_half = _verdict(
        {"Threshold Whittle": _within(half, *ABOUT_HALF)},
        "Reproduced: between 40 and 60 % of the arms",
        "Not reproduced: the interval lies outside 40 to 60 %",
    )
    answers: dict[str, Answer] = {}
    shares = []
    for solver in solvers_of([outcome]):
        gaps = [
            difference(outcome.rows, rival, solver, "never_selected")
            for rival in ("Threshold Whittle", "Whittle")
        ]
        few = _within(never[solver], 0.0, NEXT_TO_NONE)
        spread = all_above(gaps)
        label = _label([outcome], solver)
        answers[label] = _judged([outcome], solver, spread if spread != "yes" else few)
        shares.append(f"{solver} {_share(never[solver])}")
    return [
        Judgement(
            'Threshold Whittle: "almost 50% of the arms never get activated".',
            f"never helped: Threshold Whittle {_share(half)}, Whittle {_share(never['Whittle'])}",
            f"{about_half} The paper's histogram is of one cohort that it does not give.",
        ),
        Judgement(
            "SoftFair (c = 2) spreads help.",
            f"never helped: {', '.join(shares)}",
            _verdict(
                answers,
                "Reproduced: fewer than under either index policy, and under 10 %",
                "Not reproduced: 10 % or more, or no fewer than under an index policy",
            ),
        ),
    ]


# -- Figure 2


def judge_figure_2(results: Results) -> list[Judgement]:
    """Whether SoftFair leads in every setting, and how its benefit changes with k and T."""
    panels = ("fig2a", "fig2b", "fig2c")
    outcomes = [outcome for name in panels for outcome in parts(results, name)]
    answers: dict[str, Answer] = {}
    leads_of = []
    for solver in solvers_of(outcomes):
        by_setting = [
            [difference(o.rows, solver, rival, "benefit") for rival in RIVALS] for o in outcomes
        ]
        label = _label(outcomes, solver)
        leads = all_above([gap for gaps in by_setting for gap in gaps])
        answers[label] = _judged(outcomes, solver, leads)
        single = [all_above(gaps) for gaps in by_setting]
        leads_of.append(
            f"{label} leads in {single.count('yes')} of {len(single)} settings, "
            f"trails in {single.count('no')}"
        )
    judgements = [
        Judgement(
            "SoftFair consistently outperforms Random, Myopic and FairMyopic (c is not stated).",
            f"{'; '.join(leads_of)} (leads: above all three; trails: below one of them)",
            _verdict(
                answers,
                "Reproduced: leads in every setting",
                "Not reproduced: trails in some setting",
            ),
        )
    ]
    claims = (
        ("fig2b", "A gradual increase of the benefit as k grows.", 1),
        ("fig2c", "A smaller T leads to better performance (slightly).", -1),
    )
    for name, claim, sign in claims:
        if len(parts(results, name)) > 1:
            judgements.append(_judge_trend(parts(results, name), claim, sign))
    return judgements


def _label(outcomes: Sequence[Outcome], policy: str) -> str:
    """The name of the policy, with an asterisk if its values had not settled in some outcome."""
    settled = all(summarise(o.rows, policy, "benefit").settled for o in outcomes)
    return policy if settled else f"{policy}*"


def _judge_trend(outcomes: Sequence[Outcome], claim: str, sign: int) -> Judgement:
    """Whether benefit rises (sign 1) or falls (-1) from the first outcome to the last."""
    first, last = outcomes[0], outcomes[-1]
    answers: dict[str, Answer] = {}
    changes = []
    for solver in solvers_of(outcomes):
        change = difference(last.rows, solver, solver, "benefit", first.rows)
        towards = (
            change if sign > 0 else difference(first.rows, solver, solver, "benefit", last.rows)
        )
        label = _label([first, last], solver)
        answers[label] = _judged([first, last], solver, all_above([towards]))
        changes.append(f"{label} {change.text(1)}")
    place = PLACE[first.experiment.figure]
    ends = f"from {number(place(first.experiment))} to {number(place(last.experiment))}"
    words = ("a rise", "a fall") if sign > 0 else ("a fall", "a rise")
    return Judgement(
        claim,
        f"points of benefit {ends}, on the same cohorts: {'; '.join(changes)}",
        _verdict(answers, f"Reproduced: {words[0]}", f"Not reproduced: {words[1]}"),
    )


# -- Figure 3


def judge_figure_3a(results: Results) -> list[Judgement]:
    """Whether benefit grows with c, and whether the top k of lambda reach the Oracle."""
    outcomes = parts(results, "fig3a")
    finite = [o for o in outcomes if math.isfinite(PLACE["fig3a"](o.experiment))]
    judgements = []
    if len(finite) > 1:
        judgements.append(_judge_growth(finite))
    last = outcomes[-1]
    if math.isinf(PLACE["fig3a"](last.experiment)):
        named = {}
        if SOLVERS[0] in solvers_of([last]):
            learnt = summarise(last.rows, SOLVERS[0], "benefit")
            named["Algorithm 1" if learnt.settled else "Algorithm 1*"] = learnt
        named["mean field"] = summarise(last.rows, DECOUPLED, "benefit")
        judgements.append(
            Judgement(
                "Choosing the top k by \u03bb (c = \u221e, values learnt with c = 1) achieves the "
                "optimal result.",
                "benefit at c = \u221e: "
                + ", ".join(f"{name} {summary.text(1, ' %')}" for name, summary in named.items()),
                _verdict(
                    {n: _within(summary, NEAR_OPTIMAL, math.inf) for n, summary in named.items()},
                    "Reproduced: within two points of the Oracle",
                    "Not reproduced: more than two points below the Oracle",
                ),
            )
        )
    return judgements


def _judge_growth(outcomes: Sequence[Outcome]) -> Judgement:
    """Whether benefit grows steadily: up from first to last, and no step down by over a point."""
    answers: dict[str, Answer] = {}
    figures = []
    for policy in (*solvers_of(outcomes), DECOUPLED):
        steps = [
            difference(b.rows, policy, policy, "benefit", a.rows) for a, b in pairwise(outcomes)
        ]
        whole = difference(outcomes[-1].rows, policy, policy, "benefit", outcomes[0].rows)
        steady, up = all_above(steps, -A_POINT), all_above([whole])
        answers[_label(outcomes, policy)] = up if steady == "yes" else steady
        summaries = [summarise(o.rows, policy, "benefit") for o in outcomes]
        figures.append(f"{policy} {', '.join(summary.text() for summary in summaries)}")
    multipliers = ", ".join(number(PLACE["fig3a"](o.experiment)) for o in outcomes)
    return Judgement(
        "Benefit grows with c.",
        f"at c = {multipliers}: {'; '.join(figures)}",
        _verdict(
            answers,
            "Reproduced: growth, at no step a fall by more than a point",
            "Not reproduced: a fall by more than a point at some step",
        ),
    )


def judge_figure_3b(results: Results) -> list[Judgement]:
    """Whether Random has the highest entropy, and SoftFair has more entropy than the Oracle."""
    outcomes = parts(results, "fig3b")
    solvers = solvers_of(outcomes)
    others = ("FairMyopic", *solvers, "Myopic", "Oracle")
    lottery = [difference(o.rows, "Random", other, "entropy") for o in outcomes for other in others]
    answers: dict[str, Answer] = {}
    leads = []
    for solver in solvers:
        gaps = [difference(o.rows, solver, "Oracle", "entropy") for o in outcomes]
        label = _label(outcomes, solver)
        answers[label] = all_above(gaps)
        least = min(gaps, key=lambda gap: gap.mean)
        leads.append(f"{label} {least.text(2)}")
    nearest = min(lottery, key=lambda gap: gap.mean)
    return [
        Judgement(
            "Random has the highest entropy.",
            f"smallest lead of Random over another policy: {nearest.text(3)}",
            _verdict(
                {"Random": all_above(lottery)},
                "Reproduced: above every other policy in every setting",
                "Not reproduced: below another policy in some setting",
            ),
        ),
        Judgement(
            "SoftFair consistently has a higher action entropy than the Oracle.",
            f"smallest lead over the Oracle: {'; '.join(leads)}",
            _verdict(
                answers,
                "Reproduced: above the Oracle in every setting",
                "Not reproduced: below the Oracle in some setting",
            ),
        ),
    ]


# -- Table 2


def table_2(results: Results) -> list[Table]:
    """Our figures and those of the paper."""
    outcome = results["table2"]
    benefit = figures_of_policies(outcome, "benefit")
    entropy = figures_of_policies(outcome, "entropy")
    never = figures_of_policies(outcome, "never_selected")
    rows = []
    for policy in benefit:
        b, e = benefit[policy], entropy[policy]
        of_paper = PAPER_TABLE_2.get("SoftFair" if policy in SOLVERS else policy)
        printed = (
            ("100", "not given")
            if of_paper is None
            else tuple(f"{mean:g}\u00a0\u00b1\u00a0{sd:g}" for mean, sd in of_paper)
        )
        rows.append(
            (
                policy if b.settled else f"{policy}*",
                f"{b.mean:.0f}\u00a0\u00b1\u00a0{b.sd:.1f}",
                _ends(b, 1),
                printed[0],
                f"{e.mean:.2f}\u00a0\u00b1\u00a0{e.sd:.3f}",
                _ends(e, 2),
                printed[1],
                _share(never[policy]).replace(" ", "\u00a0"),
            )
        )
    headings = (
        "policy",
        "benefit, % \u00b1 sd",
        "95 % interval of the mean",
        "paper: benefit",
        "entropy \u00b1 sd",
        "95 % interval of the mean",
        "paper: entropy",
        "never helped (95 % interval)",
    )
    note = (
        "sd: over all simulations, as in the paper. Interval: of the mean over cohorts. The paper "
        "has one SoftFair and does not give the share never helped."
    )
    return [Table(headings, tuple(rows), note)]


def _ends(summary: Summary, digits: int) -> str:
    if math.isnan(summary.low):
        return TOO_FEW
    return f"{summary.low:.{digits}f}\u00a0to\u00a0{summary.high:.{digits}f}"


def judge_table_2(results: Results) -> list[Judgement]:
    """Whether our means lie within the paper's mean and sd, and whether the orders are the same."""
    outcome = results["table2"]
    judgements = []
    for place, (column, digits) in enumerate((("benefit", 0), ("entropy", 2))):
        answers: dict[str, Answer] = {}
        for policy, figures in PAPER_TABLE_2.items():
            paper_mean, sd = figures[place]
            room = sd + 0.5 * 10.0**-digits  # the paper prints a rounded mean
            for name in SOLVERS if policy == "SoftFair" else (policy,):
                ours = summarise(outcome.rows, name, column)
                label = name if ours.settled else f"{name}*"
                within = _within(ours, paper_mean - room, paper_mean + room)
                answers[label] = _judged([outcome], name, within)
        judgements.append(
            Judgement(
                f"The figures of {column}.",
                "see the table",
                _verdict(
                    answers,
                    "Reproduced: our interval lies within the paper's mean \u00b1 sd",
                    "Not reproduced: our interval lies outside the paper's mean \u00b1 sd",
                ),
            )
        )
    orders = (
        ("benefit", ("Myopic", "SoftFair", "FairMyopic", "Random"), 1),
        ("entropy", ("Random", "FairMyopic", "SoftFair", "Myopic"), 3),
    )
    judgements += [_judge_order(outcome, *order) for order in orders]
    return judgements


def _judge_order(outcome: Outcome, column: str, order: Sequence[str], digits: int) -> Judgement:
    """Whether each policy of an order is above the next, for each solver as SoftFair."""
    answers: dict[str, Answer] = {}
    gap_texts = []
    for solver in SOLVERS:
        names = [solver if policy == "SoftFair" else policy for policy in order]
        gaps = [difference(outcome.rows, a, b, column) for a, b in pairwise(names)]
        label = _label([outcome], solver)
        answers[label] = _judged([outcome], solver, all_above(gaps))
        gap_texts.append(
            f"{label}: "
            + ", ".join(
                f"{a} over {b} {gap.text(digits)}"
                for (a, b), gap in zip(pairwise(order), gaps, strict=True)
            )
        )
    return Judgement(
        f"Order of {column}: {' > '.join(order)}.",
        f"paired differences with {'; with '.join(gap_texts)}",
        _verdict(answers, "Reproduced: the whole order", "Not reproduced: a step is reversed"),
    )


# -- Beyond the paper


def judge_frontiers(results: Results) -> list[Judgement]:
    """The benefit that values by prices, or learnt with c_value = 1, add at the same entropy."""
    outcomes = [o for o in parts(results, "fig3a") if math.isfinite(PLACE["fig3a"](o.experiment))]
    judgements = []
    coupled_solvers = [s for s in solvers_of(outcomes) if s != "SoftFair (priced)"]
    for challenger, words in (
        ("SoftFair (priced)", "Prices"),
        (DECOUPLED, "Values learnt with c_value = 1"),
    ):
        for coupled in coupled_solvers:
            gains = _gains_at_no_less_entropy(outcomes, challenger, coupled)
            answer: Answer = all_above(list(gains.values()))
            at = ", ".join(f"{gain.text(1)} at c = {number(c)}" for c, gain in gains.items())
            verdict = (
                "Nothing to compare."
                if not gains
                else _verdict(
                    {challenger: answer},
                    "Dominates: more benefit at no less entropy, at every c compared",
                    "Does not dominate: less benefit at some c",
                )
            )
            judgements.append(
                Judgement(
                    f"(beyond the paper) {words} against one c for learning and drawing, "
                    f"{_label(outcomes, coupled)}.",
                    f"points more at no less entropy: {at or 'none to compare'}",
                    verdict,
                )
            )
    return [*judgements, judge_bound(results)]


def _gains_at_no_less_entropy(
    outcomes: Sequence[Outcome], challenger: str, coupled: str
) -> dict[float, Difference]:
    """For each c of the coupled curve, by how much the challenger's curve lies above it.

    The challenger's curve is interpolated between its points for each cohort. For an entropy below
    its smallest, the point of smallest entropy is used, which is at least as even. A c is left out
    if its entropy exceeds the challenger's largest on some cohort, or if both curves have the same
    policy there.
    """
    entropy = np.array([cohort_means(o.rows, challenger, "entropy") for o in outcomes])
    benefit = np.array([cohort_means(o.rows, challenger, "benefit") for o in outcomes])
    gains: dict[float, Difference] = {}
    for outcome in outcomes:
        at = cohort_means(outcome.rows, coupled, "entropy")
        policies = outcome.experiment.settings()["policies"]
        if (at > entropy.max(axis=0)).any() or policies[challenger] == policies[coupled]:
            continue
        above: Floats = np.empty(len(at))
        for i in range(len(at)):
            order = np.argsort(entropy[:, i])
            above[i] = np.interp(at[i], entropy[order, i], benefit[order, i])
        above -= cohort_means(outcome.rows, coupled, "benefit")
        gains[PLACE["fig3a"](outcome.experiment)] = difference_of(above)
    return gains


def judge_bound(results: Results) -> Judgement:
    """Whether any policy in any experiment earned more than the certificate allows."""
    highest: Summary | None = None
    nearest = ""
    slack: list[Difference] = []
    for name, outcome in results.items():
        for policy, summary in figures_of_policies(outcome, "of_bound").items():
            values = 100 - cohort_means(outcome.rows, policy, "of_bound")
            slack.append(difference_of(values))
            if highest is None or summary.mean > highest.mean:
                highest, nearest = summary, f"{policy} in {name}"
    assert highest is not None
    answer = all_above(slack)
    words: dict[Answer, str] = {
        "yes": "Held: every policy's interval lies below the bound.",
        "no": "Broken: some policy's interval lies above the bound.",
        "open": "Held: no policy's interval lies above the bound; some reach it.",
        "few": f"{TOO_FEW.capitalize()}.",
    }
    return Judgement(
        "(beyond the paper) A bound that no policy can exceed in expectation.",
        f"nearest to it: {nearest}, {highest.text(1, ' %')} of the bound",
        words[answer],
    )
