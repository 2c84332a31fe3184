"""The report: one page with each figure and table, the paper's statements, and our verdicts."""

from __future__ import annotations

import html
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from .. import page
from ..files import write_whole
from ..theory import Verdict
from ..theory import table as verdict_rows
from .catalogue import EXPERIMENTS, Experiment
from .drawings import (
    draw_figure_1,
    draw_figure_2,
    draw_figure_3a,
    draw_figure_3b,
    draw_frontiers,
    draw_table_2,
)
from .intervals import FEWEST_COHORTS, summarise
from .judgements import (
    judge_figure_1,
    judge_figure_2,
    judge_figure_3a,
    judge_figure_3b,
    judge_frontiers,
    judge_table_2,
    table_2,
)
from .limits import LIMIT_SECTION
from .outcomes import Outcome
from .paper import REFERENCES
from .reading_sections import READING_SECTIONS
from .sections import Judgement, Results, Section, Table, describe, parts, unsettled_note

__all__ = ["SECTIONS", "Drawings", "write_report"]

TITLE = "Towards Soft Fairness in Restless Multi-Armed Bandits, reproduced"
INTERVALS = "Whiskers: 95 % intervals of the mean over cohorts."
AT_INFINITY = (
    "At c = \u221e the top k are chosen by values learnt with c = 1 (caption of the paper's "
    "Figure 3). This is another recipe than one c for learning and drawing, so these points are "
    "not joined to the others, except for the policy that learns with c_value = 1 throughout."
)


def _caption_1(results: Results) -> str:
    outcomes = parts(results, "fig1")
    return (
        f"{describe(outcomes)}. Drawn: the first run on the first cohort; judged: all."
        + unsettled_note(outcomes)
    )


def _caption_2(results: Results) -> str:
    panels = {name: parts(results, name) for name in ("fig2a", "fig2b", "fig2c")}
    runs = [f"({name[-1]}) {describe(panel)}." for name, panel in panels.items() if panel]
    outcomes = [outcome for panel in panels.values() for outcome in panel]
    return f"{' '.join(runs)} {INTERVALS} Dotted: the Oracle.{unsettled_note(outcomes)}"


def _caption_3a(results: Results) -> str:
    outcomes = parts(results, "fig3a")
    return f"{describe(outcomes)}. {INTERVALS} Dotted: the Oracle. {AT_INFINITY}" + unsettled_note(
        outcomes
    )


def _caption_3b(results: Results) -> str:
    outcomes = parts(results, "fig3b")
    return f"{describe(outcomes)}. {INTERVALS}{unsettled_note(outcomes)}"


def _caption_table_2(results: Results) -> str:
    outcomes = parts(results, "table2")
    parameters = outcomes[0].experiment.settings()["parameters"]
    choices = "; ".join(
        f"{name.replace('_', ' ')} {_words(value)}"
        for name, value in parameters.items()
        if name != "matrices"
    )
    return (
        f"CPAP cohort; {describe(outcomes)}. Choices that the paper leaves open: {choices}. "
        f"{INTERVALS}{unsettled_note(outcomes)}"
    )


