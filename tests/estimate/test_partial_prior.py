"""What a description knows, knows nothing of or has wrong: on arms that are simulated by pinocchio."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest

from dynid.base import Diagnostics, Float
from dynid.estimate import (
    MAP,
    WLS,
    Estimate,
    FeasibleFit,
    Regression,
    Ridge,
    project_to_physical,
    regression_of,
)
from dynid.estimate.feasible import weighted_rows
from dynid.estimate.posterior import Prior
from dynid.factor import Assembly, Blocking, structural_base
from dynid.feasible import (
    Convex,
    PhysicalBodies,
    Setting,
    TotalMass,
    body_columns,
    least_eigenvalues,
    least_squares_within,
)
from dynid.feasible.problem import BARRIER_WEIGHT
from dynid.identification import default_estimator
from dynid.robot import load_robot
from dynid.rows import TorqueRows
from dynid.signals import ParallelFilter, Samples
from dynid.terms import Coulomb, Offset, RigidBody, RotorInertia, Terms, Viscous

RATE, SECONDS, NOISE = 100.0, 30.0, 0.01
LINKS = ((5.0, 0.3, "0 0 1"), (3.0, 0.3, "0 1 0"), (0.03, 0.1, "0 1 0"), (0.01, 0.05, "1 0 0"))
PLAIN = RigidBody() + RotorInertia() + Viscous() + Coulomb(width=0.05) + Offset()
FRICTION, ROTORS = np.array([0.5, 0.5, 0.02, 0.005]), np.array([0.3, 0.2, 1e-3, 1e-4])


def inertial(mass: float, length: float) -> str:
    along, across = mass * length**2 / 12 + 4e-6, mass * length**2 / 60 + 4e-6
    return (
        f'<inertial><origin xyz="{length / 2} 0.01 0"/><mass value="{mass}"/><inertia ixx="{across}" ixy="0" ixz="0" '
        f'iyy="{along}" iyz="0" izz="{along}"/></inertial>'
    )


def arm(known: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0)) -> str:
    """An arm whose wrist weighs 40 g.    known: the description's masses over the true ones; nan = it has none."""
    parts, at, carrier = [], 0.0, "base"
    for i, ((mass, length, axis), factor) in enumerate(zip(LINKS, known, strict=True)):
        own = inertial(factor * mass, length) if np.isfinite(factor) else ""
        parts.append(
            f'<link name="l{i}">{own}</link><joint name="j{i}" type="revolute"><parent link="{carrier}"/>'
            f'<child link="l{i}"/><origin xyz="{at} 0 0"/><axis xyz="{axis}"/>'
            '<limit lower="-3" upper="3" velocity="9" effort="99"/></joint>'
        )
        carrier, at = f"l{i}", length
    return f'<robot name="arm"><link name="base"/>{"".join(parts)}</robot>'


def torque(q: Float, dq: Float, ddq: Float, lost: Float, cogging: float = 0.01) -> Float:
    """With rotors less `lost`, viscous and dry friction, and cogging of so large a share that no model knows."""
    model = pin.buildModelFromXML(arm())
    data = model.createData()
    tau = np.array([pin.rnea(model, data, *motion) for motion in zip(q, dq, ddq, strict=True)])
    tau += (ROTORS - lost) * ddq + FRICTION * (dq + 2.0 * np.tanh(dq / 0.05))
    return np.asarray(tau + cogging * np.sqrt((tau**2).mean(axis=0)) * np.sin(5 * q))


def regression(
    folder: Path,
    text: str,
    terms: Terms = PLAIN,
    seed: int = 0,
    lost: Float | None = None,
    cogging: float = 0.01,
) -> Regression:
    path = folder / "arm.urdf"
    path.write_text(text)
    robot, rng = load_robot(path, diagnostics=Diagnostics()), np.random.default_rng(seed)
    t = np.arange(round(SECONDS * RATE)) / RATE
    speed = 2 * np.pi * rng.uniform(0.1, 0.5, (robot.n, 3))
    size, phase = rng.uniform(0.2, 0.5, (robot.n, 3)), rng.uniform(0, 6, (robot.n, 3))
    angle = t[:, None, None] * speed + phase
    q, dq = (size * np.sin(angle)).sum(-1), (size * speed * np.cos(angle)).sum(-1)
    ddq = -(size * speed**2 * np.sin(angle)).sum(-1)
    tau = torque(q, dq, ddq, np.zeros(robot.n) if lost is None else lost, cogging)
    tau += NOISE * np.sqrt((tau**2).mean(axis=0)) * rng.normal(size=tau.shape)
    structural = structural_base(robot, terms, TorqueRows())
    parallel = ParallelFilter(RATE, 8.0, decimation=2)
    assembly = Assembly(robot, terms, TorqueRows(), structural.mask, parallel, Blocking(SECONDS / 20))
    factors = assembly.factors([Samples.from_motion(q, dq, ddq, tau, rate=RATE)])
    return regression_of(robot, terms, structural, factors)


def worst(found: Estimate, free: Estimate) -> float:
    return float((found.sigma / free.sigma).max())


