"""Cohort files: round trip, every refusal with its place, and writes that are complete."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from softfair import datasets
from softfair.cohort import Cohort
from softfair.errors import InvalidInput
from softfair.files import read_cohort, write_cohort, write_whole

HEAD = "id,group,p00,p01,p10,p11\n"


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_two_state_cohort_comes_back_as_it_went(tmp_path: Path, suffix: str) -> None:
    cohort = datasets.cpap(n=20, seed=3)
    write_cohort(cohort, tmp_path / f"people{suffix}")
    back = read_cohort(tmp_path / f"people{suffix}")
    np.testing.assert_array_equal(back.P[..., 1], cohort.P[..., 1])
    assert back.groups is not None
    assert back.groups.tolist() == cohort.groups.tolist()
    assert [str(i) for i in back.ids] == [str(i) for i in cohort.ids]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_three_state_cohort_comes_back_as_it_went(tmp_path: Path, suffix: str) -> None:
    P = np.random.default_rng(0).dirichlet(np.ones(3), size=(5, 2, 3))
    write_cohort(Cohort(P), tmp_path / f"people{suffix}")
    np.testing.assert_allclose(read_cohort(tmp_path / f"people{suffix}").P, P, rtol=1e-15)


def test_the_state_now_is_the_start(tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text("p00,p01,p10,p11,start\n.1,.5,.4,.9,1\n.2,.6,.5,.8,0\n")
    np.testing.assert_array_equal(read_cohort(file).start, [[0, 1], [1, 0]])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEAD + "a,x,.1,.5,.4,1.9\n", r"row 2, column p11 is '1.9' \(1 of 4 entries are wrong\)"),
        (HEAD + "a,x,.1,.5,.4,.9\nb,x,.1,-.5,.4,.9\n", r"row 3, column p01 is '-0.5'"),
        (HEAD + "a,x,.1,.5,,.9\n", "row 2, column p10 is 'nan'"),
        (HEAD + "a,x,.1,half,.4,.9\n", "row 2, column p01 is 'half'"),
        ("id,p00,p01,p10\na,.1,.5,.4\n", r"no column p11 \(1 of 4 are missing\)"),
        ("p00,p01,p10,p11,colour\n.1,.5,.4,.9,red\n", "column 'colour' that is not known"),
        ("p00,p01,p10,p11,start\n.1,.5,.4,.9,2\n", "row 2, column start is '2'"),
        (HEAD, "has no rows"),
        (HEAD + "a,,.1,.5,.4,.9\n", "row 2, column group is empty"),
        (HEAD + "a,x,.1,.5,.4,.9\na,x,.1,.5,.4,.9\n", "duplicates"),
        (
            "p_0_0_0,p_0_0_1,p_0_1_0,p_0_1_1,p_1_0_0,p_1_0_1,p_1_1_0,p_1_1_1\n"
            ".5,.6,.5,.5,.5,.5,.5,.5\n",
            "p_0_0_0 to p_0_0_1 sum to 1.1",
        ),
        ('"unclosed', "not a CSV or Parquet table|no column"),
    ],
)
def test_a_wrong_file_is_refused_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "people.csv"
    file.write_text(text)
    with pytest.raises(InvalidInput, match=said) as error:
        read_cohort(file)
    assert "\n" not in str(error.value)


def test_a_missing_file_and_a_file_that_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there is no file"):
        read_cohort(tmp_path / "nobody.csv")
    (tmp_path / "junk.parquet").write_bytes(b"\0\1\2")
    with pytest.raises(InvalidInput, match="not a CSV or Parquet table"):
        read_cohort(tmp_path / "junk.parquet")
    with pytest.raises(InvalidInput, match="cannot read"):
        read_cohort(tmp_path)


def test_a_write_that_fails_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "kept"
    write_whole(file, b"note: old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InvalidInput, match="No space left"):
        write_whole(file, b"note: new")
    assert file.read_bytes() == b"note: old"
    assert [f.name for f in tmp_path.iterdir()] == ["kept"]


def test_a_place_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="cannot write"):
        write_whole(tmp_path / "file" / "inside", b"x")
