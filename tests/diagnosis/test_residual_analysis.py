"""The test behind all diagnoses: against plain regression, and its chance of a false alarm."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import kstest

from dynid.diagnosis import ResidualAnalysis, spectrum
from dynid.diagnosis.residual_analysis import basis, hotelling, regressor
from dynid.terms import ChannelTorque, Terms
from dynid.testing import analysis_of, small_arm


@pytest.fixture(scope="module")
def analysis() -> ResidualAnalysis:
    return analysis_of(small_arm(), seed=3, seconds=20.0)


def weighted_model(analysis: ResidualAnalysis) -> np.ndarray:
    Y, complete = regressor(analysis.robot, analysis.terms, analysis.motion, analysis.estimate.base.mask)
    assert complete
    return (Y / analysis.rms[:, None, None]).reshape(-1, Y.shape[2])


def test_an_effect_is_that_of_a_joint_regression(analysis: ResidualAnalysis) -> None:
    # The features' coefficients in a regression on model and features together.
    rng = np.random.default_rng(0)
    n, N = analysis.robot.n, len(analysis.index)
    features = rng.normal(size=(n, N, 2))
    effect = analysis.test_features(features)
    assert effect is not None
    rows = np.hstack([weighted_model(analysis), (features / analysis.rms[:, None, None]).reshape(-1, 2)])
    target = (analysis.error / analysis.rms).T.reshape(-1)
    whole = np.linalg.lstsq(rows, target, rcond=None)[0]
    np.testing.assert_allclose(effect.coefficient, whole[-2:], rtol=1e-6)
    assert (effect.free > 0.8).all()


def test_what_the_model_can_take_up_is_no_effect(analysis: ResidualAnalysis) -> None:
    dq = analysis.motion.dq
    assert analysis.test_features(np.einsum("jk,Nj->jNk", np.eye(3)[:, [1]], dq)) is None
    constant = np.ones((3, len(analysis.index), 1))
    assert analysis.test_features(constant) is None


def test_an_effect_of_one_joint_agrees_with_that_of_all() -> None:
    def added(motion, rng):
        torque = np.zeros_like(motion.tau)
        torque[:, 0] = 0.05 * motion.size[0] * np.sin(3 * motion.q[:, 0])
        return torque

    analysis = analysis_of(small_arm(), added, seed=1, seconds=20.0)
    column = np.sin(3 * analysis.motion.q[:, 0])[:, None]
    features = np.zeros((3, len(column), 1))
    features[0] = column
    one, all_joints = analysis.test_joint(0, column), analysis.test_features(features)
    assert one is not None
    assert all_joints is not None
    # 5 % of the joint's torque was put in; the filters pass nearly all of it.
    size = 0.05 * analysis.torque_rms[0]
    for effect in (one, all_joints):
        assert abs(effect.coefficient[0] / size - 1.0) < 0.1
        assert abs(effect.coefficient[0] - size) < 4 * effect.std[0] + 0.02 * size
    assert one.share[1:].tolist() == [0.0, 0.0]
    pair = np.stack([column[:, 0], np.cos(3 * analysis.motion.q[:, 0])], axis=1)
    exact = analysis.test_joint(0, pair)
    assert exact is not None
    assert analysis.shares(0, pair[:, None, :])[0] == pytest.approx(exact.share[0], abs=0.05)


@pytest.mark.parametrize("k", [1, 2, 6])
def test_p_values_are_uniform_without_an_effect(k: int) -> None:
    rng = np.random.default_rng(k)
    mixed = rng.normal(size=(k, k))
    found = np.array([hotelling(rng.normal(size=(30, k)) @ mixed) for _ in range(600)])
    assert kstest(found, "uniform").pvalue > 1e-3


def test_p_values_fall_with_an_effect_and_need_blocks() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(30, 2)) + np.array([1.5, 0.0])
    assert hotelling(scores) < 1e-4
    assert hotelling(scores[:3]) == 1.0
    assert hotelling(np.ones((30, 1))) == 0.0


def test_correlated_samples_are_not_independent(analysis: ResidualAnalysis) -> None:
    # An autoregressive residual of correlation a keeps (1 - a) / (1 + a) of its samples.
    r = analysis.residuals
    e = lfilter([1.0], [1.0, -0.8], np.random.default_rng(2).normal(size=(len(r.t), 3)), axis=0)
    drawn = replace(analysis, residuals=replace(r, measured=r.predicted + e))
    for joint in range(3):
        assert drawn.independent[joint] / len(r.t) == pytest.approx(0.2 / 1.8, rel=0.5)


def test_a_joint_that_stands_adds_nothing_to_what_is_known_of_it(analysis: ResidualAnalysis) -> None:
    """A joint that moved once, for a tenth of the log, was said to have ripple and friction with p < 1e-12."""
    r, joint = analysis.residuals, 1
    T = len(r.t)
    moves = np.ones((T, 3))
    moves[T // 10 :, joint] = 0.0
    e = np.random.default_rng(2).normal(size=(T, 3)) * moves
    drawn = replace(analysis, residuals=replace(r, dq=r.dq * moves, measured=r.predicted + e))
    assert drawn.independent[joint] <= T // 10
    assert drawn.independent[0] > 0.5 * T


def test_terms_that_read_channels_are_left_out(analysis: ResidualAnalysis) -> None:
    terms = Terms((*analysis.terms, ChannelTorque("cable", "elbow")))
    count = len(terms.columns(analysis.robot))
    Y, complete = regressor(analysis.robot, terms, analysis.motion, np.ones(count, dtype=np.bool_))
    assert not complete
    assert not Y[:, :, -1].any()
    assert Y[:, :, :-1].any()


def test_a_basis_is_orthonormal_and_spans_the_columns() -> None:
    rows = np.random.default_rng(0).normal(size=(50, 4)) * [1.0, 1e-6, 1e6, 0.0]
    Q = basis(np.column_stack([rows, rows[:, 0] + rows[:, 1]]))
    assert Q.shape == (50, 3)
    np.testing.assert_allclose(Q.T @ Q, np.eye(3), atol=1e-12)
    left = rows - Q @ (Q.T @ rows)
    assert (np.linalg.norm(left, axis=0) <= 1e-7 * np.linalg.norm(rows, axis=0)).all()


def test_a_spectrum_holds_the_power_of_the_signal() -> None:
    parts = [np.random.default_rng(seed).normal(size=length) for seed, length in ((0, 4000), (1, 9000))]
    frequency, density, windows = spectrum(parts, 100.0)
    assert np.sum(density) * frequency[1] == pytest.approx(1.0, rel=0.05)
    # The mean of K windows scatters by 1 / sqrt(K).
    assert np.std(density[2:-2]) / np.mean(density[2:-2]) == pytest.approx(1 / np.sqrt(windows), rel=0.15)