def masses(found: Estimate) -> Float:
    return found.parameters[body_columns(found.columns)[:, 0]]


UNKNOWN = float("nan")


DESCRIBED = [(1.1, 0.9, UNKNOWN, UNKNOWN), (UNKNOWN,) * 4, (0.7, 1.4, 0.8, 1.5)]


@pytest.mark.parametrize("known", DESCRIBED)
def test_an_estimate_that_fulfils_the_constraints_is_the_answer(
    tmp_path: Path, known: tuple[float, ...]
) -> None:
    case = regression(tmp_path, arm(known))
    constrained, probable = FeasibleFit(margin=1e-12, density=1e6).fit(case), MAP().fit(case)
    np.testing.assert_array_equal(constrained.parameters, probable.parameters)
    np.testing.assert_allclose(constrained.std, probable.std, rtol=1e-6)
    np.testing.assert_array_equal(constrained.link_widths, probable.link_widths)
    assert least_eigenvalues(case.columns, constrained.parameters).min() > 0


@pytest.mark.parametrize("known", DESCRIBED)
def test_the_linear_prior_has_its_optimum_at_the_most_probable_estimate(
    tmp_path: Path, known: tuple[float, ...]
) -> None:
    case = regression(tmp_path, arm(known))
    probable = MAP().probable(case, WLS().fit(case))
    A, y = weighted_rows(case, case.factors, probable.fit.weights)
    for strength in (1.0, 30.0):
        near = probable.near(A, y, strength)
        theta, rows = near.parameters(), near.prior_rows()
        gradient = A.T @ (A @ theta - y) + rows[:, :-1].T @ (rows[:, :-1] @ theta - rows[:, -1])
        # Only parameters at a bound are pushed, and outwards.
        at_bound = np.array(
            [column.lower == value for column, value in zip(case.columns, theta, strict=True)]
        )
        curvature = (A**2).sum(axis=0) + (rows[:, :-1] ** 2).sum(axis=0)
        assert (np.abs(gradient / np.sqrt(curvature))[~at_bound] < 0.5).all()
        assert (gradient[at_bound] > 0).all()
        # The density at the estimate is that of the coordinates; the common scale of guesses is integrated out.
        square = float(np.sum((rows[:, :-1] @ theta - rows[:, -1]) ** 2))
        assert square <= near.precision @ near.fit.x**2 * (1 + 1e-9)


# Without noise and without any known mass, rounding decides where the search for the optimum ends.
@pytest.mark.parametrize("known", DESCRIBED[::2])
def test_the_answer_on_a_limit_is_that_of_the_equation(tmp_path: Path, known: tuple[float, ...]) -> None:
    """With the total mass alone at its limit the optimum is least squares with one equation."""
    case = regression(tmp_path, arm(known))
    probable = MAP().probable(case, WLS().fit(case))
    A, y = weighted_rows(case, case.factors, probable.fit.weights)
    rows = probable.prior_rows()
    A, y = np.concatenate([A, rows[:, :-1]]), np.concatenate([y, rows[:, -1]])
    theta = probable.parameters()
    total = np.zeros(len(theta))
    total[body_columns(case.columns)[:, 0]] = 1.0
    free = np.linalg.lstsq(A * case.spread, y, rcond=None)[0] * case.spread
    limit = 0.98 * float(total @ free)
    constraints: list[Convex] = [PhysicalBodies(1e-12), TotalMass(0.0, limit)]
    setting = Setting.of(case.columns, constraints, theta, case.spread)
    answer = least_squares_within(A, y, setting, theta)
    assert answer.active == (f"total mass <= {limit:g}",)
    H = np.linalg.inv((A * case.spread).T @ (A * case.spread)) * np.outer(case.spread, case.spread)
    oracle = free + H @ total * (limit - total @ free) / (total @ H @ total)
    std = np.sqrt(np.diag(H))
    # The barrier moves them by so much of a standard deviation.
    np.testing.assert_allclose(answer.parameters / std, oracle / std, atol=BARRIER_WEIGHT)


def test_strength_multiplies_the_precision_of_the_prior(tmp_path: Path) -> None:
    wrong = (1.1, 0.9, 1.0, 1.2)
    case = regression(tmp_path, arm(wrong))
    described = np.array([case.columns[ten[0]].prior for ten in body_columns(case.columns)])
    fits = [FeasibleFit(strength=strength).fit(case) for strength in (1e-3, 1.0, 1e6)]
    away = [np.linalg.norm(masses(fit) / described - 1.0) for fit in fits]
    assert away[2] < 0.02 < away[1]
    shares = [fit.prior_share.mean() for fit in fits]
    assert shares[0] < shares[1] < shares[2]
    assert [fit.prior_strength for fit in fits] == [1e-3, 1.0, 1e6]
    np.testing.assert_allclose(fits[0].link_widths, np.sqrt(1e3) * fits[1].link_widths)
    # Values of earlier versions, which chose the strength by rules.
    for former in ("held-out", "l-curve"):
        np.testing.assert_array_equal(FeasibleFit(strength=former).fit(case).value, fits[1].value)


