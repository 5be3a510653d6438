"""Nonlinear parameters: recovered on simulated robots, compared with a dense search, with honest intervals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import lsq_linear, minimize

from dynid.base import Float, UsageError
from dynid.choose import search
from dynid.choose.separable import Scale
from dynid.factor import Candidate, compare, gain, stack
from dynid.factor.folds import standard_error
from dynid.identification import Settings, identify
from dynid.log import Log, canonical_columns, read_log, write_log
from dynid.robot import RobotModel
from dynid.run import Identification, load, validate, validation
from dynid.signals import Preparation
from dynid.terms import (
    Coulomb,
    FrictionChoice,
    JointMotion,
    LoadFriction,
    MotorInertia,
    Of,
    Offset,
    OnMotor,
    Presliding,
    RigidBody,
    RotorInertia,
    Sigmoid,
    Stribeck,
    Terms,
    Viscous,
    shape_table,
    with_shape_table,
)
from dynid.testing import random_robot, smooth_samples
from dynid.verbs import save

pytestmark = pytest.mark.usefixtures("unexamined")

ROBOT = random_robot(21, 2, 0.0)
# Where blocks are not looked at, the log itself is given to validate on: to hold blocks out is a search for each.
SETTINGS = Settings(
    preparation=Preparation(cutoff=20.0, state_cutoff=40.0, velocity="measured", rest=0.0), folds=4
)
BODIES = RigidBody() + RotorInertia() + Viscous()
WIDTH = 0.02


def write(path: Path, terms: Terms, theta: Float, seconds: float, seed: int, noise: float) -> Log:
    samples = smooth_samples(ROBOT, round(seconds * 200), seed, 200.0)
    tau = terms.torque(ROBOT, samples, theta)
    tau = tau + noise * np.random.default_rng(seed + 50).normal(0, 1, tau.shape)
    write_log(path, samples.t, canonical_columns(ROBOT.joint_names, samples.q, samples.dq, tau))
    return read_log(path, ROBOT)


def parameters(robot: RobotModel, terms: Terms, **values: float) -> Float:
    return np.array([values.get(c.term, c.prior) for c in terms.columns(robot)])


TRUE = BODIES + Coulomb(WIDTH) + Stribeck((0.35, 0.7)) + Offset()
THETA = parameters(ROBOT, TRUE, rotor_inertia=0.2, viscous=0.5, coulomb=1.5, stribeck=2.0, offset=0.2)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    return write(tmp_path_factory.mktemp("logs") / "train.parquet", TRUE, THETA, 40.0, 1, 0.05)


@pytest.fixture(scope="module")
def result(log: Log) -> Identification:
    model = BODIES + Coulomb(WIDTH) + Stribeck() + Offset()
    return identify(ROBOT, log, replace(SETTINGS, terms=model), threads=1)


def test_shapes_are_recovered_with_intervals_that_hold_them(result: Identification) -> None:
    assert [s.name for s in result.shapes] == ["velocity1", "velocity2"]
    for shape, true in zip(result.shapes, (0.35, 0.7), strict=True):
        assert 0 < shape.std < 0.1 * true
        assert abs(shape.value - true) < 4 * shape.std + 0.01 * true
        assert shape.lower < shape.value < shape.upper
    names = [c.name for c in result.estimate.columns]
    found = result.estimate.full_vector[[names.index("fs1"), names.index("fs2")]]
    np.testing.assert_allclose(found, 2.0, rtol=0.05)


@pytest.mark.slow
def test_variable_projection_finds_the_least_squares_of_everything(result: Identification, log: Log) -> None:
    # The oracle moves the shapes with the simplex method and fits anew at each of its steps.
    def cost(scale: Float) -> float:
        values = tuple(float(s.value * x) for s, x in zip(result.shapes, scale, strict=True))
        model = BODIES + Coulomb(WIDTH) + Stribeck(values) + Offset()
        fitted = identify(ROBOT, log, replace(SETTINGS, terms=model), threads=1)
        theta, weights = fitted.estimate.full_vector, result.estimate.weights
        return float(
            sum(w * f.residual_square(theta) for w, f in zip(weights, fitted.factors.total, strict=True))
        )

    here = cost(np.ones(2))
    simplex = np.array([[1.0, 1.0], [1.02, 1.0], [1.0, 1.02]])
    best = minimize(
        cost, np.ones(2), method="Nelder-Mead", options={"maxfev": 20, "initial_simplex": simplex}
    )
    assert here <= best.fun * (1 + 1e-5)
    np.testing.assert_allclose(best.x, 1.0, atol=5e-3)


def test_a_shape_that_is_given_stays_beside_one_that_is_sought(tmp_path: Path) -> None:
    terms = BODIES + Sigmoid(8.0, (0.1, -0.15)) + Offset()
    theta = parameters(ROBOT, terms, rotor_inertia=0.2, viscous=0.5, sigmoid=3.0, offset=0.2)
    own = write(tmp_path / "sigmoid.parquet", terms, theta, 30.0, 4, 0.02)
    model = BODIES + Sigmoid(slope=8.0) + Offset()
    found = identify(ROBOT, own, replace(SETTINGS, terms=model), validation=own, threads=1)
    (sigmoid,) = (one for one in found.terms if isinstance(one, Sigmoid))
    np.testing.assert_array_equal(shape_table(sigmoid, ROBOT)[:, 0], 8.0)
    assert [shape.name for shape in found.shapes] == ["shift1", "shift2"]
    for shape, true in zip(found.shapes, (0.1, -0.15), strict=True):
        assert abs(shape.value - true) < 4 * shape.std < 0.05


def test_shapes_are_those_of_least_squares_without_negative_friction(tmp_path: Path) -> None:
    # Friction that fades exponentially is of no shape that is sought: the best one needs viscous friction below zero.
    terms = BODIES + Coulomb(WIDTH) + Stribeck(0.5, exponent=1.0)
    theta = parameters(ROBOT, terms, rotor_inertia=0.2, viscous=0.02, coulomb=0.5, stribeck=2.0)
    own = write(tmp_path / "exponential.parquet", terms, theta, 30.0, 6, 0.01)

    def fit(velocity: float | tuple[float, ...] | None) -> Identification:
        model = BODIES + Coulomb(WIDTH) + Stribeck(velocity)
        return identify(ROBOT, own, replace(SETTINGS, terms=model), validation=own, threads=1)

    found = fit(None)
    here = tuple(shape.value for shape in found.shapes)

    def costs(share: float) -> list[float]:
        """With joint 1's shape at a share of what was found: without bounds, and with them."""
        moved = fit((share * here[0], here[1]))
        index = moved.estimate.base.independent
        mask = np.isin(np.arange(len(moved.estimate.columns)), index)
        weights = np.asarray(found.estimate.weights)
        R = stack([factor.select(mask) for factor in moved.factors.total], index, weights)
        columns = [moved.estimate.columns[i] for i in index]
        lower = [0.0 if c.of is Of.JOINT and c.lower >= 0 else -np.inf for c in columns]
        ends = (np.full(len(index), -np.inf), np.array(lower))
        return [float(lsq_linear(R[:, :-1], R[:, -1], (low, np.inf), method="bvls").cost) for low in ends]

    below, least, above = (costs(share) for share in (0.97, 1.0, 1.03))
    assert least[1] < min(below[1], above[1])
    assert below[0] < least[0]  # where the search without bounds would have gone


