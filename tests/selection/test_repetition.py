"""Motion that repeats: a part is held out of all repetitions, and where none can be the run says so."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import dynid
from dynid.base import Diagnostics
from dynid.estimate import WLS, cross_validate
from dynid.factor import Block, Factor, Factors, folds_of
from dynid.log import canonical_columns, read_log, write_log
from dynid.robot import load_example
from dynid.run import blocks
from dynid.signals import Preparation, Repetition
from dynid.signals.prepare import prepare
from dynid.simulation import inverse
from dynid.terms import DEFAULT_TERMS

pytestmark = pytest.mark.usefixtures("unexamined")

ROBOT = load_example("ur5e")
RATE = 200.0
# N m, torque of each joint on such motion: the same hoses on all of them.
USUAL = np.array([3.0, 80.0, 30.0, 4.0, 1.5, 0.3])


def log(seed: int, seconds: float, period: float, in_step: bool = False, pauses: float = 0.0) -> dynid.Log:
    """Of a robot with a hose on every joint, which the model lacks."""
    t, q, tau = recorded(seed, seconds, period, in_step, pauses)
    return dynid.Log.from_arrays(ROBOT, t, q, tau=tau)


def recorded(
    seed: int, seconds: float, period: float, in_step: bool = False, pauses: float = 0.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """t, q, tau of it.    pauses: s, up to which it stands at three places of the motion, otherwise each time."""
    rng = np.random.default_rng(seed)
    s, number = np.arange(0.0, seconds, 1.0 / RATE), np.arange(1, 5)
    pace = np.ones(len(s))
    if pauses:
        waits = np.random.default_rng([seed, 1])
        easing = 0.5 + 0.5 * np.cos(np.linspace(0.0, np.pi, int(0.3 * RATE)))
        parts = list[np.ndarray]()
        for place in np.diff(np.arange(0.0, seconds, period / 3)):
            parts += [
                np.ones(int((place - 0.3) * RATE)),
                easing,
                np.zeros(int(waits.uniform(0.2, pauses) * RATE)),
            ]
            parts += [easing[::-1]]
        pace = np.concatenate(parts)
        s = np.cumsum(pace) / RATE
    t, hastening = np.arange(len(s)) / RATE, np.gradient(pace) * RATE
    w, size = 2 * np.pi / period * number, 0.5 * rng.normal(size=(ROBOT.n, 4)) / number
    angle = s[:, None, None] * w + rng.uniform(0, 6, (1 if in_step else ROBOT.n, 4))
    size = size[:1] * np.linspace(0.5, 1.0, ROBOT.n)[:, None] if in_step else size
    forms = np.sin(angle), w * np.cos(angle), -(w**2) * np.sin(angle)
    q, slope, curve = ((size * form).sum(axis=2) for form in forms)
    dq, ddq = slope * pace[:, None], curve * pace[:, None] ** 2 + slope * hastening[:, None]
    theta = np.array([0.0 if np.isnan(c.prior) else c.prior for c in DEFAULT_TERMS.columns(ROBOT)])
    tau = inverse(ROBOT, DEFAULT_TERMS, theta, q, dq, ddq)
    tau += USUAL * (0.2 * np.sin(2.0 * q) + 0.1 * q**3 + 0.02 * np.sign(dq))
    tau += 0.01 * USUAL * rng.normal(size=q.shape)
    return t, q, tau


def test_parts_of_a_motion_that_repeats_are_held_out_of_every_repetition() -> None:
    # By a fit without constraints: for bodies beside torque that no model has the search is long, and ends in none.
    training, settings = log(1, 40.0, 8.0), dynid.Settings(terms=DEFAULT_TERMS, estimator=WLS())
    found = dynid.identify(ROBOT, training, settings)
    (said,) = (one for one in found.diagnostics if one.identifier == "parts-held-out")
    assert "repeats after 8 s (24 parts)" in said.text
    assert "error on held-out data" in found.verdict.headline
    blocks = found.factors.blocks
    assert {block.part for block in blocks} == set(range(24))
    for one, other in pairwise(sorted(blocks, key=lambda block: block.part or 0)):
        if one.part == other.part:  # at the same place of different repetitions
            assert (other.start - one.start + 4.0) % 8.0 == pytest.approx(4.0, abs=1.0 / RATE)
    for fold in folds_of(found.factors):
        assert not {blocks[i].part for i in fold.held_out} & {blocks[i].part for i in fold.training}
    # Blocks of time, each of which the other repetitions hold as well, would say less than half of it.
    seen = replace(found.factors, blocks=tuple(replace(block, part=None) for block in blocks))
    regression = replace(found.regression, factors=seen)
    by_time = cross_validate(regression, WLS(), 5, ROBOT.joint_names).total_relative
    unseen = dynid.validate(found, log(2, 24.0, 24.0)).scores.total_relative
    held_out = found.validations[0].scores.total_relative
    assert by_time < 0.5 * unseen < held_out


def test_where_no_part_can_be_held_out_of_every_repetition_it_is_said() -> None:
    # Blocks of time that were asked for, of which one is half of a repetition.
    settings = dynid.Settings(terms=DEFAULT_TERMS, estimator=WLS(), block_seconds=4.0)
    found = dynid.identify(ROBOT, log(1, 40.0, 8.0), settings)
    (said,) = (one for one in found.verdict.findings if one.code == "motion-repeats")
    assert "repeats after 8 s" in said.text
    assert "error on held-out blocks of a motion that repeats" in found.verdict.headline
    other = log(2, 24.0, 24.0)
    for validation in (other, None):
        training = log(1, 40.0, 8.0 if validation else 40.0)
        found = dynid.identify(ROBOT, training, settings, validation=validation)
        assert not [one for one in found.verdict.findings if one.code == "motion-repeats"]
        assert "error on held-out data" in found.verdict.headline


def test_recordings_of_one_motion_are_held_out_part_by_part(tmp_path: Path) -> None:
    """Played twice, each time into a file of its own on a clock of its own, beside another motion."""
    t, q, tau = recorded(1, 23.0, 60.0)
    late = round(2.5 * RATE)
    noise = 0.01 * USUAL * np.random.default_rng(9).normal(size=tau.shape)
    runs = {
        "first": (t, q, tau),
        "again": (t[late:] - t[late] + 50.0, q[late:], (tau + noise)[late:]),
        "other": recorded(2, 20.0, 60.0),
    }
    files = [
        write_log(tmp_path / f"{name}.csv", one[0], canonical_columns(ROBOT.joint_names, one[1], tau=one[2]))
        for name, one in runs.items()
    ]
    settings = dynid.Settings(terms=DEFAULT_TERMS, estimator=WLS())
    found = dynid.identify(ROBOT, read_log(files, ROBOT), settings)
    (said,) = (one for one in found.diagnostics if one.identifier == "parts-held-out")
    assert "'first', 'again' is the same, 23 s long" in said.text
    blocks = found.factors.blocks
    names = {block.part: set[str]() for block in blocks if block.part is not None}
    for block in blocks:
        if block.part is not None:
            names[block.part].add(block.trajectory)
    assert sum(one == {"first", "again"} for one in names.values()) >= 0.8 * len(names) >= 10
    assert all(block.part is None for block in blocks if block.trajectory == "other")
    for fold in folds_of(found.factors):
        held_out, fitted = ({blocks[i].part for i in own} - {None} for own in (fold.held_out, fold.training))
        assert not held_out & fitted
    # And where one of them is what the model is validated on, it says that the motion is the same.
    first, again, other = (read_log(one, ROBOT) for one in files)
    for unseen, same in ((again, True), (other, False)):
        found = dynid.identify(ROBOT, first, settings, validation=unseen)
        said = [one.text for one in found.verdict.findings if one.code == "same-motion"]
        assert len(said) == same
        assert ("error on a repetition of the training motion" in found.verdict.headline) == same
        noted = Diagnostics()
        dynid.validate(found, unseen, noted)
        assert [one.text for one in noted if one.identifier == "same-motion"] == said
        if same:
            assert "('again') repeat the training motion ('first')" in said[0]


def test_repetitions_merged_are_the_same_equations() -> None:
    found = dynid.identify(ROBOT, log(1, 40.0, 8.0), dynid.Settings(terms=DEFAULT_TERMS, estimator=WLS()))
    merged = found.factors.repetitions_merged()
    assert [block.part for block in merged.blocks] == list(range(24))
    assert merged.count == found.factors.count
    for one, other in zip(merged.total, found.factors.total, strict=True):
        np.testing.assert_allclose(
            one.R.T @ one.R, other.R.T @ other.R, atol=1e-8 * float(np.abs(one.R).max()) ** 2
        )
    np.testing.assert_allclose(np.sum(merged.motion, axis=0), np.sum(found.factors.motion, axis=0))


def test_held_out_blocks_of_joints_that_move_in_step_are_no_proof() -> None:
    settings = dynid.Settings(terms=DEFAULT_TERMS, estimator=WLS())
    found = dynid.identify(ROBOT, log(1, 24.0, 24.0, in_step=True), settings)
    (said,) = (one for one in found.verdict.findings if one.code == "moves-in-step")
    assert "6 joints are strongly correlated (1 independent direction)" in said.text
    assert found.verdict.level != "good"
    assert "error on held-out blocks of strongly correlated joint motions" in found.verdict.headline
    assert not any("information on each" in one.text for one in found.verdict.findings)
    unseen = dynid.validate(found, log(2, 24.0, 24.0)).scores.total_relative
    assert found.validations[0].scores.total_relative < 0.7 * unseen


def test_a_motion_that_repeats_often_has_no_more_blocks_and_the_same_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hours in miniature: no room for a block for each part of each repetition."""
    training, settings = log(1, 40.0, 8.0), dynid.Settings(terms=DEFAULT_TERMS, estimator=WLS())
    each = dynid.identify(ROBOT, training, settings)
    monkeypatch.setattr(blocks, "MOST_BLOCKS", 60)
    found = dynid.identify(ROBOT, training, settings)
    assert len(found.factors.blocks) <= 60 + 24 < len(each.factors.blocks)
    assert [len(own) > 1 for own in found.factors.repetitions()] == 24 * [True]
    np.testing.assert_allclose(found.estimate.value, each.estimate.value, rtol=1e-6)
    np.testing.assert_allclose(found.estimate.std, each.estimate.std, rtol=0.1)
    one, other = (run.validations[0].scores.total_relative for run in (found, each))
    assert one == pytest.approx(other, rel=0.02)
    dynid.save(found, tmp_path / "run")
    again = dynid.load(tmp_path / "run").factors.blocks
    assert [block.seconds for block in again] == [block.seconds for block in found.factors.blocks]
    assert sum(block.seconds for block in again) == pytest.approx(40.0, abs=1.5)  # less the trimmed ends


