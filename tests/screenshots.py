"""Pictures of the page for the README and the docs: python tests/screenshots.py docs/images/page.

The sample programme after three rounds, with the list of the fourth partly marked.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright
from test_browser import chromium_path, serving, visiting

from softfair.programme import imports, plans, records, sample
from softfair.programme.settings import initialise
from softfair.programme.store import Store
from softfair.web.accounts import new_account
from softfair.web.deeds import mark

NAME = "softfair"
PICTURES = {
    "home": "/",
    "round": "/round/24?group=region",
    "fairness": "/fairness",
    "person": "/person?id=P017",
}


def sample_programme(folder: Path) -> Store:
    """The sample, three rounds recorded and the fourth under way."""
    database = Store(str(folder / "sample.db"))
    initialise(database, NAME, capacity=12, seed=0, first_day="2027-01-04")
    imports.import_people(database, sample.people_file(), NAME)
    imports.import_history(database, sample.history_file(), NAME)
    for _ in range(3):
        plans.make_plan(database, NAME)
        records.record(database, sample.outcome_file(database), NAME)
    plan, _ = plans.make_plan(database, NAME)
    for name, reached in zip(plan.list, (True, True, False), strict=False):
        mark(database, plan.round, name, reached, None)
    new_account(database, "officer", "officer", None)
    return database


def main(out: Path) -> None:
    """Write all pictures, wide ones and the list on a phone."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=["--no-sandbox"])
        database = sample_programme(Path(scratch))
        with serving(database, Path(scratch)) as address:
            for width, names in ((1100, PICTURES), (360, {"phone": "/round/24"})):
                view = {"width": width, "height": 800}
                with visiting(browser, address, database, "officer", viewport=view) as page:
                    for name, place in names.items():
                        page.goto(place)
                        page.wait_for_load_state("networkidle")
                        file = out / f"{name}.png"
                        few_colours = Image.open(io.BytesIO(page.screenshot())).quantize(64)
                        few_colours.save(file, optimize=True)
                        print(file)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