def _words(value: object) -> str:
    """A parameter of a data set in words."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_words(part)}" for name, part in value.items())
    if isinstance(value, list):
        return " to ".join(map(_words, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _caption_frontiers(results: Results) -> str:
    outcomes = parts(results, "fig3a")
    return f"The experiments of Figure 3a: {describe(outcomes)}. Means. {AT_INFINITY}" + (
        unsettled_note(outcomes)
    )


SECTIONS = (
    Section(
        "fig1", "Figure 1: who is ever helped", ("fig1",), _caption_1, draw_figure_1, judge_figure_1
    ),
    Section(
        "fig2",
        "Figure 2: benefit by (a) number of arms, (b) budget, (c) horizon",
        ("fig2a", "fig2b", "fig2c"),
        _caption_2,
        draw_figure_2,
        judge_figure_2,
    ),
    Section(
        "fig3a",
        "Figure 3 (a): benefit by the multiplier c",
        ("fig3a",),
        _caption_3a,
        draw_figure_3a,
        judge_figure_3a,
    ),
    Section(
        "fig3b",
        "Figure 3 (b): action entropy",
        ("fig3b",),
        _caption_3b,
        draw_figure_3b,
        judge_figure_3b,
    ),
    Section(
        "table2",
        "Table 2: the CPAP cohort",
        ("table2",),
        _caption_table_2,
        draw_table_2,
        judge_table_2,
        table_2,
    ),
    Section(
        "frontier",
        "Beyond the paper: benefit against (a) entropy, (b) the share never helped",
        ("fig3a",),
        _caption_frontiers,
        draw_frontiers,
        judge_frontiers,
    ),
    LIMIT_SECTION,
    *READING_SECTIONS,
)


class Drawings:
    """Sections of the report, each drawn as soon as the last of its experiments is done.

    Parameters
    ----------
    experiments : sequence of Experiment
        The experiments that are run; a section without any of its experiments is left out.
    out : Path
        Folder. Pictures go to ``out/figures`` as PNG and SVG.
    """

    def __init__(self, experiments: Sequence[Experiment], out: Path) -> None:
        self._missing = {
            section.key: {e.id for e in experiments if e.figure in section.needs}
            for section in SECTIONS
        }
        self._order = [e.id for e in experiments]  # the order in which a figure shows its parts
        self._results: dict[str, Outcome] = {}
        self._out = out
        self._drawn: dict[str, str] = {}  # by key of the section

    def add(self, outcome: Outcome) -> None:
        """Add the outcome of an experiment, and draw the sections that it completes."""
        name_of_done = outcome.experiment.id
        results = self._results
        results[name_of_done] = outcome
        for section in SECTIONS:
            missing = self._missing[section.key]
            if name_of_done in missing:
                missing.remove(name_of_done)
                if not missing:
                    known = {name: results[name] for name in self._order if name in results}
                    self._drawn[section.key] = _section(section, known, self._out)

    def sections(self) -> list[str]:
        """The sections that were drawn, in the order of the report."""
        return [self._drawn[section.key] for section in SECTIONS if section.key in self._drawn]


def write_report(
    results: Results,
    out: Path,
    seed: int = 0,
    quick: bool = False,
    verdicts: Sequence[Verdict] = (),
    drawings: Drawings | None = None,
) -> Path:
    """Write the report of the experiments that were run.

    Parameters
    ----------
    results : mapping of str to Outcome
        The result of :func:`run`. A section without any of its experiments is left out.
    out : Path
        Folder. Pictures go to ``out/figures`` as PNG and SVG.
    seed : int
        The seed with which the experiments were run.
    quick : bool
        Whether the small version was run.
    verdicts : sequence of Verdict
        The result of :func:`softfair.theory.verdicts`; if empty, the section is left out.
    drawings : Drawings, optional
        The sections, if they were drawn while the experiments were run.

    Returns
    -------
    Path
        The page, ``out/report.html``, which needs no other file.
    """
    if drawings is None:
        drawings = Drawings([outcome.experiment for outcome in results.values()], out)
        for outcome in results.values():
            drawings.add(outcome)
    written = drawings.sections()
    if own_policies := _own_policies(results):
        written.append(own_policies)
    if verdicts:
        written.append(_claims(verdicts, quick))
    body = "\n".join(
        [
            f"<h1>{TITLE}</h1>",
            *(f"<p>{paragraph}</p>" for paragraph in _introduction(quick)),
            *written,
            _making(seed),
            _sources(),
        ]
    )
    path = out / "report.html"
    write_whole(path, page.page("softfair: the paper, reproduced", body))
    return path


def _section(section: Section, results: Results, out: Path) -> str:
    """Picture, tables and judgements of one section; the picture is also written to files."""
    figure = section.draw(results)
    png = page.picture(figure, "png")
    figure.set_layout_engine(None)  # keeps the layout of the first picture
    for kind, content in (("png", png), ("svg", page.picture(figure, "svg"))):
        write_whole(out / "figures" / f"{section.key}.{kind}", content)
    body = [page.image(figure, section.title, png=png)]
    body.append(f'<p class="lead">{html.escape(section.caption(results))}</p>')
    body += [_table(table) for table in section.tables(results)]
    body += [_judgement(judgement) for judgement in section.judge(results)]
    return page.section(section.title, "".join(body))


def _own_policies(results: Results) -> str:
    """A table of the policies that are not in the catalogue; "" if there are none."""
    rows = []
    for outcome in results.values():
        known = EXPERIMENTS[outcome.experiment.id].policies
        for label in [name for name in outcome.experiment.policies if name not in known]:
            figures = (
                summarise(outcome.rows, label, column).text(digits)
                for column, digits in (("benefit", 1), ("entropy", 2), ("never_selected", 2))
            )
            rows.append((label, outcome.experiment.id, *figures))
    if not rows:
        return ""
    headings = ("policy", "experiment", "benefit %", "entropy", "share never helped")
    lead = "Means over cohorts with 95 % intervals; benefit is in % of what the Oracle adds."
    return page.section("Policies of your own", page.table(headings, rows), lead)


def _table(table: Table) -> str:
    note = f'<p class="lead">{html.escape(table.note)}</p>' if table.note else ""
    return page.table(table.headings, table.rows, table.text) + note


def _judgement(judgement: Judgement) -> str:
    return (
        f"<dl><dt>the paper</dt><dd>{html.escape(judgement.paper)}</dd>"
        f"<dt>here</dt><dd>{html.escape(judgement.ours)}</dd>"
        f'<dt>verdict</dt><dd class="verdict">{html.escape(judgement.verdict)}</dd></dl>'
    )


def _introduction(quick: bool) -> list[str]:
    """The paragraphs before the first figure."""
    first = (
        "Every setting has several cohorts, each made from its own seed. On each cohort every "
        "policy runs several times with the same random numbers. The 95 % interval of the mean "
        "over cohorts is in brackets. Verdicts rest on such intervals; verdicts between policies "
        "rest on intervals of differences paired by cohort. If an interval does not decide, the "
        f"verdict says so; with fewer than {FEWEST_COHORTS} cohorts there is no verdict. An "
        "asterisk, a hatched bar or a hollow marker shows figures whose values had not settled. "
        "gamma = 1."
    )
    if not quick:
        return [first]
    return [
        "This is the small version: it has the sizes of the paper, but fewer cohorts than the full "
        "report. Algorithm 1, which takes most of the time of the full report, is in Table 2 only, "
        "with few episodes: its values have not settled, so it is not judged. The other sections "
        "show SoftFair by the fast solvers. Other readings of Table 2 and Figure 1 are left out. "
        "<code>softfair reproduce</code> makes the full report.",
        first,
    ]


def _claims(verdicts: Sequence[Verdict], quick: bool) -> str:
    """The verdicts on the paper's claims as a table."""
    rows = [
        (row.claim, row.statement, row.verdict, row.corrected, row.margin, f"{row.instances:,}")
        for row in verdict_rows(verdicts)
    ]
    headings = ("claim", "statement", "verdict", "what holds instead", "margin", "tried")
    command = "softfair verify --quick" if quick else "softfair verify"
    return page.section(
        "The paper's claims",
        page.table(headings, rows, text=True),
        f"What {command} finds; with --json it also gives the witness of each verdict.",
    )


