"""Efforts that freeze, wherever they freeze, and efforts that merely look so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics, Float
from dynid.log.recording_faults import RecordingWatch, turns
from dynid.recording import RawChunk, Trajectory
from dynid.testing import Moves, small_arm

ARM, RATE, SECONDS = small_arm(), 1000.0, 24.0


def reported(spoil: dict[str, Float] | None = None, at: float = 0.0, seconds: float = SECONDS) -> list[str]:
    """Claims of joints whose second effort is frozen at its value at some time, s, from then on for so long."""
    t = np.arange(round(SECONDS * RATE)) / RATE
    phase = 2.0 * np.pi * 0.3 * t[:, None] + np.arange(3.0)
    q, rng = np.sin(phase), np.random.default_rng(0)
    tau = 20.0 * np.sin(phase + 0.3) + 0.1 * rng.normal(size=q.shape)
    if spoil:
        tau[:, 1] = spoil["tau"]
    elif at:
        tau[(t >= at) & (t < at + seconds), 1] = tau[np.searchsorted(t, at), 1]
    watch, sink = RecordingWatch(ARM), Diagnostics()
    path = Trajectory("log", Path("log.csv"), 0, len(t), float(t[0]), float(t[-1]))
    watch.see(RawChunk(path, 0, t, q, None, tau, None, None, None, {}))
    watch.end()
    watch.finish(np.ones(3, dtype=np.bool_), sink)
    return [f"{one.identifier} {one.place.joint}" for one in sink]


def test_an_effort_that_follows_the_motion_is_left_in_peace() -> None:
    assert reported() == []


@pytest.mark.parametrize("at", [1.2, 3.0, 12.0, 20.0])
def test_an_effort_that_freezes_is_found_whatever_the_windows(at: float) -> None:
    """Windows of four seconds hold a frozen effort, a frozen and a live one, or one that is frozen throughout."""
    assert reported(at=at) == ["constant-effort shoulder"]


def test_a_frozen_effort_at_the_end_of_its_range_is_no_cut_off_one() -> None:
    t = np.arange(round(SECONDS * RATE)) / RATE
    live = 20.0 * np.sin(2.0 * np.pi * 0.3 * t + 1.3)
    beyond = np.where(t < 12.0, live, 25.0)
    assert reported({"tau": beyond}) == ["constant-effort shoulder"]
    cut_off = np.clip(live, -12.0, 12.0)
    assert reported({"tau": cut_off}) == []


@pytest.mark.parametrize("steps", [2.0, 3.0, 8.0])
def test_a_coarse_effort_on_one_of_its_steps_is_not_frozen(steps: float) -> None:
    """Noise makes it leave its step for a sample now and then, so that most of its repeats are short."""
    t = np.arange(round(SECONDS * RATE)) / RATE
    noise = 0.02 * np.random.default_rng(1).normal(size=len(t))
    assert reported({"tau": np.round(steps * (np.sin(2.0 * np.pi * 0.1 * t) + noise)) * 5.0}) == []


def test_an_effort_in_fine_steps_that_turns_round_slowly_is_not_frozen() -> None:
    """In tenths of a percent of what is rated: it stands on a step while it turns, and goes on by one."""
    t = np.arange(round(SECONDS * RATE)) / RATE
    angle = 2.0 * np.pi * 0.3 * t
    smooth = 20.0 * np.sin(angle) - 10.0 * np.sin(2.0 * angle) + 8.0 * np.sin(angle / 3.0 + 0.3)
    coarse = np.round(smooth / 0.3) * 0.3
    assert reported({"tau": coarse}) == []
    held = np.where((t > 10.2) & (t < 10.6), coarse[np.searchsorted(t, 10.2)], coarse)
    assert reported({"tau": held}) == ["constant-effort shoulder"]


@pytest.mark.parametrize("step", [0.0, 0.1])
def test_an_effort_that_ends_at_zero_has_not_lost_its_sign(step: float) -> None:
    """An absolute value turns back sharply, a load that happens to reach zero does so gently; steps change neither."""
    t = np.arange(round(SECONDS * RATE)) / RATE

    def seen(effort: Float) -> dict[str, Float]:
        return {"tau": np.round(effort / step) * step if step else effort}

    swing = 2.0 * np.pi * 0.3 * t + 1.3
    noise = 0.02 * np.random.default_rng(2).normal(size=len(t))
    load = 10.0 * (1.0 + np.sin(swing)) + noise
    assert reported(seen(load - load.min())) == []
    assert reported(seen(np.abs(20.0 * np.sin(swing) + noise))) == ["unsigned-effort shoulder"]


@pytest.mark.parametrize("seed", range(12))
def test_an_effort_that_reaches_zero_beside_a_jump_of_friction_keeps_its_sign(seed: int) -> None:
    """Friction jumps where the joint turns round; a motor cannot push against its load, or happens not to have to."""
    t, rng = np.arange(round(SECONDS * RATE)) / RATE, np.random.default_rng(seed)
    swing = 2.0 * np.pi * 0.3 * t + 1.0  # of the joint's position
    pull = 10.0 * np.sin(0.9 * t + rng.uniform(0.0, 6.3)) + 5.0 * np.sin(2.4 * t + rng.uniform(0.0, 6.3))
    effort = pull + rng.uniform(0.5, 4.0) * np.tanh(100.0 * np.cos(swing)) + 0.1 * rng.normal(size=len(t))
    assert reported({"tau": effort - effort.min()}) == []
    assert reported({"tau": effort.max() - effort}) == []
    assert "unsigned-effort shoulder" not in reported({"tau": np.maximum(effort, 0.0)})
    assert reported({"tau": np.abs(effort)}) == ["unsigned-effort shoulder"]


@pytest.mark.parametrize("size", [1e308, -1e308])
def test_one_number_of_no_size_makes_no_overflow(size: float) -> None:
    """A damaged number, as files may hold."""
    t = np.arange(round(SECONDS * RATE)) / RATE
    effort = np.abs(20.0 * np.sin(2.0 * np.pi * 0.3 * t + 1.3))
    effort[[700, 701, 9000, 9700]] = size
    reported({"tau": effort})


def test_rows_that_were_lost_are_found_among_repeated_ones() -> None:
    """Rows that repeat themselves lose nothing, and do not hide a bunch of lost ones."""
    t = np.arange(round(SECONDS * RATE)) / RATE
    q = np.sin(2.0 * np.pi * 0.3 * t[:, None] + np.arange(3.0))
    held = np.arange(len(t))
    held[1:][np.random.default_rng(0).random(len(t) - 1) < 0.1] -= 1
    for start in (5000, 12000, 20000):  # ten rows, and then eleven at once
        held[start : start + 10] = start - 1
    q = q[held]
    kept = np.ones(len(t), dtype=np.bool_)
    for start in (3000, 9000, 17000):
        kept[start : start + 30] = False
    for motion, expected in ((q, []), (q[kept], ["rows-lost None"])):
        watch, sink = RecordingWatch(ARM), Diagnostics()
        path = Trajectory("log", Path("log.csv"), 0, len(motion), 0.0, 1.0)
        watch.see(RawChunk(path, 0, t[: len(motion)], motion, None, None, None, None, None, {}))
        watch.end()
        watch.finish(np.ones(3, dtype=np.bool_), sink)
        assert [f"{one.identifier} {one.place.joint}" for one in sink] == expected


@pytest.mark.parametrize("rate", [40.0, 100.0])
@pytest.mark.parametrize("rows", [4, 6, 10])
def test_a_recorder_that_stops_for_some_rows_at_any_pace_has_lost_nothing(rows: int, rate: float) -> None:
    """Where the arm slows down meanwhile, a jump looks longer than the stop; rows that are gone are found as before."""
    found = np.zeros(2, dtype=np.int64)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        t = np.arange(round(60.0 * rate)) / rate
        frequency, size, phase = (
            rng.uniform(0.05, 0.9, (6, 3)),
            rng.normal(size=(6, 3)),
            rng.uniform(0.0, 6.3, (6, 3)),
        )
        q = (size / frequency * np.sin(2.0 * np.pi * frequency * t[:, None, None] + phase)).sum(axis=1) / 6.0
        stale, left = q.copy(), np.ones(len(t), dtype=np.bool_)
        for start in rng.integers(30, len(t) - 40, 6):
            stale[start : start + rows] = q[start]
            left[start : start + 3 * rows] = False
        for k, motion in enumerate((stale, q[left])):
            watch = RecordingWatch(ARM)
            path = Trajectory("log", Path("log.csv"), 0, len(motion), 0.0, 1.0)
            watch.see(RawChunk(path, 0, t[: len(motion)], motion, None, None, None, None, None, {}))
            watch.end()
            found[k] += bool(watch.jumps)
    assert found[0] == 0
    assert found[1] >= 5


@pytest.mark.parametrize("rows", [3, 6])
def test_a_position_that_stands_still_and_catches_up_has_lost_nothing(rows: int) -> None:
    """As where a controller misses some cycles: the same row again and again, then the one of the time."""
    t = np.arange(round(SECONDS * RATE)) / RATE
    q = np.sin(2.0 * np.pi * 0.3 * t[:, None] + np.arange(3.0))
    stale, lost = q.copy(), np.ones(len(t), dtype=np.bool_)
    for start in (2003, 9000, 17000):
        stale[start : start + rows] = q[start]
        lost[start : start + rows] = False
    for motion, expected in ((stale, []), (q[lost], ["rows-lost None"] if rows > 5 else [])):
        watch, sink = RecordingWatch(ARM), Diagnostics()
        path = Trajectory("log", Path("log.csv"), 0, len(motion), 0.0, 1.0)
        watch.see(RawChunk(path, 0, t[: len(motion)], motion, None, None, None, None, None, {}))
        watch.end()
        watch.finish(np.ones(3, dtype=np.bool_), sink)
        assert [f"{one.identifier} {one.place.joint}" for one in sink] == expected


def test_ways_back_are_counted_from_their_size_on() -> None:
    t = np.linspace(0.0, 3.0, 1000)
    assert turns(np.sin(2.0 * np.pi * t), 0.1) == 6
    assert turns(0.04 * np.sin(40.0 * np.pi * t), 0.1) == 0
    assert turns(t, 0.1) == 0


def test_pauses_between_moves_make_no_lost_rows_of_coarse_positions() -> None:
    """A joint at rest is as even as can be, which says nothing of how even it is in motion; lost rows are found."""
    found = np.zeros(2, dtype=np.int64)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        t = np.arange(round(40.0 * 500.0)) / 500.0
        slow = replace(ARM, limits=replace(ARM.limits, velocity=np.full(3, 0.6)))
        step = 2.0 * np.pi / 2**14
        exact, dq, _ = Moves.random(slow, 40.0, rng).motion(t)
        q = np.round(exact / step) * step
        held = np.arange(len(t))
        held[1:][rng.random(len(t) - 1) < 0.045] -= 1
        left = np.ones(len(t), dtype=np.bool_)
        fast = np.flatnonzero(np.abs(dq).max(axis=1) > 0.3)
        for start in rng.choice(fast, 4):
            left[start : start + 30] = False
        for k, motion in enumerate((q[held], q[left])):
            watch = RecordingWatch(ARM)
            path = Trajectory("log", Path("log.csv"), 0, len(motion), 0.0, 1.0)
            watch.see(RawChunk(path, 0, t[: len(motion)], motion, None, None, None, None, None, {}))
            watch.end()
            found[k] += bool(watch.jumps)
    assert found[0] == 0
    assert found[1] >= 18
