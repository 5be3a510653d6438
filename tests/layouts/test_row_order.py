"""Rows that do not stand in the order of time: sorted where their stamps leave no doubt, and asked for otherwise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dynid
from dynid.base import Diagnostics, Int, UnfitDataError, UsageError
from dynid.layouts import Proposal, experiment_text, propose_logs
from dynid.log import MOTION, Log, check_log
from tests.layouts.plants import UR_JOINTS, run

UR = run("ur10e", UR_JOINTS)
N = len(UR.t)
HEAD = ",".join(["time", *(f"{kind}{k}" for kind in ("q", "tau") for k in range(1, 7))])


def proposed(folder: Path, order: Int, t: np.ndarray = UR.t) -> Proposal:
    table = np.column_stack([t, UR.q, UR.tau])[order]
    np.savetxt(folder / "log.csv", table, delimiter=",", header=HEAD, comments="")
    return propose_logs(UR.robot, [folder / "log.csv"])


def clocked(folder: Path, columns: dict[str, np.ndarray], answers: dict[str, str] | None = None) -> Proposal:
    names = [f"{kind}_{joint}" for kind in ("q", "tau") for joint in UR_JOINTS]
    table = np.column_stack([*columns.values(), UR.q, UR.tau])
    np.savetxt(folder / "log.csv", table, delimiter=",", header=",".join([*columns, *names]), comments="")
    return propose_logs(UR.robot, [folder / "log.csv"], answers)


def swapped() -> Int:
    order = np.arange(N)
    order[[700, 701]] = [701, 700]
    return order


@pytest.mark.parametrize(
    "order",
    [np.random.default_rng(0).permutation(N), np.arange(N)[::-1]],
    ids=["shuffled", "reversed"],
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


def test_two_rows_that_changed_places_are_put_back_by_who_reads_them(tmp_path: Path) -> None:
    """By any names, and beside rows that are written twice."""
    twice = np.insert(swapped(), 300, 300)
    whole, found = proposed(tmp_path, np.arange(N)), proposed(tmp_path, twice)
    assert {one.key: one.value for one in found.decisions} == {one.key: one.value for one in whole.decisions}
    names = {
        "log.csv": HEAD,
        "own.csv": ",".join(["t", *(f"{k}_{j}" for k in ("q", "tau") for j in UR_JOINTS)]),
    }
    for name, head in names.items():
        table = np.column_stack([UR.t, UR.q, UR.tau])[twice]
        np.savetxt(tmp_path / name, table, delimiter=",", header=head, comments="")
        log = dynid.read_log(tmp_path / name, UR.robot)
        sink = Diagnostics()
        check_log(log, sink)
        (warning,) = [one.text for one in sink.warnings if one.identifier == "rows-misplaced"]
        assert f"2 of {N + 1} rows" in warning
        for rows in (7, 701, 32768):
            parts = list(log.chunks(log.trajectories[0], rows))
            t, q = (np.concatenate([getattr(one, key) for one in parts]) for key in ("t", "q"))
            np.testing.assert_allclose(t, np.insert(UR.t, 300, UR.t[300]), atol=1e-9)
            np.testing.assert_allclose(q, np.insert(UR.q, 300, UR.q[300], axis=0), atol=1e-9)


def test_recordings_in_the_wrong_order_are_motions(tmp_path: Path) -> None:
    found = proposed(tmp_path, np.roll(np.arange(N), N // 3))
    assert found.open == ()
    assert found["log.trajectory"].value == "motion"


def test_stretches_of_a_counter_that_wraps_are_motions(tmp_path: Path) -> None:
    """As 16 bits of milliseconds do every 65 s: the first stretch begins in the middle, the last ends there."""
    ticks = np.round(1e3 * (UR.t - UR.t[0]))
    top = np.round(0.45 * ticks[-1])
    found = clocked(tmp_path, {"tick_ms": (ticks + 0.6 * top) % top})
    assert found.open == ()
    assert found["log.trajectory"].value == MOTION
    # A clock that was set back once, to another time than its first, is none.
    back = np.where(ticks > top, ticks - 0.5 * top, ticks)
    assert "log.trajectory" in [one.key for one in clocked(tmp_path, {"time_ms": back}).open]


def test_stamps_that_scatter_do_not_sort_rows_in_order(tmp_path: Path) -> None:
    t = UR.t + np.random.default_rng(1).normal(0.0, 0.05, N)
    assert [one.key for one in proposed(tmp_path, np.arange(N), t).open if one.key == "log.trajectory"] != []


def test_shuffled_rows_with_other_stamps_are_no_log() -> None:
    order = np.random.default_rng(2).permutation(N)
    with pytest.raises(UnfitDataError, match="rows-unrelated"):
        check_log(Log.from_arrays(UR.robot, UR.t, UR.q[order], UR.tau[order]), Diagnostics())
    assert check_log(Log.from_arrays(UR.robot, UR.t, UR.q, UR.tau), Diagnostics()).moved.all()


def test_ticks_are_a_clock_where_nothing_else_is(tmp_path: Path) -> None:
    ticks = 123456.0 + np.cumsum(np.where(np.arange(N) % 500 == 499, 208.0, 2.0))
    found = clocked(tmp_path, {"tick": ticks})
    assert (found["log.time.column"].value, found["log.time.unit"].value) == ("tick", "ms")
    assert clocked(tmp_path, {"tick": ticks, "time": UR.t})["log.time.column"].value == "time"
    both = clocked(tmp_path, {"tick": ticks, "time": UR.t}, {"log.time.column": "tick"})
    assert (both["log.time.column"].value, both["log.time.unit"].value) == ("tick", "ms")
    counted = clocked(tmp_path, {"tick": np.arange(N) + 5.0})
    assert "counts the rows" in counted["log.time.column"].why[0]


def test_a_clock_that_is_named_in_an_answer_is_looked_at_as_any(tmp_path: Path) -> None:
    columns = {"counts_of_us": 1e6 * UR.t, "flat": 0.0 * UR.t}
    found = clocked(tmp_path, columns, {"log.time.column": "counts_of_us"})
    assert (found["log.time.column"].value, found["log.time.unit"].value) == ("counts_of_us", "us")
    assert clocked(tmp_path, columns, {"log.time.column": "row", "log.time.unit": "1/100 s"}).open == ()
    for name, says in (("flat", "does not increase"), ("lost", "no column")):
        with pytest.raises(UsageError, match=f"{name}, .*{says}.*or 'row'"):
            clocked(tmp_path, columns, {"log.time.column": name, "log.time.unit": "ms"})


def test_efforts_in_rows_of_their_own_take_the_time_of_these(tmp_path: Path) -> None:
    whole, names = proposed(tmp_path, np.arange(N)), HEAD.split(",")
    table = np.full((2 * N, 13), np.nan)
    table[::2, :7], table[1::2, 7:] = np.column_stack([UR.t, UR.q]), UR.tau
    table[1::2, 0] = UR.t + 0.4 * (UR.t[1] - UR.t[0])
    lines = [",".join("" if np.isnan(x) else repr(x) for x in row) for row in table.tolist()]
    (tmp_path / "topics.csv").write_text("\n".join([",".join(names), *lines, ""]))
    found = propose_logs(UR.robot, [tmp_path / "topics.csv"])
    assert {one.key: one.value for one in found.decisions} == {one.key: one.value for one in whole.decisions}
    text = experiment_text(found, "dynid init")
    (effort,) = [line for line in text.splitlines() if line.startswith("effort = ")]
    assert effort.endswith('time = { column = "time", unit = "s" } }')
    assert "time = {" not in experiment_text(whole, "dynid init").split("effort = ")[1]
    log = dynid.read_log(tmp_path / "topics.csv", UR.robot)
    part = log.read(log.trajectories[0])
    assert part.tau is not None
    np.testing.assert_allclose(part.t, UR.t[1:], atol=1e-9)
    np.testing.assert_allclose(part.q, UR.q[1:], atol=1e-9)
