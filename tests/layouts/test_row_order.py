"""Rows that do not stand in the order of time: sorted where their stamps leave no doubt, and asked for otherwise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid.base.arrays import Int
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import UnfitDataError
from dynid.layouts.propose import Proposal, propose
from dynid.layouts.write import experiment_text
from dynid.log.checks import check_log
from dynid.log.read import Log
from tests.layouts.plants import UR_JOINTS, run

UR = run("ur10e", UR_JOINTS)
N = len(UR.t)
HEAD = ",".join(["time", *(f"{kind}{k}" for kind in ("q", "tau") for k in range(1, 7))])


def proposed(folder: Path, order: Int, t: np.ndarray = UR.t) -> Proposal:
    table = np.column_stack([t, UR.q, UR.tau])[order]
    np.savetxt(folder / "log.csv", table, delimiter=",", header=HEAD, comments="")
    return propose(UR.robot, folder / "log.csv")


def swapped() -> Int:
    order = np.arange(N)
    order[[700, 701]] = [701, 700]
    return order


@pytest.mark.parametrize(
    "order",
    [np.random.default_rng(0).permutation(N), np.arange(N)[::-1], swapped()],
    ids=["shuffled", "reversed", "swapped"],
)
def test_rows_out_of_order_are_sorted_by_their_stamps(order: Int, tmp_path: Path) -> None:
    whole, found = proposed(tmp_path, np.arange(N)), proposed(tmp_path, order)
    assert found.open == ()
    assert (found["log.sort"].value, found["log.sort"].likely) == ("true", True)
    assert "sort = true" in experiment_text(found, "dynid init")
    # Everything else is decided as of the rows in order.
    assert {one.key: one.value for one in found.decisions if one.key != "log.sort"} == {
        one.key: one.value for one in whole.decisions
    }
    assert "sort = true" not in experiment_text(whole, "dynid init")


def test_recordings_in_the_wrong_order_are_motions(tmp_path: Path) -> None:
    found = proposed(tmp_path, np.roll(np.arange(N), N // 3))
    assert found.open == ()
    assert found["log.trajectory"].value == "motion"


def test_stamps_that_scatter_do_not_sort_rows_in_order(tmp_path: Path) -> None:
    t = UR.t + np.random.default_rng(1).normal(0.0, 0.05, N)
    assert [one.key for one in proposed(tmp_path, np.arange(N), t).open if one.key == "log.trajectory"] != []


def test_shuffled_rows_with_other_stamps_are_no_log() -> None:
    order = np.random.default_rng(2).permutation(N)
    with pytest.raises(UnfitDataError, match="rows-unrelated"):
        check_log(Log.from_arrays(UR.robot, UR.t, UR.q[order], UR.tau[order]), Diagnostics())
    assert check_log(Log.from_arrays(UR.robot, UR.t, UR.q, UR.tau), Diagnostics()).moved.all()
