"""Soft friction is no lag of the torque, and hides none: on arms that MuJoCo simulates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics, Float
from dynid.estimate import WLS
from dynid.identification import Settings, identify
from dynid.log import Log
from dynid.robot import load_robot

mujoco = pytest.importorskip("mujoco")

# Seconds of a step of the simulation, of which the log has every one, and of the log.
STEP, SECONDS = 0.002, 14.0
LINKS = ((4.0, 0.15, "0 0 1"), (4.0, 0.4, "0 1 0"), (2.0, 0.3, "0 1 0"), (1.0, 0.2, "1 0 0"))
FRICTION, DAMPING = np.array([4.0, 4.0, 2.0, 0.8]), np.array([2.0, 2.0, 1.0, 0.3])


def arm(softness: str) -> str:
    inner = ""
    for k, (mass, length, axis) in reversed(list(enumerate(LINKS))):
        across, at = mass * length**2 / 8, LINKS[k - 1][1] if k else 0.0
        inner = (
            f'<body name="l{k}" pos="0 0.05 {at}"><inertial pos="0.01 0.02 {length / 2}" mass="{mass}" '
            f'diaginertia="{across} {across} {across / 2}"/><joint name="j{k}" axis="{axis}" damping="{DAMPING[k]}" '
            f'armature="0.1" frictionloss="{FRICTION[k]}" {softness}/>{inner}</body>'
        )
    motors = "".join(f'<motor joint="j{k}"/>' for k in range(len(LINKS)))
    return (
        f'<mujoco model="r"><option timestep="{STEP}"/><worldbody>{inner}</worldbody><actuator>{motors}</actuator>'
        "</mujoco>"
    )


def motion(rng: np.random.Generator) -> tuple[Float, Float, Float, Float]:
    """Times, positions, velocities and accelerations that the arm is to follow."""
    n, t = len(LINKS), np.arange(round(SECONDS / STEP), dtype=np.float64) * STEP
    speed: Float = 2 * np.pi * np.array([0.15, 0.37, 0.71])[:, None] * rng.uniform(0.8, 1.2, (3, n))
    size, angle = rng.uniform(0.15, 0.45, (3, n)), t[:, None, None] * speed + rng.uniform(0, 6, (3, n))
    q, dq = (size * np.sin(angle)).sum(1), (size * speed * np.cos(angle)).sum(1)
    return t, q, dq, -(size * speed**2 * np.sin(angle)).sum(1)


def lags(folder: Path, softness: str, late: int, seed: int, automatic: bool = False) -> list[str]:
    """What is said of lags; torque is logged beside the state after each step, or so many steps later."""
    path = folder / "arm.xml"
    path.write_text(arm(softness))
    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    t, wanted, speed, pull = motion(np.random.default_rng(seed))
    data.qpos[:], data.qvel[:] = wanted[0], speed[0]
    q, dq, tau = (np.zeros_like(wanted) for _ in range(3))
    for k in range(len(t)):
        # Computed torque: what the motion needs, and a pull towards it.
        data.qacc[:] = pull[k] + 400 * (wanted[k] - data.qpos) + 40 * (speed[k] - data.qvel)
        rigid = np.zeros(model.nv)
        mujoco.mj_rne(model, data, 1, rigid)
        data.ctrl[:] = rigid + 0.1 * data.qacc + DAMPING * data.qvel + FRICTION * np.tanh(speed[k] / 0.05)
        mujoco.mj_step(model, data)
        q[k], dq[k], tau[k] = data.qpos, data.qvel, data.qfrc_actuator
    keep = slice(late, None)
    tau = np.roll(tau, late, axis=0)
    robot, said = load_robot(path, diagnostics=Diagnostics()), Diagnostics()
    log = Log.from_arrays(robot, t[keep], q[keep], tau[keep], dq=dq[keep])
    identify(robot, log, Settings(automatic=automatic, estimator=WLS()), threads=1, diagnostics=said)
    return [one.text for one in said if one.identifier == "torque-lag"]


@pytest.mark.parametrize("softness", ["", 'solreffriction="0.1 1"'], ids=["default", "softer"])
def test_soft_friction_is_no_lag(softness: str, tmp_path: Path) -> None:
    assert lags(tmp_path, softness, 0, 0) == []


@pytest.mark.parametrize("late", [3, 6])
def test_a_lag_beside_soft_friction_is_named(late: int, tmp_path: Path) -> None:
    (said,) = lags(tmp_path, "", late, 0)
    assert "lags behind the motion" in said


@pytest.mark.parametrize(
    ("softness", "late"),
    [("", 0), pytest.param('solreffriction="0.1 1"', 0, marks=pytest.mark.slow), ("", 3)],
)
def test_a_lag_that_the_model_holds_is_named_where_it_is_one(
    softness: str, late: int, tmp_path: Path
) -> None:
    # The chosen model takes in a delay that soft friction imitates, and says so; that is no fault of the log.
    said = lags(tmp_path, softness, late, 1, automatic=True)
    assert ["lags behind the motion" in one for one in said] == [True] * bool(late)
