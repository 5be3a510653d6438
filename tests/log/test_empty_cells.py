"""Rows on change and rows of events, with empty cells where a channel reported nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dynid import read_log
from dynid.base import Float
from dynid.log import open_table
from dynid.log.readers.long_rows import _is_on_change
from tests.layouts.test_strangers import ARM, numbered, reads

CHANNELS = numbered("q#", ARM.q) | numbered("dq#", ARM.dq) | numbered("tau#", ARM.tau)
N = ARM.robot.n


def written(path: Path, rows: Sequence[tuple[float, Mapping[str, float]]], empty: str = "") -> Path:
    lines = [
        ",".join([f"{t:.12g}", *(f"{row[name]:.12g}" if name in row else empty for name in CHANNELS)])
        for t, row in rows
    ]
    path.write_text("\n".join([",".join(["time", *CHANNELS]), *lines, ""]))
    return path


def changes(channels: Mapping[str, Float]) -> list[tuple[float, dict[str, float]]]:
    """A row where a channel changed."""
    rows = []
    last: dict[str, float] = {}
    for k, t in enumerate(ARM.t.tolist()):
        row = {name: float(one[k]) for name, one in channels.items() if last.get(name) != one[k]}
        last |= row
        if row:
            rows.append((t, row))
    return rows


def by_group(groups: Sequence[Sequence[str]], later: float) -> list[tuple[float, dict[str, float]]]:
    """A row for each group of channels, each later than the one before by some s."""
    rows = []
    for k, group in enumerate(groups):
        moved = {name: np.interp(ARM.t + k * later, ARM.t, CHANNELS[name]) for name in group}
        rows += [
            (t + k * later, {name: float(moved[name][i]) for name in group})
            for i, t in enumerate(ARM.t.tolist())
        ]
    return sorted(rows, key=lambda row: row[0])


def in_steps(step: float) -> dict[str, Float]:
    return {name: np.round(one / step) * step for name, one in CHANNELS.items()}


@pytest.mark.parametrize("empty", ["", "NaN", "null", "-"])
def test_a_value_that_has_not_changed_is_held(empty: str, tmp_path: Path) -> None:
    stepped = in_steps(0.02)
    stepped["q3"][:] = 0.25  # a joint that stands has one value
    log = read_log(written(tmp_path / "log.csv", changes(stepped), empty), ARM.robot)
    raw = log.read(log.trajectories[0])
    kept = np.searchsorted(ARM.t, raw.t + ARM.t[0] - raw.t[0] - 1e-6)
    assert len(kept) > 0.9 * len(ARM.t)
    for name, values in (("q", raw.q), ("tau", raw.tau)):
        assert_allclose(values, np.stack([stepped[f"{name}{j + 1}"] for j in range(N)], axis=1)[kept])


def test_changes_of_one_moment_in_rows_of_their_own(tmp_path: Path) -> None:
    stepped = in_steps(0.02)
    rows = [(t, {name: value}) for t, row in changes(stepped) for name, value in row.items()]
    table = open_table(written(tmp_path / "log.csv", rows))
    (batch,) = table.batches(table.column_names, 10_000)
    k = np.searchsorted(ARM.t, np.asarray(batch["time"]) - 1e-6)
    assert len(np.unique(k)) == len(k)
    for name, values in stepped.items():
        assert_allclose(np.asarray(batch[name]), values[k])


@pytest.mark.parametrize("empty", ["", "nan"])
def test_a_row_for_each_joint(empty: str, tmp_path: Path) -> None:
    groups = [[f"{name}{j + 1}" for name in ("q", "dq", "tau")] for j in range(N)]
    reads(written(tmp_path / "log.csv", by_group(groups, 0.0), empty))


def test_a_row_for_each_channel_at_its_own_time(tmp_path: Path) -> None:
    path = written(tmp_path / "log.csv", by_group([[name] for name in CHANNELS], 2e-4))
    log = read_log(path, ARM.robot)
    raw = log.read(log.trajectories[0])
    assert len(raw.t) > len(ARM.t) - 3
    # On the clock of one channel others lie within half a step of it, on straight lines.
    shift = min(
        (float(np.abs(np.interp(raw.t + d, ARM.t - ARM.t[0], ARM.q[:, 0]) - raw.q[:, 0])[:-5].max()), d)
        for d in np.linspace(0, 2e-2, 201)
    )
    assert shift[0] < 2e-3
    expected = np.stack([np.interp(raw.t + shift[1], ARM.t - ARM.t[0], one) for one in ARM.q.T], axis=1)
    assert_allclose(raw.q[:-5], expected[:-5], atol=3e-3)


def test_single_cells_that_were_lost_stay_so(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    rows = [
        (t, {name: float(one[k]) for name, one in CHANNELS.items() if rng.random() > 0.005})
        for k, t in enumerate(ARM.t.tolist())
    ]
    table = open_table(written(tmp_path / "log.csv", rows))
    (batch,) = table.batches(("q1",), 10_000)
    assert np.isnan(np.asarray(batch["q1"])).any()


@pytest.mark.parametrize("share", [0.03, 0.6])
def test_many_lost_cells_are_not_taken_for_values_that_stay(share: float, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for channels in (CHANNELS, in_steps(0.02)):
        rows = [
            (t, {name: float(one[k]) for name, one in channels.items() if rng.random() > share})
            for k, t in enumerate(ARM.t.tolist())
        ]
        table = open_table(written(tmp_path / "log.csv", rows))
        (batch,) = table.batches(("q1",), 10_000)
        assert np.isnan(np.asarray(batch["q1"])).any()


def test_all_values_that_are_written_anew_now_and_then_are_no_changes(tmp_path: Path) -> None:
    stepped = in_steps(0.02)
    stepped["q3"][:] = 0.25
    rows = dict(changes(stepped))
    for k in range(0, len(ARM.t), 100):
        rows[float(ARM.t[k])] = {name: float(one[k]) for name, one in stepped.items()}
    log = read_log(written(tmp_path / "log.csv", sorted(rows.items())), ARM.robot)
    raw = log.read(log.trajectories[0])
    k = np.searchsorted(ARM.t, raw.t + ARM.t[0] - raw.t[0] - 1e-6)
    assert_allclose(raw.q, np.stack([stepped[f"q{j + 1}"] for j in range(N)], axis=1)[k])


def test_one_channel_that_lost_cells_is_not_held(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    stepped = in_steps(0.02)
    rows = [
        (t, {name: float(one[k]) for name, one in stepped.items() if name != "tau2" or rng.random() > 0.1})
        for k, t in enumerate(ARM.t.tolist())
    ]
    (batch,) = open_table(written(tmp_path / "log.csv", rows)).batches(("tau2",), 10_000)
    assert np.isnan(np.asarray(batch["tau2"])).any()


def test_steps_that_never_repeat_alone_are_no_changes() -> None:
    t = np.arange(2000) / 100
    assert not _is_on_change([np.diff(np.sin(t))])  # no smallest step
    assert not _is_on_change([np.ones(2000)])  # one way
    assert not _is_on_change([np.diff(np.round(np.sin(t), 2))])  # values repeat
    steps = np.diff(np.round(np.sin(3 * t), 2))
    changed = steps[steps != 0]
    assert _is_on_change([changed])
    assert not _is_on_change([changed, np.zeros(5)])
