"""What a description knows, knows nothing of or has wrong: on arms that are simulated by pinocchio."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest

from dynid.base import Diagnostics, Float
from dynid.estimate import (
    WLS,
    Estimate,
    FeasibleFit,
    Regression,
    Ridge,
    inertia_known,
    project_to_physical,
    regression_of,
)
from dynid.estimate.feasible import HELD_OUT_GROWTH, MOVED
from dynid.estimate.posterior import MAP, Prior
from dynid.estimate.prior import FREE_SHARE, Directions, prior_pull
from dynid.factor import Assembly, Blocking, Category, structural_base
from dynid.feasible import body_columns, least_eigenvalues
from dynid.identification import default_estimator
from dynid.robot import load_robot
from dynid.rows import TorqueRows
from dynid.signals import ParallelFilter, Samples
from dynid.terms import Coulomb, Of, Offset, RigidBody, RotorInertia, Terms, Viscous

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


@pytest.mark.parametrize(
    ("known", "strength"),
    [
        ((1.1, 0.9, UNKNOWN, UNKNOWN), 1e4),
        ((UNKNOWN,) * 4, "held-out"),
        pytest.param((1.1, 0.9, UNKNOWN, UNKNOWN), "held-out", marks=pytest.mark.slow),
        pytest.param((UNKNOWN,) * 4, 1e4, marks=pytest.mark.slow),
    ],
)
def test_unknown_bodies_stay_free_beside_known_ones(
    tmp_path: Path, known: tuple[float, ...], strength: float | str
) -> None:
    case = regression(tmp_path, arm(known))
    free = WLS().fit(case)
    found = FeasibleFit(strength=strength, prior="entropic").fit(case)
    wrist = np.array([name in ("j2", "j3") for name in case.factors.group_names])
    assert (found.sigma / free.sigma)[wrist].max() < 1.03
    if strength == "held-out":
        assert worst(found, free) < 1.03
    assert least_eigenvalues(found.columns, found.parameters).min() > 0
    pull = prior_pull(inertia_known(case.columns), 100.0)
    assert {float(pull[c]) for c, column in enumerate(case.columns) if np.isnan(column.prior)} == {1.0}


def test_ridge_leaves_unknown_bodies_free_as_well(tmp_path: Path) -> None:
    case = regression(tmp_path, arm((1.0, 1.0, UNKNOWN, UNKNOWN)))
    assert worst(Ridge(strength=1e4).fit(case), WLS().fit(case)) < 1.03


def test_what_the_data_leave_free_is_the_description(tmp_path: Path) -> None:
    """A rotor of unknown inertia takes what the bodies would otherwise be bent for."""
    case = regression(tmp_path, arm())
    true = np.array([mass for mass, _, _ in LINKS])
    np.testing.assert_allclose(masses(FeasibleFit().fit(case)), true, rtol=0.02)
    # An exact prior draws masses within its width, which is what is known of them without a log.
    np.testing.assert_allclose(masses(default_estimator().fit(case)), true, rtol=MAP().mass)


@pytest.mark.parametrize("wrong", [(1.1, 1.0, 1.0, 1.0), (0.7, 1.4, 0.8, 1.5)])
def test_what_no_equation_holds_is_the_description(tmp_path: Path, wrong: tuple[float, ...]) -> None:
    case = regression(tmp_path, arm(wrong))
    unseen = [
        i
        for i, (column, kind) in enumerate(zip(case.columns, case.base.categories(), strict=True))
        if kind is Category.NOT_IDENTIFIABLE and column.of is Of.BODY
    ]
    assert {"m1", "mcx1", "mcy1", "mcz1"} <= {case.columns[i].name for i in unseen}
    described = np.array([case.columns[i].prior for i in unseen])
    free = WLS().fit(case)
    constrained, probable = FeasibleFit().fit(case), default_estimator().fit(case)
    # Constrained least squares keep them to rounding.
    np.testing.assert_allclose(constrained.parameters[unseen], described, rtol=1e-6, atol=1e-6 * wrong[0])
    # The inertia about the first axis is shared with a rotor. Mass and size move with it by less than their prior
    # widths, which are one coordinate each: the log says nothing of them alone.
    first = Prior.of(MAP(), case).coordinates(probable.parameters)[:10]
    assert np.abs(first).max() < 1.0
    # What the data know of the others is theirs: the description's mistake is not.
    for estimate in (constrained, probable):
        assert worst(estimate, free) < 1.1


@pytest.mark.parametrize("cogging", [0.01, 0.15])
@pytest.mark.parametrize("wrong", [(1.0,) * 4, (0.7, 1.4, 0.8, 1.5)])
def test_masses_that_the_data_do_not_ask_for_stay_and_cost_nothing(
    tmp_path: Path, wrong: tuple[float, ...], cogging: float
) -> None:
    case = regression(tmp_path, arm(wrong), cogging=cogging)
    free = WLS().fit(case)
    fit = FeasibleFit().resolved(case, free)[0]
    assert fit.mass_share > 0
    held, left = (replace(fit, mass_share=share).solution(case, free)[0] for share in (fit.mass_share, 0.0))
    described = np.array([case.columns[ten[0]].prior for ten in body_columns(case.columns)])
    away = [np.linalg.norm(masses(one) / described - 1.0) for one in (held, left)]
    assert away[0] < away[1]
    # Within what the data know: less than their standard errors, joint by joint no worse, and better still if the
    # description is right.
    moved = (held.value - left.value) / free.std
    assert np.sqrt(np.mean(moved**2)) < 1.2 * MOVED
    assert (held.sigma / left.sigma).max() < 1.0 + 2 * HELD_OUT_GROWTH
    if wrong == (1.0,) * 4:
        np.testing.assert_allclose(masses(held), described, rtol=0.1)


def test_directions_that_the_data_barely_know_stay_where_they_know_least(tmp_path: Path) -> None:
    case = regression(tmp_path, arm())
    A = np.random.default_rng(0).normal(size=(len(case.columns) - 3, len(case.columns)))
    U, s, V = np.linalg.svd(A, full_matrices=True)
    equations = 10000
    F = FREE_SHARE * equations
    s = np.sqrt(F) * np.linspace(100.0, 10.0, len(s))
    s[-2:] = np.sqrt(F) * np.array([1.0, 0.01])
    rows = Directions.of((U * s) @ V[: len(s)] / case.spread, case.spread).rows(equations, 1.0)
    pull = np.sum((rows @ (V * case.spread).T) ** 2, axis=0)
    np.testing.assert_allclose(pull[-3:], F, rtol=1e-6)
    np.testing.assert_allclose(pull[[len(s) - 2, len(s) - 1]], [F / 4, F], rtol=1e-3)
    assert (pull[: len(s) - 2] < 2e-4 * s[:-2] ** 2).all()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("wanted", [default_estimator(), FeasibleFit()], ids=["default", "feasible"])
def test_an_exact_description_costs_nothing_and_is_not_blamed(
    tmp_path: Path, wanted: MAP | FeasibleFit, seed: int
) -> None:
    case = regression(tmp_path, arm(), seed=seed)
    free, said = WLS().fit(case), Diagnostics()
    real, estimator = project_to_physical(wanted, case, free, said)
    assert not said.warnings
    assert real.method == wanted.name
    assert worst(real, free) < 1.1
    # What held-out blocks chose is kept for whatever is fitted next.
    assert not isinstance(estimator, FeasibleFit) or isinstance(estimator.strength, float)


def test_the_pull_of_a_wrong_description_is_called_so(tmp_path: Path) -> None:
    case = regression(tmp_path, arm((3.0, 0.3, 10.0, 0.1)))
    free, said = WLS().fit(case), Diagnostics()
    strong, _ = project_to_physical(FeasibleFit(strength=1e5, prior="entropic"), case, free, said)
    (warning,) = said.warnings
    assert warning.identifier == "constraints-cost"
    assert "(strength = 100000)" in warning.text
    # Chosen on held-out blocks it is weak, and there is nothing to report.
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
    assert f"{100 * (ratio.max() - 1):.2g} % more torque of 'j2'" in warning.text
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
        assert "more torque of" in text["consistency-costs"]
