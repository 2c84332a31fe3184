"""A programme with untidy files as offices have them: its people, its spreadsheets and its law.

This file uses no code of the package. Each person has chances of being well next week, which depend
on the state now and on whether the person was called. The office notes the minutes that a person
exercised, at least 3 in a good week. The files have other names for columns, lost zeros, several
spellings of a place, decimal commas, dates with the day first, gaps, notes and titles.
"""

from __future__ import annotations

import csv
import datetime as dt
import io

import numpy as np
import openpyxl

FIRST = dt.date(2027, 1, 4)  # a Monday
PLACES = ("Pune", "Nagpur", "Nashik")
SPELLINGS = {"Pune": ("Pune", "Pune", "Pune", "pune", "Puné")}
WORKERS = ("Asha", "Bela Rao")
GOOD = 3.0  # minutes


class World:
    """The true states of people, and the files that the office writes about them."""

    def __init__(self, n: int, weeks: int, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.n, self.weeks = n, weeks
        self.ids = [f"{i:05d}" for i in range(7, 7 + n)]
        low = self.rng.uniform(0.1, 0.5, n)
        self.p = np.empty((n, 2, 2))  # [person, called, state]
        self.p[:, 0, 0], self.p[:, 0, 1] = low, low + self.rng.uniform(0.1, 0.4, n)
        self.p[:, 1] = self.p[:, 0] + (1 - self.p[:, 0]) * self.rng.uniform(0.1, 0.6, n)[:, None]
        self.place = self.rng.choice(PLACES, n)
        self.worker = self.rng.choice(WORKERS, n)
        self.state = (self.rng.random(n) < 0.5).astype(int)
        self.reached = self.rng.uniform(0.6, 1.0, n)

    def day(self, week: int) -> dt.date:
        """The first day of a week, from 1."""
        return FIRST + dt.timedelta(days=7 * (week - 1))

    def minutes(self) -> np.ndarray:
        """The minutes that the office notes for everybody's state now."""
        good = GOOD + self.rng.exponential(2, self.n)
        return np.where(self.state == 1, good, self.rng.uniform(0, GOOD - 0.1, self.n)).round(1)

    def step(self, called: np.ndarray) -> None:
        """One week passes."""
        chance = self.p[np.arange(self.n), called, self.state]
        self.state = (self.rng.random(self.n) < chance).astype(int)

    def people_file(self) -> bytes:
        """A workbook with a title, spellings, telephone numbers and a worker."""
        book = openpyxl.Workbook()
        sheet = book.active
        sheet.append(["Beneficiaries, all districts"])
        sheet.append([])
        heading = ["Beneficiary ID", "Full name", "Phone", "Region", "Worker", "Opt-out"]
        sheet.append([*heading, "Joined"])
        for i, name in enumerate(self.ids):
            place = self.place[i]
            spelt = self.rng.choice(SPELLINGS.get(place, (place,)))
            out = self.rng.choice(["", "no", "n/a", "0"])
            joined = dt.datetime.combine(self.day(1), dt.time()) if i % 3 else None
            phone = f"+91 98{i:08d}"
            sheet.append([name, f"Person {i}", phone, spelt, self.worker[i], out, joined])
        return _saved(book)

    def history_file(self) -> bytes:
        """A CSV file from a European spreadsheet: semicolons, latin-1, commas, the day first."""
        text = io.StringIO()
        writer = csv.writer(text, delimiter=";")
        writer.writerow(["Week of", "Person", "Minutes", "Called?", "Notes"])
        for week in range(1, self.weeks + 2):
            minutes = self.minutes()
            called = (self.rng.random(self.n) < 0.15).astype(int)
            day = self.day(week).strftime("%d/%m/%Y")
            for i, name in enumerate(self.ids):
                shown = f"{minutes[i]}".replace(".", ",")
                if self.rng.random() < 0.05:
                    shown = self.rng.choice(["", "n/a", "-"])
                told = "" if week > self.weeks else self.rng.choice(YES if called[i] else NO)
                spelt = name.lstrip("0") if self.rng.random() < 0.5 else name
                note = "téléphoné" if self.rng.random() < 0.1 else ""
                writer.writerow([day, spelt, shown, told, note])
            if week <= self.weeks:
                self.step(called)
        return text.getvalue().encode("latin-1")

    def live(self, listed: list[str]) -> tuple[dict[str, int], np.ndarray]:
        """A week with a list: who on the list was reached, and everybody's minutes after it."""
        called = np.zeros(self.n, int)
        for name in listed:
            i = self.ids.index(name)
            called[i] = self.rng.random() < self.reached[i]
        self.step(called)
        return {name: int(called[self.ids.index(name)]) for name in listed}, self.minutes()


YES, NO = ("1", "yes", "x", "1.0"), ("0", "no", "0.0")


def _saved(book: openpyxl.Workbook) -> bytes:
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def fill(content: bytes, told: dict[str, int | None]) -> bytes:
    """A worksheet that a worker has filled in: ticks, words, gaps and a comment."""
    book = openpyxl.load_workbook(io.BytesIO(content))
    sheet = book.active
    names = [cell.value for cell in sheet[1]]
    for row in sheet.iter_rows(min_row=2):
        cells = dict(zip(names, row, strict=True))
        reached = told.get(str(cells["id"].value))
        cells["contacted"].value = {None: None, 0: "no", 1: "x"}[reached]
        cells["comment"].value = "rang twice" if reached == 0 else None
    return _saved(book)


def minutes_file(world: World, minutes: np.ndarray) -> bytes:
    """A file with states only, in the form of another system."""
    rows = [f"{name},{minute}" for name, minute in zip(world.ids, minutes, strict=True)]
    return "\n".join(["ID,Minutes", *rows, ""]).encode("utf-16")