def test_neighbouring_parts_count_as_one_in_intervals() -> None:
    """Ten blocks at least are left; what does not repeat stays as it is."""
    rng = np.random.default_rng(0)

    def factors(parts: int, repetitions: int, others: int) -> Factors:
        groups = (Factor.from_panel(np.arange(2), rng.normal(size=(3, 5))),)
        numbers = [*(list(range(parts)) * repetitions), *([None] * others)]
        names = ["one"] * parts * repetitions + ["other"] * others
        own = zip(names, numbers, strict=True)
        blocks = (Block(name, 0, float(i), i + 1.0, groups, part=part) for i, (name, part) in enumerate(own))
        return Factors(("joint",), 2, tuple(blocks))

    for parts, left in ((30, 10), (25, 12), (20, 10), (19, 19), (10, 10), (60, 10)):
        found = factors(parts, 3, 4)
        independent = found.independent()
        assert len(independent) == left + 4
        assert sorted(np.concatenate(independent).tolist()) == list(range(3 * parts + 4))
        for those in independent:
            own = sorted({found.blocks[i].part for i in those if found.blocks[i].part is not None})
            assert len(own) * 3 == len(those) or len(those) == 1
            assert not own or own == list(range(own[0], own[-1] + 1))


def test_what_does_not_repeat_has_no_more_blocks_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts of a short motion would cut an hour of another one into thousands of blocks."""
    monkeypatch.setattr(blocks, "MOST_BLOCKS", 60)
    files = [
        write_log(tmp_path / f"{name}.csv", one[0], canonical_columns(ROBOT.joint_names, one[1], tau=one[2]))
        for name, one in {"again": recorded(1, 40.0, 8.0), "other": recorded(2, 40.0, 300.0)}.items()
    ]
    settings = dynid.Settings(terms=DEFAULT_TERMS, estimator=WLS())
    found = dynid.identify(ROBOT, read_log(files, ROBOT), settings)
    assert len(found.factors.blocks) <= 70


def test_what_lies_between_many_gaps_is_cut_no_finer_than_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """No block goes across a gap, so that parts of several repetitions cannot be one."""
    monkeypatch.setattr(blocks, "MOST_BLOCKS", 60)
    training = log(1, 40.0, 8.0)
    prepared = prepare(training, Preparation(cutoff=6.0), Diagnostics())
    (name,) = (one.name for one in training.trajectories)
    again = {name: Repetition(0, name, 0.0, 8.0, 8.0)}
    whole, broken = (blocks.blocks_of(again, prepared, gaps=gaps) for gaps in (0, 30))
    assert whole.together > 1
    assert whole.seconds == pytest.approx(8.0 / 24)
    assert broken.together == 1
    assert 40.0 / broken.seconds <= 60


def test_parts_are_held_out_of_every_repetition_whatever_the_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of time, each of which the other repetitions hold as well, would say less than two thirds."""
    training, settings = log(1, 40.0, 8.0, pauses=2.0), dynid.Settings(terms=DEFAULT_TERMS, estimator=WLS())
    each = dynid.identify(ROBOT, training, settings)
    (said,) = (one for one in each.diagnostics if one.identifier == "parts-held-out")
    assert "without its pauses" in said.text
    seen = replace(each.factors, blocks=tuple(replace(block, part=None) for block in each.factors.blocks))
    by_time = cross_validate(replace(each.regression, factors=seen), WLS(), 5, ROBOT.joint_names)
    assert by_time.total_relative < each.validations[0].scores.total_relative / 1.5
    assert [len(own) for own in each.factors.repetitions()].count(5) > 15
    monkeypatch.setattr(blocks, "MOST_BLOCKS", 60)
    found = dynid.identify(ROBOT, training, settings)
    assert len(found.factors.blocks) <= 60 + 24
    np.testing.assert_allclose(found.estimate.value, each.estimate.value, rtol=1e-6)
    np.testing.assert_allclose(found.estimate.std, each.estimate.std, rtol=0.1)
    long = next(block for block in found.factors.blocks if block.stretches is not None)
    assert "times" in long.when(1)