def test_ridge_leaves_unknown_bodies_free_as_well(tmp_path: Path) -> None:
    case = regression(tmp_path, arm((1.0, 1.0, UNKNOWN, UNKNOWN)))
    assert worst(Ridge(strength=1e4).fit(case), WLS().fit(case)) < 1.03


def test_what_the_data_leave_free_is_the_description(tmp_path: Path) -> None:
    """A rotor of unknown inertia takes what the bodies would otherwise be bent for."""
    case = regression(tmp_path, arm())
    true = np.array([mass for mass, _, _ in LINKS])
    # An exact prior draws masses within its width, which is what is known of them without a log.
    for estimator in (default_estimator(), FeasibleFit()):
        np.testing.assert_allclose(masses(estimator.fit(case)), true, rtol=MAP().mass)


@pytest.mark.parametrize("wrong", [(1.1, 1.0, 1.0, 1.0), (0.7, 1.4, 0.8, 1.5)])
def test_what_no_equation_holds_is_the_description(tmp_path: Path, wrong: tuple[float, ...]) -> None:
    case = regression(tmp_path, arm(wrong))
    free = WLS().fit(case)
    constrained, probable = FeasibleFit().fit(case), default_estimator().fit(case)
    # The inertia about the first axis is shared with a rotor. Mass and size move with it by less than their prior
    # widths, which are one coordinate each: the log says nothing of them alone.
    for estimate in (constrained, probable):
        assert np.abs(Prior.of(MAP(), case).coordinates(estimate.parameters)[:10]).max() < 1.0
    # What the data know of the others is theirs: the description's mistake is not.
    for estimate in (constrained, probable):
        assert worst(estimate, free) < 1.1


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("wanted", [default_estimator(), FeasibleFit()], ids=["default", "feasible"])
def test_an_exact_description_costs_nothing_and_is_not_blamed(
    tmp_path: Path, wanted: MAP | FeasibleFit, seed: int
) -> None:
    case = regression(tmp_path, arm(), seed=seed)
    free, said = WLS().fit(case), Diagnostics()
    real, _ = project_to_physical(wanted, case, free, said)
    assert not said.warnings
    assert real.method == wanted.name
    assert worst(real, free) < 1.1


def test_the_pull_of_a_wrong_description_is_called_so(tmp_path: Path) -> None:
    case = regression(tmp_path, arm((3.0, 0.3, 10.0, 0.1)))
    free, said = WLS().fit(case), Diagnostics()
    strong, _ = project_to_physical(FeasibleFit(strength=1e5), case, free, said)
    (warning,) = said.warnings
    assert warning.identifier == "constraints-cost"
    assert "(strength = 100000)" in warning.text
    # The prior of strength 1 gives way, and there is nothing to report.
    said = Diagnostics()
    real, _ = project_to_physical(FeasibleFit(), case, free, said)
    assert not said.warnings
    assert worst(real, free) < worst(strong, free)
    # The prior of the default gives way: torque is fitted, and only descriptions that the log contradicts are named.
    said = Diagnostics()
    probable, _ = project_to_physical(default_estimator(), case, free, said)
    assert {warning.identifier for warning in said.warnings} <= {"description-contradicted"}
    assert worst(probable, free) < 1.1


def test_the_joint_that_links_cannot_explain_is_named(tmp_path: Path) -> None:
    """The third drive alone cancels some of the wrist's inertia."""
    case = regression(tmp_path, arm(), lost=np.array([0.0, 0.0, 0.0015, 0.0]), cogging=0.05)
    free, said = WLS().fit(case), Diagnostics()
    real, _ = project_to_physical(default_estimator(), case, free, said)
    assert real.method == default_estimator().name
    (warning,) = said.warnings
    assert warning.identifier == "consistency-costs"
    ratio = real.sigma / free.sigma
    assert case.factors.group_names[int(np.argmax(ratio))] == "j2"
    assert f"error of 'j2' by {100 * (ratio.max() - 1):.2g} %" in warning.text
    assert least_eigenvalues(real.columns, real.parameters).min() > 0


@pytest.mark.parametrize(
    "wanted", [default_estimator(), FeasibleFit(strength=1.0)], ids=["default", "feasible"]
)
def test_links_that_no_model_without_rotors_has_are_reported_with_their_cost(
    tmp_path: Path, wanted: MAP | FeasibleFit
) -> None:
    """A drive that cancels more inertia than the wrist has: only an impossible wrist can stand for that."""
    case = regression(tmp_path, arm(), PLAIN, lost=np.array([0.0, 0.0, 0.05, 0.01]))
    free, said = WLS().fit(case), Diagnostics()
    real, _ = project_to_physical(wanted, case, free, said)
    # Impossible links predict such a log better, and still do not take the place of those that were fitted.
    assert real.method == wanted.name
    assert least_eigenvalues(real.columns, real.parameters).min() > 0
    text = {item.identifier: item.text for item in said.warnings}
    if isinstance(wanted, FeasibleFit):
        assert list(text) == ["constraints-cost"]
        assert "active constraints: " in text["constraints-cost"]
        assert "Ia" in text["constraints-cost"]
    else:
        assert "raises the torque error of" in text["consistency-costs"]
