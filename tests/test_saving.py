"""Saved policies: what is refused, and that loading a file runs no code."""

from __future__ import annotations

import io
import json
import os
import zipfile

import numpy as np
import pytest

import softfair as sf
from softfair import saving
from softfair.errors import InvalidInput


@pytest.fixture(scope="module")
def fitted():
    cohort = sf.Cohort(
        sf.datasets.synthetic(n=6, seed=0).P, ids=[*"abcdef"], groups=["x", "y"] * 3,
        extra={"age": np.arange(6), "name": np.array(["é", "b", "c", "d", "e", None], object)},
    )  # fmt: skip
    return sf.SoftFair(c=float("inf"), c_value=2.0).fit(cohort, k=2, horizon=4)


@pytest.fixture
def file(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    return tmp_path / "model"


def refused(path, said):
    with pytest.raises(InvalidInput, match=said) as caught:
        sf.load(path)
    assert "\n" not in str(caught.value)


def rewritten(file, change, compress=zipfile.ZIP_STORED):
    """The file with another tree."""
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    tree = json.loads(members["softfair.json"])
    changed = change(tree)
    members["softfair.json"] = json.dumps(tree if changed is None else changed).encode()
    with zipfile.ZipFile(file, "w", compress) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def test_the_cohort_comes_back_whole(fitted, file):
    back = sf.load(file).cohort
    np.testing.assert_array_equal(back.P, fitted.cohort.P)
    assert back.ids.tolist() == [*"abcdef"]
    assert back.groups.tolist() == ["x", "y"] * 3
    assert back.extra["name"].tolist() == ["é", "b", "c", "d", "e", None]
    assert len(back.reward_rows) == 1
    loaded = sf.load(file)
    assert loaded._scorer.cohort is loaded.cohort  # stored once
    assert sf.load(file).upper_bound == fitted.upper_bound


def test_a_file_that_is_not_one_is_refused(tmp_path):
    refused(tmp_path / "nothing", "cannot read .*nothing: No such file")
    refused(tmp_path, "cannot read")
    (tmp_path / "text").write_text("hello")
    refused(tmp_path / "text", "text is not a saved policy; give a file that fitted.save wrote")
    with zipfile.ZipFile(tmp_path / "zip", "w") as archive:
        archive.writestr("other", "x")
    refused(tmp_path / "zip", "zip is damaged")


def test_a_newer_file_is_refused(file):
    def newer(tree):
        tree |= {"version": saving.VERSION + 1, "software": "9.1", "object": {"from": "later"}}

    rewritten(file, newer)
    refused(file, r"model has format 4, written by softfair 9\.1; .* up to 3: upgrade it")


@pytest.mark.parametrize(
    "change",
    [
        lambda tree: tree.pop("object") and None,
        lambda tree: tree.update(version="one"),
        lambda tree: tree.update(format="spreadsheet"),
        lambda tree: tree.update(object=5),
        lambda tree: tree.update(object={"class": "Popen", "fields": {"args": "true"}}),
        lambda tree: tree.update(object={"class": "Store", "fields": {"url": "x.db"}}),
        lambda tree: tree.update(object={"class": "Cohort", "fields": {}}),
        lambda tree: tree.update(object={"same": 99}),
        lambda tree: tree.update(object={"array": 99}),
        lambda tree: tree["object"]["fields"].pop("cohort") and None,
        lambda tree: tree["object"]["fields"].update(k=-1, scores=5),
        lambda tree: tree["object"]["fields"].update(horizon=0),
        lambda tree: [1, 2],
    ],
)
def test_damaged_and_hostile_trees_are_refused(file, change):
    rewritten(file, change)
    refused(file, "model is damaged")


def test_a_compressed_member_is_refused(file):
    """A small file must not become a large one."""
    rewritten(file, lambda tree: None, zipfile.ZIP_DEFLATED)
    refused(file, "compressed")


def test_a_pickle_inside_is_not_loaded(file):
    """An array of objects would be unpickled by NumPy, and run code."""

    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(file.parent / "run"),)

    content = io.BytesIO()
    np.save(content, np.array([Evil()], object), allow_pickle=True)
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["0.npy"] = content.getvalue()
    with zipfile.ZipFile(file, "w") as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    refused(file, "model is damaged")
    assert not (file.parent / "run").exists()


def test_any_flipped_byte_is_noticed_or_harmless(fitted, file):
    """Every byte of a file: it is refused, or the answers are the same (a date in the archive)."""
    whole = file.read_bytes()
    states, expected = np.zeros(6, int), fitted.scores(0, np.zeros(6, int))
    noticed = 0
    places = range(0, len(whole), 23)
    for place in places:
        spoilt = bytearray(whole)
        spoilt[place] ^= 0x55
        file.write_bytes(bytes(spoilt))
        try:
            back = sf.load(file)
        except InvalidInput:
            noticed += 1
        else:
            np.testing.assert_array_equal(back.scores(0, states), expected)
            np.testing.assert_array_equal(back.cohort.P, fitted.cohort.P)
    assert noticed > 0.8 * len(places)
    for length in (0, 10, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:length])
        refused(file, "damaged|not a saved policy")


def test_a_policy_of_ones_own_is_refused_by_name(tmp_path):
    class FittedMine(sf.Fitted):
        def scores(self, t, states, memory=None):
            return np.zeros(6)

    class Mine(sf.Policy):
        def fit(self, cohort, k, horizon, gamma=1.0, seed=0):
            return FittedMine(self, cohort, k, horizon, gamma)

    fitted = Mine().fit(sf.datasets.synthetic(n=6, seed=0), 2, 3)
    with pytest.raises(InvalidInput, match="a FittedMine cannot be saved, because it is not"):
        fitted.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_is_refused(fitted, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInput, match="cannot write"):
        fitted.save(tmp_path / "file" / "model")
