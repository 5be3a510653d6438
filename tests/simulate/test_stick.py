"""Motion under dry friction: against closed solutions of sliding and sticking, and laws that any motion keeps."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from dynid.base import Float, UsageError
from dynid.kernel import forward_dynamics
from dynid.signals import Samples
from dynid.simulation import ForwardModel, first_stretch, stick_slip
from dynid.simulation.open_loop import open_loop
from dynid.terms import Coulomb, DriveGain, KnownPayload, Offset, RigidBody, RotorInertia, Viscous
from dynid.testing import random_robot, smooth_samples

LOAD = (2.0, 0.1, -0.05, 0.2, 0.08, 0.0, 0.09, 0.0, 0.0, 0.05)


@dataclass(frozen=True)
class Blocks:
    """Masses that slide on a plane, each by itself unless a spring ties them to their start."""

    mass: Float
    friction: Float
    stiffness: float = 0.0

    def equations(self, q: Float, dq: Float) -> tuple[Float, Float]:
        M = np.tile(np.diag(self.mass), (len(q), 1, 1))
        return M, self.friction * np.sign(dq) + self.stiffness * q


def at_rest(blocks: Blocks, tau: Float, rate: float = 100.0, hold: str = "zero") -> np.ndarray:
    n = len(blocks.mass)
    return stick_slip(blocks, np.zeros(n), np.zeros(n), tau, rate, hold)  # type: ignore[arg-type,return-value]  # arrays of one block


def test_a_block_slides_to_a_stop_and_stays() -> None:
    blocks = Blocks(np.array([2.0]), np.array([3.0]))
    run = stick_slip(blocks, np.zeros(1), np.array([1.0]), np.zeros((150, 1)), 100.0, "zero")
    a, stop = 1.5, 1.0 / 1.5
    t = np.arange(150) / 100.0
    slid = np.minimum(t, stop)
    np.testing.assert_allclose(run.q[:, 0], slid - 0.5 * a * slid**2, atol=1e-9)
    assert not run.dq[t > stop].any()
    assert run.stuck[t > stop].all()
    assert not run.stuck[t < stop].any()
    assert run.diverged is None


def test_force_below_friction_moves_nothing_and_above_breaks_away() -> None:
    blocks = Blocks(np.array([2.0, 1.0]), np.array([3.0, 0.5]))
    run = at_rest(blocks, np.tile([2.9, -0.7], (200, 1)))
    assert not run.q[:, 0].any()
    t = np.arange(200) / 100.0
    np.testing.assert_allclose(run.q[:, 1], -0.5 * 0.2 * t**2, atol=1e-9)


def test_a_ramp_breaks_away_when_it_reaches_the_friction() -> None:
    blocks = Blocks(np.array([1.0]), np.array([1.0]))
    t = np.arange(400) / 200.0
    run = at_rest(blocks, t[:, None], 200.0, "linear")
    late = np.maximum(t - 1.0, 0.0)
    np.testing.assert_allclose(run.q[:, 0], late**3 / 6, atol=1e-6)


def test_an_oscillation_loses_four_friction_deflections_a_cycle() -> None:
    blocks = Blocks(np.array([1.0]), np.array([0.5]), stiffness=100.0)
    run = stick_slip(blocks, np.array([0.1]), np.zeros(1), np.zeros((4000, 1)), 1000.0, "zero")
    # Turning points 0.1, -0.09, 0.08, ... until the spring no longer overcomes friction, at 0.005 m.
    turns = run.q[1:-1, 0][np.diff(np.sign(run.dq[1:, 0])) != 0]
    for k in range(1, 9):
        assert np.abs(turns - (-1) ** k * (0.1 - 0.01 * k)).min() < 1e-4
    assert run.stuck[-1, 0]
    assert abs(run.q[-1, 0]) <= 0.005 + 1e-9


def test_a_robot_without_friction_moves_as_the_kernel_says() -> None:
    robot = random_robot(3, 4, 0.3)
    terms = RigidBody() + RotorInertia()
    rotor = np.array([0.1, 0.2, 0.3, 0.4])
    model = ForwardModel(robot, terms, np.append(robot.inertia_prior.ravel(), rotor))
    rng = np.random.default_rng(0)
    q, dq, tau = rng.normal(0, 1, (3, 6, 4))
    M, h = model.equations(q, dq)
    plain = ForwardModel(robot, terms, np.append(robot.inertia_prior.ravel(), np.zeros(4)))
    bare, bias = plain.equations(q, dq)
    np.testing.assert_allclose(M - bare, np.tile(np.diag(rotor), (6, 1, 1)), atol=1e-12)
    wanted = forward_dynamics(robot.tree, robot.inertia_prior, q, dq, tau)
    np.testing.assert_allclose(np.linalg.solve(bare, (tau - bias)[:, :, None])[:, :, 0], wanted, rtol=1e-9)
    np.testing.assert_array_equal(h, bias)


@pytest.mark.parametrize("robot", [random_robot(2, 4, 0.5), random_robot(3, 4, mimic=True)])
def test_forward_model_is_the_torque_of_the_terms(robot) -> None:  # type: ignore[no-untyped-def]  # fixtures
    terms = RigidBody() + RotorInertia() + Viscous() + Coulomb(0.1) + Offset() + KnownPayload(LOAD)
    rng = np.random.default_rng(1)
    theta = rng.normal(0, 1, len(terms.columns(robot)))
    q, dq, ddq = rng.normal(0, 1, (3, 8, robot.n))
    M, h = ForwardModel(robot, terms, theta).equations(q, dq)
    wanted = terms.torque(robot, Samples.from_motion(q, dq, ddq), theta)
    np.testing.assert_allclose(np.einsum("tij,tj->ti", M, ddq) + h, wanted, rtol=1e-9, atol=1e-9)


def test_steep_friction_shortens_the_steps() -> None:
    # Coulomb friction with a smooth sign of a width that one step a sample would jump across.
    robot = random_robot(1, 1, 0.0)
    sharp, smooth = (RigidBody() + Coulomb(width) for width in (0.0, 1e-3))
    theta = np.append(robot.inertia_prior.ravel(), 2.0)
    tau = 6.0 * np.cos(np.arange(300) * 0.05)[:, None]
    runs = [
        stick_slip(ForwardModel(robot, t, theta), np.zeros(1), np.zeros(1), tau, 100.0)
        for t in (sharp, smooth)
    ]
    assert runs[1].diverged is None
    np.testing.assert_allclose(runs[1].q, runs[0].q, atol=0.02)
    assert runs[0].stuck.any()
    assert not runs[1].stuck.any()


def test_what_moves_alike_from_sample_to_sample_repeats() -> None:
    blocks = Blocks(np.array([1.0, 2.0, 1.5]), np.array([0.5, 1.0, 0.7]), stiffness=3.0)
    tau = np.random.default_rng(0).normal(0, 2, (100, 3))
    first, second = at_rest(blocks, tau), at_rest(blocks, tau)
    np.testing.assert_array_equal(first.q, second.q)


def test_a_gain_scales_the_measured_torque() -> None:
    robot = random_robot(1, 2, 0.0)
    plain, gained = RigidBody() + Viscous(), RigidBody() + Viscous() + DriveGain()
    theta = np.concatenate([robot.inertia_prior.ravel(), [0.3, 0.2]])
    motion = smooth_samples(robot, 200, seed=3, rate=400.0)
    motion = replace(motion, tau=plain.torque(robot, motion, theta))
    halved = replace(motion, tau=0.5 * motion.tau)  # tau_true = (1 + dk) tau_nominal
    one = open_loop(robot, plain, theta, motion)
    other = open_loop(robot, gained, np.append(theta, [1.0, 1.0]), halved)
    np.testing.assert_allclose(other.q, one.q, atol=1e-12)


def test_the_first_stretch_has_no_gap() -> None:
    robot = random_robot(1, 2, 0.0)
    motion = smooth_samples(robot, 100, rate=100.0)
    keep = np.ones(100, dtype=np.bool_)
    keep[:5] = keep[40:45] = False
    found = first_stretch([replace(motion, keep=keep)], 10.0)
    np.testing.assert_array_equal(found.q, motion.q[5:40])
    np.testing.assert_array_equal(found.t, motion.t[5:40])
    assert len(first_stretch([replace(motion, keep=keep)], 0.1)) == 11


def test_refusals() -> None:
    robot = random_robot(1, 2, 0.0)
    blocks = Blocks(np.ones(1), np.ones(1))
    with pytest.raises(UsageError, match="stick-slip"):
        stick_slip(blocks, np.zeros(2), np.zeros(1), np.zeros((5, 1)), 100.0)
    with pytest.raises(UsageError, match="forward-model"):
        ForwardModel(robot, RigidBody() + Viscous(), np.zeros(3))
    with pytest.raises(UsageError, match="open-loop"):
        open_loop(robot, RigidBody() + Viscous(), np.zeros(22), smooth_samples(robot, 1))


def test_a_motion_to_the_left_is_that_to_the_right_in_a_mirror() -> None:
    """Also where a block comes to rest at a sample exactly: by powers of two nothing is rounded."""
    blocks, none = Blocks(np.array([1.0, 2.0]), np.array([1.0, 1.0])), np.zeros((150, 2))
    start = np.array([1.0, 0.5])
    right, left = (stick_slip(blocks, np.zeros(2), side * start, none, 64.0, "zero") for side in (1, -1))  # type: ignore[arg-type]  # blocks are enough
    assert right.stuck[-1].all()
    np.testing.assert_array_equal(left.q, -right.q)
    np.testing.assert_array_equal(left.stuck, right.stuck)
    np.testing.assert_allclose(right.q[-1], [0.5, 0.25], atol=1e-3)  # m v^2 / (2 F)
