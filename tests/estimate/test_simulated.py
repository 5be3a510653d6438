"""Runs of a model beside a log: against the laboratory's plant, their slopes, and the estimators that make them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dynid.base import SolverError, UsageError
from dynid.estimate import CLIE, CLOE, DIDIM, IV, OE, WLS, Estimator, LogSource, SimulationProblem
from dynid.estimate.output_error import closed_loop
from dynid.robot import RobotModel
from dynid.rows import MomentumRows
from dynid.signals import Samples
from dynid.simulation import (
    Adaptive,
    Feedback,
    GravityPD,
    Mechanism,
    Output,
    Plant,
    SmoothFriction,
    Stretches,
    TorqueTable,
    refined,
    run,
    sensitivity,
    simulate,
)
from dynid.terms import Coulomb, JointDamping, Offset, Reads, RigidBody, Viscous
from dynid.testing import exact_samples, measured_regression, true_parameters, two_joints

ROBOT = two_joints()
TERMS = RigidBody() + Viscous() + Coulomb(width=0.1) + Offset()
THETA = true_parameters(ROBOT, TERMS)


def mechanism(elastic: bool = False) -> Mechanism:
    case = measured_regression(1, elastic=elastic)
    source = case.regression.source
    second = (0, 1) if elastic else ()
    return Mechanism(source.robot, source.terms, case.theta, second)  # type: ignore[union-attr]  # the case has a source


# The mechanism


@pytest.mark.parametrize("elastic", [False, True])
def test_force_is_mass_times_acceleration_and_bias(elastic: bool) -> None:
    m = mechanism(elastic)
    x, v, a = np.random.default_rng(0).normal(0, 1, (3, 20, m.size))
    M, h = m.equations(x, v, {})
    np.testing.assert_allclose(np.einsum("bij,bj->bi", M, a) + h, m.force(x, v, a, {}), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(M, np.swapaxes(M, 1, 2), atol=1e-12)
    u = np.random.default_rng(1).normal(0, 5, (20, m.n))
    found = m.acceleration(x, v, u, {})
    np.testing.assert_allclose(m.force(x, v, found, {}), m.on_coordinates(u), atol=1e-8)


def test_elastic_joints_are_those_of_the_plant() -> None:
    from dynid.simulation import Elasticity

    m = mechanism(elastic=True)
    values = {c.name: t for c, t in zip(m.terms.columns(m.robot), m.theta, strict=True)}
    friction = SmoothFriction(np.array([values["fv1"], values["fv2"]]), np.zeros(2))
    K = np.array([values["K1"], values["K2"]])
    plant = Plant(m.robot, elasticity=Elasticity(K, np.zeros(2)), friction=friction)
    x, v = np.random.default_rng(0).normal(0, 0.3, (2, 20, 4))
    u = np.random.default_rng(1).normal(0, 5, (20, 2))
    offset = np.array([values["fo1"], values["fo2"]])
    wanted = plant.acceleration(np.concatenate([x, v], axis=1), u - offset)
    np.testing.assert_allclose(m.acceleration(x, v, u, {}), wanted, rtol=1e-8, atol=1e-7)


def test_springs_pull_both_ways_as_much_as_they_are_stiff() -> None:
    """Joint and motor: K [[1, -1], [-1, 1]] and D likewise, of every spring alone; nothing of rigid joints."""
    rigid = mechanism()
    assert not any(part.any() for part in rigid.springs(np.zeros((1, 2)), {}))
    m = mechanism(elastic=True)
    terms = m.terms + JointDamping()
    m = Mechanism(m.robot, terms, np.append(m.theta, [0.7, 0.3]), m.second)
    value = {c.name: x for c, x in zip(terms.columns(m.robot), m.theta, strict=True)}
    pull = np.array([[1.0, -1.0], [-1.0, 1.0]])
    for found, wanted in zip(m.springs(np.zeros((1, 4)), {}), ("K", "D"), strict=True):
        own = np.kron(pull, np.diag([value[f"{wanted}1"], value[f"{wanted}2"]]))
        off = ~np.eye(4, dtype=np.bool_)  # friction of joints and motors damps them, too
        np.testing.assert_allclose(found[off], own[off], rtol=1e-6, atol=1e-6)
        if wanted == "K":
            np.testing.assert_allclose(found, own, rtol=1e-6)


@pytest.mark.parametrize("elastic", [False, True])
def test_slopes_and_regressor(elastic: bool) -> None:
    m = mechanism(elastic)
    x, v, a = np.random.default_rng(0).normal(0, 0.5, (3, 5, m.size))
    f_x, f_v = m.slopes(x, v, a, {})
    dx, dv = 1e-5 * np.random.default_rng(1).normal(0, 1, (2, 5, m.size))
    for slope, ends in (
        (f_x, (m.force(x + dx, v, a, {}), m.force(x - dx, v, a, {}), dx)),
        (f_v, (m.force(x, v + dv, a, {}), m.force(x, v - dv, a, {}), dv)),
    ):
        change = 0.5 * (ends[0] - ends[1])
        np.testing.assert_allclose(np.einsum("bij,bj->bi", slope, ends[2]), change, rtol=1e-4, atol=1e-9)
    Y = m.regressor(x, v, a, {}, np.ones(len(m.theta), dtype=np.bool_))
    np.testing.assert_allclose(Y @ m.theta, m.force(x, v, a, {}), rtol=1e-9, atol=1e-9)


def test_terms_with_a_memory_are_refused() -> None:
    from dynid.terms import CATALOGUE

    remembering = [kind for kind in CATALOGUE.values() if Reads.PAST in kind.traits.reads]
    assert remembering
    terms = RigidBody() + remembering[0]()
    with pytest.raises(UsageError, match="memory"):
        Mechanism(ROBOT, terms, np.ones(len(terms.columns(ROBOT))))


# Runs


def controlled(robot: RobotModel, rate: float) -> tuple[Samples, np.ndarray, np.ndarray]:
    """A motion under a PD controller with imprecise gravity, at `rate` Hz, and the gains."""

    class Reference:
        duration = 2.0

        def motion(self, t: np.ndarray) -> tuple[np.ndarray, ...]:
            w = np.array([3.0, 5.0])
            s, c = np.sin(t[:, None] * w), np.cos(t[:, None] * w)
            return 0.6 * (1 - c), 0.6 * w * s, 0.6 * w**2 * c

    fv, fc, fo = (THETA[20 + 2 * k : 22 + 2 * k] for k in range(3))
    plant = Plant(robot, friction=SmoothFriction(fv, fc, 0.1))
    believed = Plant(robot, inertia=0.8 * robot.inertia_prior)
    kp, kd = np.array([800.0, 300.0]), np.array([60.0, 20.0])
    controller = GravityPD(believed, Reference(), kp, kd)
    t = np.arange(round(2.0 * rate)) / rate
    m = simulate(plant, controller, plant.at_rest(np.zeros((1, 2)))[0], t, Adaptive())
    return Samples.from_motion(m.q, m.dq, m.ddq, m.tau + fo, rate), kp, kd


def test_a_run_with_the_true_model_is_the_motion_itself() -> None:
    samples, kp, kd = controlled(ROBOT, 200.0)
    m = Mechanism(ROBOT, TERMS, THETA)
    for feedback, stretches in (
        (Feedback(kp, kd), Stretches.of(len(samples), 100, 40)),
        (Feedback.none(2), Stretches.of(len(samples), 60, 0)),
    ):
        found = run(m, samples, feedback, stretches)
        np.testing.assert_allclose(stretches.gathered(found.x), samples.q, atol=2e-5)
        np.testing.assert_allclose(stretches.gathered(found.u), samples.tau, atol=0.03)


def test_feedback_with_the_controllers_gains_is_the_controller() -> None:
    # Another robot under the same controller: measured torque and gains alone foretell what it would have done.
    samples, kp, kd = controlled(ROBOT, 200.0)
    samples = samples.part(0, 240)
    heavier = replace(ROBOT, inertia_prior=1.1 * ROBOT.inertia_prior)

    theta = true_parameters(heavier, TERMS)
    found = run(
        Mechanism(ROBOT, TERMS, theta), samples, Feedback(kp, kd), Stretches.of(len(samples), len(samples), 0)
    )
    fo = THETA[24:26]
    fv, fc = THETA[20:22], THETA[22:24]
    plant = Plant(heavier, friction=SmoothFriction(fv, fc, 0.1))
    table = TorqueTable(samples.t, samples.tau - fo)

    class SameController:
        """What the controller commanded, less its gains times how far the other robot is off."""

        def torque(self, t: np.ndarray, state: object) -> np.ndarray:
            at = [
                np.stack([np.interp(t, samples.t, c) for c in z.T], axis=1) for z in (samples.q, samples.dq)
            ]
            return table.torque(t, state) + kp * (at[0] - state.q) + kd * (at[1] - state.dq)  # type: ignore[attr-defined]  # a plant of this file

    true = simulate(
        plant, SameController(), plant.at_rest(np.zeros((1, 2)))[0], samples.t, Adaptive(rtol=1e-7, atol=1e-8)
    )
    np.testing.assert_allclose(found.x[0], true.q, atol=2e-4)
    assert np.abs(true.q - samples.q).max() > 5e-3


def test_steps_are_of_third_order_and_stable_with_sharp_friction() -> None:
    error = []
    for rate in (50.0, 100.0):
        exact = at_rate(rate)
        m = Mechanism(ROBOT, RigidBody() + Viscous(), THETA[:22])
        one = Stretches.of(len(exact), len(exact), 0)
        error.append(float(np.abs(run(m, exact, Feedback.none(2), one).x[0] - exact.q).max()))
    assert error[1] < error[0] / 5
    sharp = RigidBody() + Viscous() + Coulomb(width=0.001) + Offset()
    exact = exact_samples(ROBOT, sharp, THETA, 3.0, 1)
    found = run(
        Mechanism(ROBOT, sharp, THETA),
        exact,
        Feedback(np.full(2, 500.0), np.full(2, 50.0)),
        Stretches.of(600, 600, 0),
    )
    assert np.abs(found.x[0] - exact.q).max() < 5e-3


def at_rate(rate: float) -> Samples:
    t = np.arange(round(1.0 * rate)) / rate
    w = np.array([3.0, 5.0])
    q, dq, ddq = (
        0.5 * np.sin(t[:, None] * w),
        0.5 * w * np.cos(t[:, None] * w),
        -0.5 * w**2 * np.sin(t[:, None] * w),
    )
    plain = Samples.from_motion(q, dq, ddq, rate=rate)
    return replace(plain, tau=(RigidBody() + Viscous()).torque(ROBOT, plain, THETA[:22]))


def test_refined_is_exact_for_cubics() -> None:
    t = np.arange(12.0)
    cubic = (0.1 * t**3 - t**2 + 3 * t)[None, :, None]
    fine = refined(cubic, 4)
    at = np.arange(45) / 4
    wanted = 0.1 * at**3 - at**2 + 3 * at
    np.testing.assert_allclose(fine[0, 4:-4, 0], wanted[4:-4], rtol=1e-12)
    np.testing.assert_array_equal(fine[0, ::4, 0], cubic[0, :, 0])


@pytest.mark.parametrize(("count", "length", "settling"), [(100, 30, 10), (100, 100, 0), (7, 3, 5)])
def test_stretches_give_every_sample_once(count: int, length: int, settling: int) -> None:
    stretches = Stretches.of(count, length, settling)
    numbers = stretches.gathered(stretches.index.astype(float)[..., None])[:, 0]
    np.testing.assert_array_equal(numbers, np.arange(count))
    assert (stretches.owner[1:] >= min(settling, length)).all()


def test_a_run_that_goes_astray_is_an_error() -> None:
    samples = exact_samples(ROBOT, TERMS, THETA, 3.0, 1)
    wild = replace(samples, tau=samples.tau * 100)
    with pytest.raises(SolverError, match="diverges from the measured"):
        run(Mechanism(ROBOT, TERMS, THETA), wild, Feedback.none(2), Stretches.of(600, 600, 0))
    light = THETA.copy()
    light[:20] *= -1
    with pytest.raises(SolverError, match="positive definite"):
        run(Mechanism(ROBOT, TERMS, light), samples, Feedback.none(2), Stretches.of(600, 100, 0))


# Slopes of runs


@pytest.mark.parametrize("gains", [(0.0, 0.0), (400.0, 40.0)])
def test_sensitivity_is_what_differences_give(gains: tuple[float, float]) -> None:
    terms = RigidBody() + Viscous() + Offset()
    theta = true_parameters(ROBOT, terms)
    samples = exact_samples(ROBOT, terms, theta, 2.0, 3)
    feedback = Feedback(np.full(2, gains[0]), np.full(2, gains[1]))
    stretches = Stretches.of(len(samples), 80, 0)
    wanted = np.zeros(len(theta), dtype=np.bool_)
    wanted[[10, 12, 19, 20, 23]] = True
    plain = run(Mechanism(ROBOT, terms, theta), samples, feedback, stretches)
    positions = Output.positions(2)
    found = sensitivity(
        Mechanism(ROBOT, terms, theta), plain, {}, feedback, samples.rate, wanted, True, positions
    )
    for k, column in enumerate(np.flatnonzero(wanted)):
        h = 1e-4 * max(abs(theta[column]), 0.1)
        ends = []
        for sign in (1, -1):
            moved = theta.copy()
            moved[column] += sign * h
            ends.append(run(Mechanism(ROBOT, terms, moved), samples, feedback, stretches).x)
        change = (ends[0] - ends[1]) / (2 * h)
        np.testing.assert_allclose(found[..., k], change, atol=5e-3 * np.abs(change).max())
    start = samples.q[stretches.index[:, 0]], samples.dq[stretches.index[:, 0]]
    for k in range(4):
        moved_start = [np.array(z) for z in start]
        moved_start[k // 2][:, k % 2] += 1e-5
        moved_run = run(
            Mechanism(ROBOT, terms, theta), samples, feedback, stretches, (moved_start[0], moved_start[1])
        )
        change = (moved_run.x - plain.x) / 1e-5
        np.testing.assert_allclose(found[..., 5 + k], change, atol=1e-2)


def test_pieces_of_closed_loops_are_linear_about_their_value() -> None:
    case = measured_regression(1, seconds=5.0)
    simulation = SimulationProblem.of(case.regression, "cloe", None)
    for of_torque in (False, True):
        problem = closed_loop(simulation, simulation.feedback(case.beta, None, None), of_torque)
        here = next(problem.linear(case.beta))
        there = next(problem.linear(case.beta * 1.001))
        for g in range(2):
            predicted = here.panels[g][-1] - 1.001 * case.beta @ here.panels[g][:-1]
            actual = there.panels[g][-1] - 1.001 * case.beta @ there.panels[g][:-1]
            plain = here.panels[g][-1] - case.beta @ here.panels[g][:-1]
            assert np.linalg.norm(predicted - actual) < 0.02 * np.linalg.norm(actual - plain)


# Estimators


def test_known_gains_are_used() -> None:
    case = measured_regression(1)
    virtual, known = (
        CLOE().fit(case.regression),
        CLOE(kp=[900.0, 400.0], kd=[80.0, 30.0]).fit(case.regression),
    )
    assert known.status.ok
    assert np.abs(virtual.value - known.value).max() > 0
    np.testing.assert_allclose(known.value, case.beta, atol=0.05 * case.size.max())


def test_rows_without_acceleration_serve_as_well() -> None:
    case = measured_regression(1, rows=MomentumRows(cutoff=5.0))
    for method in (DIDIM(), IV()):
        found = method.fit(case.regression)
        assert found.status.ok
        assert (np.abs(found.value - case.beta) / case.size < 0.02).all()


@pytest.mark.parametrize("method", [DIDIM(rounds=1), IV(rounds=1), CLOE(rounds=1, tolerance=1e-6)])
def test_rounds_that_run_out_are_reported(method: Estimator) -> None:
    found = method.fit(measured_regression(2).regression)
    assert not found.status.ok
    assert "rounds" in found.status.text


def test_what_cannot_be_simulated_is_an_error_with_advice() -> None:
    # Torque of the wrong sign and no prior: no robot makes this log.
    case = measured_regression(1, seconds=6.0)
    source = case.regression.source
    assert isinstance(source, LogSource)
    mirrored = source.with_batches([replace(s, tau=-s.tau) for s in source.batches])
    unknown = tuple(replace(c, prior=np.nan) for c in case.regression.columns)
    regression = replace(case.regression, columns=unknown, source=mirrored)
    with pytest.raises(SolverError, match="robot file"):
        DIDIM().fit(regression)


def test_springs_are_determined_by_deflections_not_by_torque() -> None:
    case = measured_regression(3, elastic=True, seconds=5.0)
    columns = [case.regression.columns[i].term for i in case.regression.base.independent]
    spring = np.array([term == "stiffness" for term in columns])
    widths = {}
    for method in (DIDIM(), CLIE()):
        found = method.fit(case.regression)
        assert found.status.ok, found.status.text
        assert (np.abs(found.value / case.beta - 1.0)[spring] < 0.02).all()
        widths[method.name] = found.half_width()[spring] / case.beta[spring]
    # The motors' torque alone knows stiffness to a few per cent, with deflections measured to a few tenths.
    assert (widths["didim"] < 0.01).all()
    assert (widths["clie"] > 3.0 * widths["didim"]).all()
    assert (widths["clie"] < 0.2).all()


def test_along_simulated_deflections_torque_agrees_with_every_stiffness(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Why `DIDIM` takes measured deflections: with simulated ones it returns the stiffness that it was begun with."""
    case = measured_regression(3, elastic=True, seconds=3.0)
    columns = [case.regression.columns[i].term for i in case.regression.base.independent]
    spring = np.array([term == "stiffness" for term in columns])
    monkeypatch.setattr(SimulationProblem, "start", lambda self: np.where(spring, 1.2, 1.0) * case.beta)
    moved = {}
    for name in ("measured", "simulated"):
        if name == "simulated":
            monkeypatch.setattr(
                "dynid.estimate.instrumental.deflected", lambda simulated, measured, second: simulated
            )
        found = DIDIM(rounds=3, tolerance=1e-9).fit(case.regression)
        moved[name] = np.abs(found.value / case.beta - 1.0)[spring]
    assert (moved["measured"] < 0.01).all()
    assert (moved["simulated"] > 0.1).all()


@pytest.mark.parametrize(
    "options", [{"bandwidth": -1.0}, {"kp": 3.0}, {"kp": [1.0, -1.0], "kd": 1.0}, {"kp": np.inf, "kd": 1.0}]
)
def test_options_are_checked(options: dict[str, float]) -> None:
    for kind in (DIDIM, IV, CLIE, CLOE):
        with pytest.raises(UsageError):
            kind(**options)
    with pytest.raises(UsageError, match="horizon"):
        OE(horizon=0.0)


def test_least_squares_needs_no_source() -> None:
    case = measured_regression(1)
    plain = WLS().fit(replace(case.regression, source=None))
    np.testing.assert_array_equal(plain.value, WLS().fit(case.regression).value)