def _making(seed: int) -> str:
    """When, with what and on what machine the page was made."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "numba"))
    rows = [
        ("date", datetime.now(UTC).date().isoformat()),
        ("softfair", version("softfair")),
        ("seed", str(seed)),
        ("Python", platform.python_version()),
        ("libraries", versions),
        ("processor", f"{_processor()}, {os.cpu_count()} cores"),
        ("system", f"{platform.system()}, {platform.machine()}"),
    ]
    return page.section(
        "How this page was made",
        page.table(("what", "which"), rows, text=True),
        "Every choice in force, the seed and the software are recorded beside the rows in "
        "results/; a result made by other software or with other choices is not used again.",
    )


def _processor() -> str:
    """The model of the processor, if the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or "unknown"


def _sources() -> str:
    """References with links, and how to cite."""
    items = []
    for reference in REFERENCES:
        title = (
            page.link(reference.link, reference.title)
            if reference.link
            else html.escape(reference.title)
        )
        items.append(
            f"<li>{html.escape(reference.authors)}: {title}. {html.escape(reference.use)}.</li>"
        )
    cite = (
        f"The softfair developers: softfair, version {version('softfair')}; and the paper itself. "
        "CITATION.cff in the repository has the same for reference managers."
    )
    return page.section("References", f"<ul>{''.join(items)}</ul>") + page.section(
        "How to cite", f"<p>{html.escape(cite)}</p>"
    )
