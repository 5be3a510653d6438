"""Claims are proven on held-out blocks: what is there is, its opposite is not, and what only looks like it is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dynid.base import Diagnostics, Float
from dynid.diagnosis import ResidualAnalysis, compare_with_description
from dynid.diagnosis.proof import (
    HeldOut,
    Proof,
    Reading,
    friction_forms,
    position_waves,
    prove,
    reading,
    shifted_positions,
)
from dynid.diagnosis.wiring_checks import sign_readings
from dynid.terms import Declared
from dynid.terms.gravity_tilt import find_tilt, rotated
from dynid.testing import TrueMotion, analysis_of, small_arm
from dynid.testing.machines import tilted
from tests.diagnosis.test_traps import late


def lean(analysis: ResidualAnalysis, gravity: Float) -> Proof:
    opposite = 2.0 * analysis.robot.gravity - gravity
    rivals = {"waves": position_waves(analysis), "zeros": shifted_positions(analysis)}
    found = prove(
        analysis,
        reading(analysis, Declared(gravity=gravity)),
        reading(analysis, Declared(gravity=opposite)),
        rivals,
    )
    assert found is not None
    return found


@pytest.mark.parametrize("degrees", [1.0, 3.0, 6.0])
def test_a_lean_is_proven_and_its_opposite_is_not(degrees: float) -> None:
    robot = small_arm()
    real = tilted(robot, np.deg2rad(degrees), 1.0)
    analysis = analysis_of(robot, seed=2, truth=real)
    proof = lean(analysis, real.gravity)
    assert proof.holds
    assert proof.mirror < 0 < proof.gain
    assert proof.rival_gain < proof.gain
    assert "lowers the held-out mean square error" in proof.words(robot.joint_names)
    against = lean(analysis, 2.0 * robot.gravity - real.gravity)
    assert not against.holds
    assert against.contradicted


def test_nothing_is_proven_on_an_upright_base() -> None:
    robot = small_arm()
    for seed in range(3):
        analysis = analysis_of(robot, seed=seed)
        found = find_tilt(analysis)
        assert found is not None
        proof = lean(analysis, found.gravity)
        assert not proof.holds
        assert proof.doubts()


def test_a_cable_that_looks_like_a_lean_is_a_rival() -> None:
    """A wave of the column's own position pulls it as a lean would, and nothing else does."""

    def cable(motion: TrueMotion, rng: np.random.Generator) -> Float:
        wave = np.zeros_like(motion.tau)
        wave[:, 0] = 0.8 * motion.size[0] * np.cos(motion.q[:, 0] + 0.4)
        return wave

    analysis = analysis_of(small_arm(), cable, seed=3)
    sink = Diagnostics()
    compare_with_description(analysis, sink)
    assert not [one for one in (*sink.doubts, *sink.warnings) if one.identifier == "tilted-base"]


@pytest.mark.parametrize("factor", [0.5, 1.3])
def test_a_gain_is_proven_and_its_opposite_is_not(factor: float) -> None:
    def scaled(motion: TrueMotion, rng: np.random.Generator) -> Float:
        return motion.tau * np.array([0.0, factor - 1.0, 0.0])

    analysis = analysis_of(small_arm(), scaled, seed=4)
    rivals = {"friction": friction_forms(analysis), "zeros": shifted_positions(analysis)}
    proof = prove(
        analysis,
        reading(analysis, Declared(factors={1: factor})),
        reading(analysis, Declared(factors={1: 1.0 / factor})),
        rivals,
    )
    assert proof is not None
    assert proof.holds


def test_a_lag_is_proven_and_shifts_are_scanned() -> None:
    analysis = late(0.05)
    proof = prove(
        analysis,
        reading(analysis, Declared(seconds=0.05)),
        reading(analysis, Declared(seconds=-0.05)),
        {"f": friction_forms(analysis)},
    )
    assert proof is not None
    assert proof.holds
    shifts = np.array([-0.05, 0.0, 0.05, 0.1])
    errors = analysis.misfit_by_shift(shifts)
    assert errors is not None
    assert int(np.argmin(errors.sum(axis=1))) == 2


def test_a_wrong_sign_is_contradicted_by_the_log() -> None:
    analysis = analysis_of(small_arm(), seed=5)
    for turned_round in sign_readings(analysis.robot, analysis.gated, 2):
        proof = prove(analysis, Reading(turned_round.robot, turned_round.samples))
        assert proof is not None
        assert proof.contradicted


def test_a_column_that_one_block_holds_predicts_nothing_there() -> None:
    """Friction of the lowest speeds before the motion begins: of the rest of the log its coefficient is noise."""
    analysis = analysis_of(small_arm(), seed=5)
    plain = Reading(analysis.robot, analysis.gated)
    n, N = analysis.robot.n, len(analysis.index)
    slow = 1e-4 * np.random.default_rng(0).normal(size=(n, N, 1))
    usable = np.flatnonzero(~analysis.reverses.any(axis=1) & (analysis.block == 0))
    slow[:, usable[:2]] = 1.0
    alone, beside = HeldOut.of(analysis, plain), HeldOut.of(analysis, plain, slow)
    assert alone is not None
    assert beside is not None
    own = np.unique(alone.block[alone.fold == alone.fold[0]])
    np.testing.assert_allclose(beside.error()[:, own], alone.error()[:, own], rtol=1e-9)
    # A part of the log that is silent on it may still have it of another part, at that part's weight.
    part = (np.arange(len(alone.parts)) > 0).astype(np.int64)
    parted = [one.error(part=part, other=1e-3) for one in (alone, beside)]
    others = np.setdiff1d(np.arange(alone.block.max() + 1), own)
    assert not np.allclose(parted[0][:, others], parted[1][:, others], rtol=1e-9)
    # Where the other blocks hold it as well, it is used.
    slow[:, :: N // 40] = 1.0
    spread = HeldOut.of(analysis, plain, slow)
    assert spread is not None
    assert not np.allclose(spread.error()[:, own], alone.error()[:, own], rtol=1e-6)


def test_too_few_samples_prove_nothing() -> None:
    analysis = analysis_of(small_arm(), seed=1)
    few = replace(analysis, residuals=replace(analysis.residuals, **first(analysis, 60)))
    assert prove(few, Reading(few.robot, few.motion)) is None


def first(analysis: ResidualAnalysis, rows: int) -> dict[str, Float]:
    """The first rows of all arrays of the residuals."""
    r = analysis.residuals
    return {name: value[:rows] for name, value in vars(r).items() if isinstance(value, np.ndarray)}


def test_a_turned_vector_keeps_its_length() -> None:
    vector = np.array([0.0, 0.0, -9.81])
    for angle in (0.0, 0.3, 2.0):
        found = rotated(vector, angle * np.array([0.6, 0.8, 0.0]))
        assert np.linalg.norm(found) == pytest.approx(9.81)
        assert found @ vector == pytest.approx(9.81**2 * np.cos(angle))
