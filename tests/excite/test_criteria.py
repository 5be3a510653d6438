"""Criteria and bounds: derivatives against central differences, meaning, symmetry, refusals."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from dynid.base import Bool, Float, UnfitDataError, UsageError, ordered_map
from dynid.excitation import (
    Bounds,
    Criterion,
    Information,
    MotionLimits,
    Workspace,
    collision_model,
    design,
    information_of,
    points,
    prior_theta,
    robot_shapes,
)
from dynid.excitation.collision import segment_distance
from dynid.excitation.constraints import SmoothBounds
from dynid.excitation.design import focus_on
from dynid.excitation.gradient import MotionGradient
from dynid.kernel import Panels, using
from dynid.robot import RobotModel, load_example
from dynid.signals import Samples
from dynid.terms import Coulomb, Offset, RigidBody, RotorInertia, Terms, TorsionSpring, Viscous
from dynid.testing import random_robot
from dynid.trajectories import FourierBasis

ROBOT = load_example("arm7")
TERMS = RigidBody() + RotorInertia() + Viscous() + Coulomb() + Offset()
INFORMATION = information_of(ROBOT, TERMS)
BASIS = FourierBasis(8.0, 3, 0.25, 1.0)
GRID = BASIS.values(np.linspace(0.0, 8.0, 90))


def coefficients(seed: int = 0) -> Float:
    return np.random.default_rng(seed).normal(0.0, 0.3, (BASIS.size, ROBOT.n))


def motion(X: Float) -> tuple[Float, Float, Float]:
    return GRID[0] @ X, GRID[1] @ X, GRID[2] @ X


def directional(f: Callable[[Float], Float | float], X: Float, E: Float, h: float = 1e-4) -> Float:
    # Central differences of fourth order.
    near = np.asarray(f(X + h * E)) - np.asarray(f(X - h * E))
    far = np.asarray(f(X + 2 * h * E)) - np.asarray(f(X - 2 * h * E))
    return np.asarray((8 * near - far) / (12 * h))


@pytest.mark.parametrize("criterion", list(Criterion))
@pytest.mark.parametrize("seed", [0, 1])
def test_gradients_agree_with_central_differences(criterion: Criterion, seed: int) -> None:
    information = replace(INFORMATION, criterion=criterion)
    X, E = coefficients(seed), np.random.default_rng(seed + 10).normal(size=(BASIS.size, ROBOT.n))
    _, g = information.gradient(*motion(X))
    slope = sum(float((B.T @ part * E).sum()) for B, part in zip(GRID[:3], g, strict=True))
    found = float(directional(lambda Y: information.value(*motion(Y)), X, E, 1e-5))
    assert slope == pytest.approx(found, rel=1e-6)


def test_gradients_with_focus_and_records_agree_too() -> None:
    rng = np.random.default_rng(5)
    b = INFORMATION.base.rank
    information = replace(
        INFORMATION, focus=rng.normal(size=(3, b)), recorded=np.triu(rng.normal(size=(b, b))), rate=10.0
    )
    X, E = coefficients(2), rng.normal(size=(BASIS.size, ROBOT.n))
    _, g = information.gradient(*motion(X), seconds=8.0)
    slope = sum(float((B.T @ part * E).sum()) for B, part in zip(GRID[:3], g, strict=True))
    found = float(directional(lambda Y: information.value(*motion(Y), seconds=8.0), X, E, 1e-5))
    assert slope == pytest.approx(found, rel=1e-6)


@pytest.mark.parametrize("criterion", [Criterion.PRECISION, Criterion.BALANCED])
def test_gradients_with_what_is_asked_and_recorded_agree_too(criterion: Criterion) -> None:
    rng = np.random.default_rng(6)
    b = INFORMATION.base.rank
    asked, recorded = rng.uniform(0.1, 1.0, b), np.triu(rng.normal(size=(b, b)))
    information = replace(INFORMATION, criterion=criterion, asked=asked, recorded=recorded, rate=10.0)
    X, E = coefficients(2), rng.normal(size=(BASIS.size, ROBOT.n))
    _, g = information.gradient(*motion(X), seconds=8.0)
    slope = sum(float((B.T @ part * E).sum()) for B, part in zip(GRID[:3], g, strict=True))
    found = float(directional(lambda Y: information.value(*motion(Y), seconds=8.0), X, E, 1e-5))
    assert slope == pytest.approx(found, rel=1e-6)


def test_precision_is_the_greatest_deviation_over_what_is_asked() -> None:
    asked = np.random.default_rng(7).uniform(0.1, 1.0, INFORMATION.base.rank)
    information = replace(INFORMATION, criterion=Criterion.PRECISION, asked=asked)
    at = motion(coefficients(3))
    R = information.triangle(*at)
    deviations = np.sqrt(np.diag(np.linalg.inv(R.T @ R)))
    exact = float(np.log((deviations / asked).max()))
    assert information.figures(*at).precision == pytest.approx(exact, rel=1e-6)
    assert exact <= information.value(*at) <= exact + 0.5 * np.log(INFORMATION.base.rank) / design.LEADING
    with pytest.raises(UsageError, match="precision"):
        replace(information, asked=0.0 * asked)


def test_balanced_weighs_intervals_and_the_condition_number() -> None:
    information = replace(INFORMATION, criterion=Criterion.BALANCED)
    at = motion(coefficients(3))
    found = information.figures(*at)
    mean = -0.5 * found.logdet / INFORMATION.base.rank
    assert found.balanced == pytest.approx(mean + design.PROPORTION * np.log(found.condition))
    more = design.PROPORTION * np.log(INFORMATION.base.rank) / design.SHARPNESS
    assert found.balanced <= information.value(*at) <= found.balanced + more


def test_torque_derivatives_agree_with_central_differences() -> None:
    X, E = coefficients(3), np.random.default_rng(4).normal(size=(BASIS.size, ROBOT.n))
    terms = INFORMATION.terms
    theta = np.random.default_rng(5).uniform(0.1, 1.0, len(terms.columns(ROBOT)))
    chain = MotionGradient(ROBOT, terms)
    _, J = chain.of_torque(*motion(X), theta)
    slope = sum(np.einsum("tj,tji->ti", B @ E, part) for B, part in zip(GRID[:3], J, strict=True))
    found = directional(lambda Y: chain.of_torque(*motion(Y), theta)[0], X, E, 1e-5)
    np.testing.assert_allclose(slope, found, rtol=1e-6, atol=1e-6 * np.abs(found).max())


def test_bounds_agree_with_central_differences() -> None:
    bounds = Bounds(
        MotionLimits.of(ROBOT),
        prior_theta(ROBOT, INFORMATION.terms),
        workspace=Workspace.of(ROBOT, 0.0, [[-0.8, -0.8, 0.0], [0.8, 0.8, 1.5]], [0.0, 0.0, 0.1]),
        collision=collision_model(ROBOT, robot_shapes(ROBOT, np.array([0.05])), 0.01),
        tip=np.array([0.05, 0.0, 0.1]),
        tip_speed=0.8,
    )
    smooth = SmoothBounds(ROBOT, INFORMATION.terms, bounds, GRID)
    X, E = coefficients(6), np.random.default_rng(7).normal(size=(BASIS.size, ROBOT.n))
    slope = np.einsum("cmn,mn->c", smooth.evaluate(X)[1], E)
    found = directional(lambda Y: smooth.evaluate(Y)[0], X, E, 1e-6)
    np.testing.assert_allclose(slope, found, rtol=1e-5, atol=1e-6 * np.abs(found).max())


def test_figures_are_those_of_the_dense_regressor() -> None:
    X = coefficients(8)
    q, dq, ddq = motion(X)

    panels = INFORMATION.terms.torque_regressor(ROBOT, Samples.from_motion(q, dq, ddq))
    base = INFORMATION.base
    W = (panels.dense(len(base.names)) / INFORMATION.noise[None, :, None]).reshape(-1, len(base.names))
    W = W[:, base.independent]
    found = INFORMATION.figures(q, dq, ddq)
    assert found.condition == pytest.approx(np.linalg.cond(W / np.linalg.norm(W, axis=0)), rel=1e-8)


def test_the_smooth_condition_bounds_the_exact_one() -> None:
    information = replace(INFORMATION, criterion=Criterion.CONDITION)
    for seed in range(4):
        at = motion(coefficients(seed))
        exact = np.log(information.figures(*at).condition)
        assert exact <= information.value(*at) <= exact + np.log(INFORMATION.base.rank) / 8.0


def test_more_noise_on_all_joints_leaves_the_condition() -> None:
    louder = replace(INFORMATION, noise=3.0 * INFORMATION.noise)
    at = motion(coefficients(1))
    assert louder.figures(*at).condition == pytest.approx(INFORMATION.figures(*at).condition)


def test_what_was_recorded_counts() -> None:
    at = motion(coefficients(1))
    alone = replace(INFORMATION, recorded=np.zeros((1, INFORMATION.base.rank)))
    with_past = replace(INFORMATION, recorded=50.0 * np.eye(INFORMATION.base.rank))
    assert with_past.figures(*at).logdet > alone.figures(*at).logdet


def test_quantities_that_nothing_determines_are_refused() -> None:
    base = INFORMATION.base
    alone = next(
        name for name, kind in zip(base.names, base.categories(), strict=True) if kind == "identifiable"
    )
    assert focus_on(base, [alone]).sum() == 1.0
    with pytest.raises(UnfitDataError, match=r"m1.*no influence"):
        focus_on(base, ["m1"])
    mixed = next(
        name
        for name, kind in zip(base.names, base.categories(), strict=True)
        if kind == "only in combination"
    )
    with pytest.raises(UnfitDataError, match="it is part of"):
        focus_on(base, [mixed])
    with pytest.raises(UsageError, match="unknown-parameter"):
        focus_on(base, ["nobody"])


def test_segments_against_a_fine_grid() -> None:
    rng = np.random.default_rng(0)
    a0, a1, b0, b1 = rng.normal(size=(4, 60, 3))
    b1[:5] = b0[:5] + 0.7 * (a1[:5] - a0[:5])
    a1[5:8] = a0[5:8]
    b1[7:9] = b0[7:9]
    d, normal, s, t = segment_distance(a0, a1, b0, b1)
    u = np.linspace(0, 1, 101)
    A = a0[:, None] + u[None, :, None] * (a1 - a0)[:, None]
    B = b0[:, None] + u[None, :, None] * (b1 - b0)[:, None]
    grid = np.linalg.norm(A[:, :, None] - B[:, None], axis=-1).min(axis=(1, 2))
    assert (d <= grid + 1e-12).all()
    np.testing.assert_allclose(d, grid, atol=5e-2)
    np.testing.assert_allclose(np.linalg.norm(normal, axis=1), 1.0)
    assert ((s >= 0) & (s <= 1) & (t >= 0) & (t <= 1)).all()


def test_point_derivatives() -> None:
    q, e = np.random.default_rng(1).normal(size=(2, 5, 7))
    body, local = np.array([6, 3, -1]), np.array([[0.1, 0.2, 0.3], [0.0, 0.1, 0.0], [1.0, 0.0, 0.0]])
    J = points(ROBOT, q, body, local)[1]
    found = directional(lambda x: points(ROBOT, x, body, local)[0], q, e, 1e-4)
    np.testing.assert_allclose(np.einsum("tpxn,tn->tpx", J, e), found, atol=1e-9)


def test_noise_must_be_positive() -> None:
    with pytest.raises(UsageError, match="noise"):
        Information(ROBOT, INFORMATION.terms, INFORMATION.base, np.zeros(7))


def test_gradients_hold_with_joints_that_follow_others_and_terms_of_several_joints() -> None:
    robot = random_robot(3, 5, 0.3, mimic=True)
    spring = TorsionSpring(robot.joint_names[:2])
    check_chain(robot, RigidBody() + Viscous() + Coulomb(width=0.3) + spring)


def test_gradients_hold_for_the_terms_known_by_formula() -> None:
    robot = random_robot(4, 5, 0.3)
    some = Coulomb(width=0.2, joints=robot.joint_names[1:3])
    check_chain(robot, Viscous() + RigidBody() + RotorInertia() + some + Offset())


def panels_of(
    robot: RobotModel, terms: Terms, q: Float, dq: Float, ddq: Float, wanted: Bool | None = None
) -> Panels:
    return terms.torque_regressor(robot, Samples.from_motion(q, dq, ddq), wanted)


def check_chain(robot: RobotModel, terms: Terms) -> None:
    rng = np.random.default_rng(0)
    q, dq, ddq, e = rng.normal(size=(4, 20, robot.n))
    wanted = rng.random(len(terms.columns(robot))) < 0.8
    chain = MotionGradient(robot, terms)
    layout, lines = chain.regressor(q, dq, ddq, wanted)
    weights = rng.normal(size=lines.shape)
    found = chain.of_lines(q, dq, ddq, layout, lines, weights)
    # By several weights at once, each of few samples, too.
    early = np.arange(20) < 7
    several = chain.of_contractions(q, dq, ddq, layout, np.stack([weights * early, weights * ~early]))
    np.testing.assert_allclose(found, several.sum(axis=0), rtol=1e-12, atol=1e-12 * np.abs(found).max())
    np.testing.assert_array_equal(several[0][:, ~early], 0.0)

    def summed(x: Float, v: Float, a: Float) -> float:
        panels = panels_of(robot, terms, x, v, a, wanted)
        assert all(
            np.array_equal(own, columns) for own, columns in zip(layout.columns, panels.columns, strict=True)
        )
        return float((weights * np.concatenate(panels.values)).sum())

    theta = rng.normal(size=len(wanted))
    J = chain.of_torque(q, dq, ddq, theta)[1]
    for kind in range(3):
        step = [e * (k == kind) for k in range(3)]

        def at(s: Float, step: list[Float] = step) -> tuple[Float, Float, Float]:
            return q + float(s) * step[0], dq + float(s) * step[1], ddq + float(s) * step[2]

        slope = directional(lambda s: summed(*at(s)), np.zeros(()), np.ones(()), 1e-3)
        assert float((found[kind] * e).sum()) == pytest.approx(float(slope), rel=1e-6)
        slope = directional(
            lambda s: terms.torque(robot, Samples.from_motion(*at(s)), theta), np.zeros(()), np.ones(()), 1e-3
        )
        np.testing.assert_allclose(
            np.einsum("tj,tji->ti", e, J[kind]), slope, atol=1e-6 * np.abs(slope).max()
        )


@pytest.mark.parametrize("criterion", list(Criterion))
def test_both_ways_to_the_spectrum_agree(criterion: Criterion, monkeypatch: pytest.MonkeyPatch) -> None:
    # By the Gram matrix and, where that has too few digits, by the triangle of the regressor itself.
    information, at = replace(INFORMATION, criterion=criterion), motion(coefficients(3))
    short, g = information.gradient(*at)
    assert design._inverse_factors(np.eye(3)) is not None
    monkeypatch.setattr(design, "SQUARABLE", 1.0)
    assert design._inverse_factors(np.eye(3)) is None
    long, h = information.gradient(*at)
    assert short == pytest.approx(long, rel=1e-9)
    np.testing.assert_allclose(g, h, atol=1e-8 * np.abs(h).max())


@pytest.mark.parametrize("criterion", list(Criterion))
def test_gradients_of_poor_motions_agree_with_central_differences(criterion: Criterion) -> None:
    # So slow that the Gram matrix alone would not do.
    information = replace(INFORMATION, criterion=criterion)
    X, E = 0.02 * coefficients(4), 0.02 * np.random.default_rng(14).normal(size=(BASIS.size, ROBOT.n))
    R = information.triangle(*motion(X))
    D = np.linalg.norm(R, axis=0) if criterion is Criterion.CONDITION else information._scale
    assert np.linalg.cond(R / D) ** 2 > 1.0 / design.SQUARABLE
    _, g = information.gradient(*motion(X))
    slope = sum(float((B.T @ part * E).sum()) for B, part in zip(GRID[:3], g, strict=True))
    found = float(directional(lambda Y: information.value(*motion(Y)), X, E, 1e-3))
    assert slope == pytest.approx(found, rel=1e-6)


@pytest.mark.parametrize("criterion", list(Criterion))
def test_both_kernels_give_the_same_gradient(criterion: Criterion) -> None:
    information, at = replace(INFORMATION, criterion=criterion), motion(coefficients(5))
    value, g = information.gradient(*at)
    with using("numpy"):
        other, h = information.gradient(*at)
    assert value == pytest.approx(other, rel=1e-10)
    np.testing.assert_allclose(g, h, atol=1e-9 * np.abs(h).max())


def test_gradients_in_threads_are_the_same_bytes() -> None:
    at = motion(coefficients(6))
    alone = INFORMATION.gradient(*at)[1].tobytes()
    assert set(ordered_map(lambda _: INFORMATION.gradient(*at)[1].tobytes(), range(6), 3)) == {alone}


def test_threads_of_the_linear_algebra_do_not_change_a_byte() -> None:
    code = (
        "import hashlib, numpy as np\n"
        "from dynid.excitation.plan import information_of\n"
        "from dynid.robot import load_example\n"
        "from dynid.terms.friction import Viscous\n"
        "from dynid.terms.rigid_body import RigidBody\n"
        "information = information_of(load_example('arm7'), RigidBody() + Viscous())\n"
        "value, g = information.gradient(*np.random.default_rng(0).normal(size=(3, 3000, 7)))\n"
        "print(value.hex(), hashlib.sha256(g.tobytes()).hexdigest())\n"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"OPENBLAS_NUM_THREADS": count},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for count in ("1", "3")
    }
    assert len(found) == 1