def test_the_search_is_repeatable_and_threads_do_not_matter(result: Identification, log: Log) -> None:
    again = identify(
        ROBOT, log, replace(SETTINGS, terms=BODIES + Coulomb(WIDTH) + Stribeck() + Offset()), threads=3
    )
    assert again.shapes == result.shapes
    assert (again.estimate.value == result.estimate.value).all()


def test_a_log_that_is_streamed_gives_the_same(
    result: Identification, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = BODIES + Coulomb(WIDTH) + Stribeck() + Offset()
    monkeypatch.setattr(validation, "CACHE_BYTES", 0.0)
    streamed = identify(ROBOT, log, replace(SETTINGS, terms=model), threads=1)
    assert [s.value for s in streamed.shapes] == pytest.approx([s.value for s in result.shapes], rel=1e-6)
    # Where even the lines do not fit in memory, shapes are estimated on evenly spaced windows.
    monkeypatch.setattr(search, "LINE_BYTES", 3e5)
    thinned = identify(ROBOT, log, replace(SETTINGS, terms=model), threads=1)
    assert [s.value for s in thinned.shapes] == pytest.approx([s.value for s in result.shapes], rel=0.1)


def test_sought_shapes_widen_the_intervals(result: Identification, log: Log) -> None:
    given = Stribeck(tuple(s.value for s in result.shapes))
    fixed = identify(
        ROBOT, log, replace(SETTINGS, terms=BODIES + Coulomb(WIDTH) + given + Offset()), threads=1
    )
    assert fixed.shapes == ()
    np.testing.assert_allclose(fixed.estimate.value, result.estimate.value, rtol=1e-9)
    names = [result.estimate.columns[i].name for i in result.estimate.base.independent]
    wider = result.estimate.std / fixed.estimate.std
    assert wider[names.index("fs1")] > 1.05
    assert (wider > 0.7).all()


def test_worth_is_shown_on_held_out_blocks(result: Identification) -> None:
    assert [c.subject for c in result.choices] == ["stribeck", "stribeck"]
    for choice in result.choices:
        assert choice.chosen == "stribeck"
        assert choice.winner.earned
        assert choice.candidates[0].name == "without"
    assert any("stribeck improves the prediction" in f.title for f in result.verdict.findings)
    (held_out,) = result.validations
    assert (held_out.scores.r2 > 0.99).all()


def test_a_run_folder_keeps_shapes_and_choices(result: Identification, tmp_path: Path) -> None:
    report = save(result, tmp_path / "run").read_text(encoding="utf-8")
    back = load(tmp_path / "run")
    assert back.choices == result.choices
    assert back.shapes == result.shapes
    assert tuple(back.terms) == tuple(result.terms)
    assert "Nonlinear parameters" in report
    assert "velocity1" in report
    assert "significant" in report


def test_a_term_that_is_not_needed_is_reported(tmp_path: Path) -> None:
    true = BODIES + Coulomb(WIDTH) + Offset()
    theta = parameters(ROBOT, true, rotor_inertia=0.2, viscous=0.5, coulomb=1.5, offset=0.2)
    log = write(tmp_path / "plain.parquet", true, theta, 40.0, 3, 0.05)
    found = identify(
        ROBOT, log, replace(SETTINGS, terms=BODIES + Coulomb(WIDTH) + Stribeck() + Offset()), threads=1
    )
    assert all(choice.chosen == "without" for choice in found.choices)
    assert any("does not improve the prediction" in f.title for f in found.verdict.findings)
    chosen = identify(
        ROBOT,
        log,
        replace(SETTINGS, terms=RigidBody() + RotorInertia() + FrictionChoice(("stribeck", "sides"))),
    )
    assert [c.chosen for c in chosen.choices] == ["coulomb", "coulomb"]
    assert tuple(chosen.terms) == (RigidBody(), RotorInertia(), Viscous(), Coulomb(WIDTH), Offset())
    assert any(f.title == "Viscous and Coulomb friction suffice" for f in chosen.verdict.findings)


def test_friction_is_chosen_joint_by_joint(tmp_path: Path) -> None:
    true = BODIES + Coulomb(WIDTH, ("joint1",)) + Sigmoid((4.0,), (0.2,), ("joint2",)) + Offset()
    theta = parameters(ROBOT, true, rotor_inertia=0.2, viscous=0.5, coulomb=1.5, sigmoid=3.0, offset=0.2)
    log = write(tmp_path / "mixed.parquet", true, theta, 40.0, 5, 0.05)
    unseen = write(tmp_path / "unseen.parquet", true, theta, 15.0, 6, 0.05)
    model = RigidBody() + RotorInertia() + FrictionChoice(("sigmoid", "presliding"))
    found = identify(ROBOT, log, replace(SETTINGS, terms=model), validation=unseen)
    assert [c.chosen for c in found.choices] == ["coulomb", "sigmoid"]
    values = {s.name: s.value for s in found.shapes}
    assert values["slope2"] == pytest.approx(4.0, rel=0.1)
    assert values["shift2"] == pytest.approx(0.2, rel=0.2)
    rival = BODIES + Coulomb(WIDTH) + Offset()
    plain = identify(ROBOT, log, replace(SETTINGS, terms=rival), validation=unseen)
    better, worse = (validate(one, unseen).scores.rms[1] for one in (found, plain))
    assert better < 0.3 * worse


def test_a_memory_is_found_and_survives_windows(tmp_path: Path) -> None:
    true = BODIES + Presliding((0.02, 0.04)) + Offset()
    theta = parameters(ROBOT, true, rotor_inertia=0.2, viscous=0.5, presliding=2.0, offset=0.2)
    log = write(tmp_path / "memory.parquet", true, theta, 70.0, 8, 0.02)
    model = BODIES + Presliding() + Offset()
    found = identify(ROBOT, log, replace(SETTINGS, terms=model), validation=log)
    for shape, distance in zip(found.shapes, (0.02, 0.04), strict=True):
        assert shape.value == pytest.approx(distance, rel=0.05)
    assert found.training.scores.total_relative < 0.02


@pytest.mark.parametrize("load", [0.1, pytest.param(0.5, marks=pytest.mark.slow), 0.9])
def test_the_load_may_be_that_of_the_bodies_that_are_sought(load: float, tmp_path: Path) -> None:
    prior = tuple(np.ravel(ROBOT.inertia_prior).tolist())
    true = BODIES + Coulomb(WIDTH) + LoadFriction(inertia=prior) + Offset()
    theta = parameters(
        ROBOT, true, rotor_inertia=0.2, viscous=0.5, coulomb=1.5, load_friction=load, offset=0.2
    )
    unknown = replace(ROBOT, inertia_prior=np.full_like(ROBOT.inertia_prior, np.nan))
    model = BODIES + Coulomb(WIDTH) + LoadFriction("estimate") + Offset()
    for noise, seconds in ((0.0, 20.0), (0.02, 40.0)):
        log = write(tmp_path / f"load{noise}.parquet", true, theta, seconds, 9, noise)
        found = identify(unknown, log, replace(SETTINGS, terms=model), validation=log)
        names = [c.name for c in found.estimate.columns]
        share = found.estimate.full_vector[[names.index("fl1"), names.index("fl2")]]
        np.testing.assert_allclose(share, load, atol=0.03 if noise else 1e-3)
        used = next(t for t in found.terms if isinstance(t, LoadFriction))
        assert len(used.inertia) == 20


def test_an_open_choice_inside_another_term_is_refused(log: Log) -> None:
    for inner in (FrictionChoice(), LoadFriction("estimate")):
        with pytest.raises(UsageError, match="open choice inside"):
            identify(ROBOT, log, replace(SETTINGS, terms=RigidBody() + OnMotor(inner)))


@pytest.mark.parametrize(("form", "true"), [(Stribeck(), (0.7, 1.4)), (Presliding(), (0.03, 0.06))])
def test_shapes_at_motors_that_move_several_joints(
    form: Stribeck | Presliding, true: tuple[float, float], tmp_path: Path
) -> None:
    """Each motor's friction is felt at all joints that it moves; shapes are the motors' own."""
    N = np.array([[4.0, 1.5], [0.0, -3.0]])
    robot = replace(ROBOT, drive=replace(ROBOT.drive, transmission=N))
    name = form.shapes[0].name
    dry = () if isinstance(form, Presliding) else (OnMotor(Coulomb(3 * WIDTH)),)
    plain = RigidBody() + MotorInertia() + Terms((OnMotor(Viscous()), *dry)) + Offset()
    known = plain + OnMotor(with_shape_table(form, np.array(true)[:, None]))
    sizes = {"motor_inertia": 0.02, "viscous": 0.02, "coulomb": 0.3, form.name: 0.5, "offset": 0.2}
    theta = np.array(
        [sizes.get(getattr(term, "of", term).name, c.prior) for term in known for c in term.columns(robot)]
    )
    samples = smooth_samples(robot, 8000, 3, 200.0)
    torque = known.torque(robot, samples, theta)
    tau = torque + 0.05 * np.random.default_rng(5).normal(0, 1, torque.shape)
    write_log(
        tmp_path / "l.parquet", samples.t, canonical_columns(robot.joint_names, samples.q, samples.dq, tau)
    )
    settings = replace(SETTINGS, terms=plain + OnMotor(form))
    log = read_log(tmp_path / "l.parquet", robot)
    found = identify(robot, log, settings, validation=log, threads=1)
    assert [one.name for one in found.shapes] == [f"{name}m1", f"{name}m2"]
    assert {one.unit for one in found.shapes} == {form.shapes[0].unit_revolute}
    for one, value in zip(found.shapes, true, strict=True):
        assert one.value == pytest.approx(value, rel=0.1)
        assert abs(one.value - value) < 4 * one.std


def test_scales_go_there_and_back() -> None:
    motion = JointMotion(1.2, 0.3, 2.0)
    for term in (Sigmoid(), Stribeck(), Presliding()):
        scale = Scale.of(term, motion, np.ones(len(term.shapes), dtype=np.bool_))
        for u in (np.zeros(len(term.shapes)), np.full(len(term.shapes), 0.37), np.ones(len(term.shapes))):
            np.testing.assert_allclose(scale.unit(scale.value(u)), u, atol=1e-12)
            assert (scale.value(u) >= scale.low * (1 - 1e-12) - 1e-12).all()


def test_the_simplest_within_one_standard_error_is_chosen() -> None:
    counts = np.full(20, 10.0)
    rng = np.random.default_rng(0)
    base = rng.uniform(1.0, 2.0, 20)
    simple = Candidate("simple", 2, base)
    a_bit = Candidate("a bit", 3, base - 0.01 + 0.2 * rng.normal(0, 1, 20))
    much = Candidate("much", 4, 0.5 * base)
    assert compare([simple, a_bit], counts).winner.name == "simple"
    assert compare([simple, a_bit, much], counts).winner.name == "much"
    share, std = gain(base, much.squares, counts)
    assert share == pytest.approx(0.5)
    assert share > std


def test_a_standard_error_is_that_of_independent_blocks() -> None:
    rng = np.random.default_rng(1)
    sums = rng.normal(0, 3.0, (4000, 30))
    errors = [standard_error(row, np.full(30, 7.0)) for row in sums]
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(np.std(sums.sum(axis=1)), rel=0.05)
