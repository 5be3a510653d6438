"""Joints that stick: both kernels against an integration from event to event."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp

from dynid.base import Bool, Float
from dynid.kernel import using
from dynid.robot import RobotModel
from dynid.simulation import ForwardModel, stick_slip
from dynid.terms import Coulomb, RigidBody, Terms, Viscous
from dynid.testing import random_robot

pytestmark = pytest.mark.usefixtures("kernel")
RATE, SECONDS = 500.0, 1.6
LEVEL = np.array([6.0, 3.0])
T = np.arange(round(RATE * SECONDS) + 1) / RATE


def model(robot: RobotModel, width: float = 0.0, scale: float = 1.0) -> ForwardModel:
    terms = Terms((RigidBody(), Viscous(), Coulomb(width)))
    return ForwardModel(
        robot, terms, np.concatenate([robot.inertia_prior.ravel(), [0.4, 0.2], scale * LEVEL])
    )


def torque(robot: RobotModel, t: Float) -> Float:
    """Gravity at the start, and a pull that passes the friction now and then."""
    still = np.zeros((1, robot.n))
    held = model(robot).equations(still, still)[1][0]
    pull = np.array([9.0, 4.5]) * np.sin(2 * np.pi * np.multiply.outer(t, [1.1, 1.7]))
    return np.asarray(held + pull)


def by_events(robot: RobotModel) -> tuple[Float, list[tuple[float, int, bool]]]:
    """Positions at the times T, and (time, joint, whether it comes to rest) of every event, between 1e-10 steps."""
    smooth = model(robot, scale=0.0)

    def motion(t: float, y: Float, way: Float) -> tuple[Float, Float]:
        M, h = (part[0] for part in smooth.equations(y[None, :2], y[None, 2:]))
        force = torque(robot, np.array(t)) - h - LEVEL * way
        free = way != 0
        a = np.zeros(2)
        a[free] = np.linalg.solve(M[np.ix_(free, free)], force[free]) if free.any() else 0.0
        return a, force - M @ a  # what friction must hold of the joints at rest

    def decided(t: float, y: Float, rest: Bool, way: Float) -> Float:
        held = motion(t, y, np.where(rest, 0.0, way))[1]
        return np.where(rest, np.where(np.abs(held) > LEVEL, np.sign(held), 0.0), way)

    y, now, way, events, found = np.zeros(4), 0.0, np.zeros(2), [], []
    way = decided(0.0, y, np.ones(2, dtype=np.bool_), way)
    while now < T[-1]:
        fixed = way

        def rate(t: float, y: Float, fixed: Float = fixed) -> Float:
            return np.concatenate([np.where(fixed != 0, y[2:], 0.0), motion(t, y, fixed)[0]])

        crossings = []
        for j in range(2):

            def crossing(t: float, y: Float, j: int = j, fixed: Float = fixed) -> float:
                if fixed[j] != 0:
                    return float(y[2 + j] * fixed[j]) + 1e-12
                return float(LEVEL[j] - np.abs(motion(t, y, fixed)[1][j]))

            crossing.terminal, crossing.direction = True, -1.0  # type: ignore[attr-defined]  # attributes that solve_ivp reads
            crossings.append(crossing)
        run = solve_ivp(
            rate, (now, T[-1]), y, events=crossings, rtol=1e-8, atol=1e-10, dense_output=True, max_step=1e-2
        )
        found.append(run.sol(T[(now <= T) & (run.t[-1] >= T)])[:2].T)
        now, y = float(run.t[-1]), run.y[:, -1].copy()
        if run.status != 1:
            break
        j = next(j for j in range(2) if len(run.t_events[j]))
        if way[j] != 0:
            y[2 + j] = 0.0
            rest = np.array([way[i] == 0 or i == j for i in range(2)])
            way = decided(now, y, rest & (np.arange(2) == j), way)
            if way[j] == 0:
                events.append((now, j, True))
        else:
            way = np.where(np.arange(2) == j, np.sign(motion(now, y, way)[1]), way)
            events.append((now, j, False))
    return np.concatenate(found), events


def instants(run: Any) -> list[tuple[float, int, bool]]:
    """Steps at which joints come to rest, or begin to slide: the last one at which they were at rest."""
    changes = np.diff(run.stuck.astype(np.int8), axis=0)
    return [
        (float(T[k + (changes[k, j] > 0)]), int(j), bool(changes[k, j] > 0)) for k, j in np.argwhere(changes)
    ]


def test_stick_and_slip_are_those_of_event_detection_within_a_step() -> None:
    robot = random_robot(3, 2, 0.0)
    expected, events = by_events(robot)
    run = stick_slip(model(robot), np.zeros(2), np.zeros(2), torque(robot, T), RATE, "linear")
    found = instants(run)
    # What sticks for less than a sample leaves no trace at the samples.
    lasting = [
        (t, j, rests)
        for t, j, rests in events
        if all(j != k or t == s or abs(s - t) > 1.5 / RATE for s, k, _ in events)
    ]
    assert len([one for one in lasting if one[2]]) >= 3
    assert len([one for one in lasting if not one[2]]) >= 3
    for t, joint, rests in lasting:
        near = [abs(s - t) for s, j, r in found if j == joint and r == rests]
        assert min(near) <= 1.0 / RATE + 1e-9
    assert len(expected) == len(T)
    assert_allclose(run.q, expected, rtol=0, atol=2e-4)


def test_smooth_friction_and_sticking_agree_between_kernels(kernel: str) -> None:
    if kernel == "numpy":
        pytest.skip("compared from the native kernel")
    robot = random_robot(3, 2, 0.0)
    for width in (0.0, 0.02):
        # From rest the smooth friction of NumPy's scheme, taken beside zero, holds a joint for one step.
        speed = np.array([0.3, -0.2]) if width else np.zeros(2)
        runs = []
        for name in ("native", "numpy"):
            with using(name):
                runs.append(stick_slip(model(robot, width), np.zeros(2), speed, torque(robot, T[:200]), RATE))
        assert runs[0].q.any()
        assert width > 0 or (runs[0].stuck == runs[1].stuck).all()
        assert_allclose(runs[0].q, runs[1].q, rtol=0, atol=1e-9)


def test_a_run_that_diverges_ends_where_numpys_does() -> None:
    robot = random_robot(3, 2, 0.0)
    pushed = np.full((400, 2), 3e4)
    run = stick_slip(model(robot), np.zeros(2), np.zeros(2), pushed, 50.0)
    assert run.diverged is not None
    assert np.isnan(run.q[run.diverged :]).all()
    assert np.isfinite(run.q[: run.diverged]).all()
