"""Models of terms in compiled steps: what the native kernel does with them is what NumPy does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dynid.base import Float
from dynid.kernel import using
from dynid.kernel.multibody import Slope
from dynid.robot import RobotModel
from dynid.signals import Samples
from dynid.simulation import Feedback, Mechanism, Output, Stretches, run, sensitivity
from dynid.terms import (
    Coulomb,
    JointDamping,
    Kind,
    LinkCoulomb,
    Offset,
    RigidBody,
    RotorInertia,
    Stiffness,
    Terms,
    Viscous,
)
from tests.simulate.robots import geared

pytestmark = pytest.mark.usefixtures("native_kernel")
TERMS = Terms((RigidBody(), RotorInertia(), Viscous(), Coulomb(0.05), Offset()))


def mechanism(robot: RobotModel, elastic: bool) -> Mechanism:
    terms = TERMS
    if elastic:
        terms = Terms((*TERMS, Stiffness(), JointDamping(), LinkCoulomb(0.1)))
    rng = np.random.default_rng(2)
    theta = np.concatenate([
        robot.inertia_prior.ravel() if term.traits.kind is Kind.BODIES else rng.uniform(0.2, 0.9, robot.n)
        for term in terms
    ])  # fmt: skip
    names = [column.term for column in terms.columns(robot)]
    theta[[name == "stiffness" for name in names]] = 400.0
    return Mechanism(robot, terms, theta, tuple(range(robot.n)) if elastic else ())


def samples(robot: RobotModel, T: int = 60) -> Samples:
    t = np.arange(T) / 200.0
    q = 0.3 * np.sin(2 * np.pi * np.outer(t, np.linspace(0.8, 1.9, robot.n)))
    dq, ddq = np.gradient(q, t, axis=0), np.gradient(np.gradient(q, t, axis=0), t, axis=0)
    made = Samples.from_motion(q, dq, ddq, rate=200.0)
    tau = np.random.default_rng(0).normal(0.0, 3.0, (4, robot.n))
    smooth = np.array([np.interp(t, np.linspace(0, t[-1], 4), column) for column in tau.T]).T
    return replace(made, tau=smooth, theta=q, dtheta=dq, ddtheta=ddq)


@pytest.mark.parametrize("elastic", [False, True])
def test_equations_are_those_of_the_terms(elastic: bool) -> None:
    one = mechanism(geared(4, 3), elastic)
    x, v = np.random.default_rng(1).normal(0.0, 0.6, (2, 5, one.size))
    assert one.multibody is not None
    for found, expected in zip(one.multibody.equations(x, v), one.equations(x, v, {}), strict=True):
        assert_allclose(found, expected, rtol=0, atol=1e-9)


def outputs(size: int) -> tuple[Output, Output]:
    """All positions, and a mixture of position and velocity of some coordinates."""
    at = np.arange(size)[::-2]
    return Output.positions(size), Output(at, np.linspace(-3.0, 2.0, len(at)), np.ones(len(at)))


@pytest.mark.parametrize(
    ("elastic", "known"), [(False, ()), (True, ()), (True, ("stiffness", "joint_damping"))]
)
def test_runs_and_slopes_are_those_of_numpy(elastic: bool, known: tuple[str, ...]) -> None:
    """Springs that are sought have slopes from differences of the terms; others are known to the compiled step."""
    robot = geared(4, 3)
    log, feedback = samples(robot), Feedback(np.full(3, 30.0), np.full(3, 6.0))
    stretches = Stretches.of(len(log), 13, 5, 3)
    found = []
    for kernel in ("native", "numpy"):
        with using(kernel):
            one = mechanism(robot, elastic)
            made = run(one, log, feedback, stretches)
            wanted = np.array([column.term not in known for column in one.terms.columns(robot)])
            assert (one.parameters(wanted) is None) == (elastic and not known)
            slopes = (
                sensitivity(one, made, {}, feedback, 200.0, wanted, True, output)
                for output in outputs(one.size)
            )
            found.append((made.x, made.v, *slopes))
    size = (1.0, 10.0, 1.0, 10.0)
    for a, b, scale in zip(*found, size, strict=True):
        assert np.abs(a).max() > 1e-3
        assert_allclose(a, b, rtol=1e-7, atol=1e-8 * scale)


def test_slopes_of_a_model_are_those_of_differences() -> None:
    one = mechanism(geared(4, 3), True)
    x, v, a = np.random.default_rng(1).normal(0.0, 0.6, (3, 4, one.size))

    def differences(move: int) -> Float:
        found = np.zeros((4, one.size, one.size))
        for i in range(one.size):
            shift = 1e-6 * np.eye(one.size)[i]
            ahead, behind = ((x + d, v) if move == 0 else (x, v + d) for d in (shift, -shift))
            found[:, :, i] = (one.force(*ahead, a, {}) - one.force(*behind, a, {})) / 2e-6
        return found

    for move, slope in enumerate(one.slopes(x, v, a, {})):
        assert_allclose(slope, differences(move), rtol=1e-6, atol=1e-5)


def test_parameters_are_recognised_by_what_they_do() -> None:
    one = mechanism(geared(4, 3), False)
    found = one.parameters(np.ones(len(one.theta), dtype=np.bool_))
    assert found is not None
    kinds = [parameter.kind for parameter in found]
    assert kinds == [
        *[Slope.BODY] * 30, *[Slope.ACCELERATION] * 3, *[Slope.VELOCITY] * 3, *[Slope.SIGN] * 3, *[Slope.ONE] * 3
    ]  # fmt: skip
