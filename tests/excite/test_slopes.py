"""Every kind of term: the derivatives of its lines by motion, how few regressors they take, and what memory becomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from dynid.base import Bool, Float
from dynid.excitation import Bounds, MotionLimits, Task, TorqueSpread, information_of, prior_theta
from dynid.excitation.design import Problem, draws
from dynid.excitation.gradient import MotionGradient, TermLines
from dynid.excitation.plan import design_terms
from dynid.kernel import Panels
from dynid.robot import RobotModel, load_example
from dynid.signals import Samples
from dynid.terms import (
    AsymmetricCoulomb,
    Compliance,
    Coulomb,
    GainError,
    GravityTilt,
    JointCoupling,
    LoadFriction,
    Offset,
    PolynomialFriction,
    PositionFriction,
    PositionWaves,
    Presliding,
    RigidBody,
    RotorInertia,
    Sigmoid,
    SmoothCoulomb,
    Stribeck,
    Term,
    TorqueDelay,
    TorsionSpring,
    Viscous,
    ZolloFriction,
    without_memory,
)
from dynid.terms.friction_curves import SaturatingViscous
from dynid.terms.zero_offset import ZeroOffset
from dynid.trajectories import FourierBasis

ROBOT = load_example("arm7")
FIRST, SECOND = ROBOT.joint_names[:2]
DRIVES = tuple(np.linspace(0.1, 1.0, 4 * ROBOT.n))
KINDS: Mapping[str, Term] = {
    one.name: one
    for one in (
        RotorInertia(),
        Viscous(),
        Coulomb(0.1),
        Offset(),
        AsymmetricCoulomb(0.1),
        PolynomialFriction((3,), limit=(1e6,) * ROBOT.n),
        SmoothCoulomb(0.1),
        Presliding(1e-3, width=0.1),
        Stribeck(0.2, width=0.1),
        Sigmoid(20.0, 0.1),
        ZolloFriction(0.3, 3.0, width=0.1),
        SaturatingViscous(0.5),
        PositionFriction(2.0, 0.1),
        # Of one joint whose load keeps its sign in what follows: its size has an edge at zero.
        LoadFriction(width=0.1, joints=(SECOND,)),
        JointCoupling((SECOND,), (FIRST,), 0.1),
        TorsionSpring((FIRST, SECOND)),
        PositionWaves(),
        GravityTilt(),
        GainError(drives=DRIVES),
        ZeroOffset(),
    )
}
# Half steps, for differences of fourth order.
STEPS = {1: 8.0, 2: -1.0}


def motion(seed: int = 0, count: int = 30) -> list[Float]:
    # Slow enough that friction of low speed is there, and at no speed where a curve has an edge.
    rng = np.random.default_rng(seed)
    q, dq, ddq = rng.normal(size=(3, count, ROBOT.n))
    return [q, np.sign(dq) * (0.02 + 0.3 * np.abs(dq)), ddq]


@pytest.mark.parametrize("name", KINDS)
def test_slopes_agree_with_central_differences(name: str) -> None:
    term = without_memory(KINDS[name])
    terms = RigidBody() + term
    chain, at = MotionGradient(ROBOT, terms), motion()
    wanted = np.ones(len(terms.columns(ROBOT)), dtype=np.bool_)
    layout, lines = chain.regressor(*at, wanted)
    rng = np.random.default_rng(1)
    weights, e = rng.normal(size=lines.shape), rng.normal(size=at[0].shape)
    # Of the term alone: bodies would hide it.
    weights[np.concatenate(layout.columns) < 10 * ROBOT.n_bodies] = 0.0
    found = chain.of_lines(*at, layout, lines, weights)
    step = 1e-4
    for kind in range(3):
        slope = 0.0
        for half, share in STEPS.items():
            for sign in (1.0, -1.0):
                moved = [x + sign * half * step * e * (k == kind) for k, x in enumerate(at)]
                slope += (
                    sign * share / (12.0 * step) * float((weights * chain.regressor(*moved, wanted)[1]).sum())
                )
        size = float(np.abs(found[kind] * e).sum())
        assert float((found[kind] * e).sum()) == pytest.approx(slope, rel=1e-6, abs=1e-6 * size + 1e-9)


@pytest.mark.parametrize("term", [Compliance(), TorqueDelay(each=True)], ids=lambda term: term.name)
def test_what_differentiates_along_time_has_neither_torque_nor_slopes_in_a_design(term: Term) -> None:
    terms = design_terms(RigidBody() + Viscous() + term, ROBOT)
    chain, at = MotionGradient(ROBOT, terms), motion()
    theta = np.random.default_rng(2).normal(size=len(terms.columns(ROBOT)))
    torque, slopes = chain.of_torque(*at, theta)
    plain = theta[: len(theta) - len(term.columns(ROBOT))]
    same, known = MotionGradient(ROBOT, RigidBody() + Viscous()).of_torque(*at, plain)
    np.testing.assert_array_equal(torque, same)
    np.testing.assert_array_equal(slopes, known)
    step, e = 1e-6, np.random.default_rng(3).normal(size=at[0].shape)
    for kind in range(3):
        ends = [
            chain.of_torque(*(x + s * step * e * (k == kind) for k, x in enumerate(at)), theta)[0]
            for s in (1.0, -1.0)
        ]
        slope = np.einsum("tab,ta->tb", slopes[kind], e)
        found = (ends[0] - ends[1]) / (2.0 * step)
        np.testing.assert_allclose(slope, found, rtol=1e-6, atol=1e-6 * np.abs(found).max())
    wanted = np.ones(len(theta), dtype=np.bool_)
    layout, _ = chain.regressor(*at, wanted)
    assert np.concatenate(layout.columns).max() < len(plain)


def test_a_motion_is_shifted_at_once_where_lines_depend_on_joints_of_their_own() -> None:
    assert len(TermLines.of(ROBOT, KINDS["stribeck"]).together) == 1
    assert len(TermLines.of(ROBOT, KINDS["position_friction"]).together) == 2
    assert len(TermLines.of(ROBOT, KINDS["zero_offset"]).together) <= 3 * ROBOT.n


def test_friction_with_a_memory_is_designed_as_coulomb_friction() -> None:
    terms = RigidBody() + Presliding(1e-3, (FIRST,))
    plain = RigidBody() + Coulomb(0.02, (FIRST,))
    assert design_terms(terms, ROBOT) == plain
    names = [column.name for column in terms.columns(ROBOT)]
    assert names == [column.name for column in plain.columns(ROBOT)]
    assert not information_of(ROBOT, terms).terms.remembers


class Counted:
    """Counts how often a term's regressor is asked for."""

    def __init__(self, kind: type[Term], monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls, whole = 0, kind.torque_regressor

        def counted(term: Term, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
            self.calls += 1
            return whole(term, robot, samples, wanted)

        monkeypatch.setattr(kind, "torque_regressor", counted)

    def during(self, action: Callable[[], object]) -> int:
        before = self.calls
        action()
        return self.calls - before


def test_a_search_after_a_run_asks_for_few_regressors(monkeypatch: pytest.MonkeyPatch) -> None:
    # By shifts of one value at a time it was 42 times for each of: a joint's torque limit, the torque, the criterion.
    terms = RigidBody() + Viscous() + Offset() + Presliding(1e-3) + Stribeck(0.2) + GravityTilt()
    information = information_of(ROBOT, terms)
    theta = prior_theta(ROBOT, information.terms)
    p = len(information.base.names)
    covariance = np.where(information.base.mask, np.random.default_rng(0).uniform(1e-6, 1e-4, p), 0.0)
    spread = TorqueSpread(np.diag(covariance), np.full(ROBOT.n, 0.2))
    bounds = Bounds(MotionLimits.of(ROBOT), theta, 0.0, spread=spread)
    problem = Problem(Task(FourierBasis(8.0, 3, 0.25, 1.5), information, bounds))
    x = problem.packed(draws(problem, 4, 0)[0])
    problem.objective(x), problem.constraints(x)
    for kind, at_once in ((Stribeck, 1), (GravityTilt, 0), (Presliding, 0)):
        counted = Counted(kind, monkeypatch)
        lines = 0 if kind is Presliding else 1
        assert counted.during(lambda: problem.objective(x)) == lines + at_once
        # Those of the torque, which the description gives no Stribeck friction and no lean, and of its spread.
        assert counted.during(lambda: problem.constraints(x)) == lines + at_once
