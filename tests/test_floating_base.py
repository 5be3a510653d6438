"""A robot whose base floats, from a log with an IMU and unknown forces of the ground."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import UsageError
from dynid.diagnosis.floating_checks import check_contacts
from dynid.identification.pipeline import identify
from dynid.log.read import Log
from dynid.robot.load import load_robot, with_floating_base
from dynid.robot.model import RobotModel
from dynid.rows.floating import Contact, contact_jacobian, floating_samples
from dynid.signals.samples import Samples
from dynid.terms.rigid_body import RigidBody
from dynid.terms.term import Terms
from tests.robot.shipped import shipped

FEET = ("FL_foot", "FR_foot", "RL_foot", "RR_foot")
RATE, SECONDS = 200.0, 20.0


def _wave(rng: np.random.Generator, t: np.ndarray, size: float) -> tuple[np.ndarray, ...]:
    """A sum of sines and its two derivatives."""
    f, phase = rng.uniform(0.2, 1.5, 4), rng.uniform(0, 6.28, 4)
    w = 2 * np.pi * f
    return tuple(
        size / 4 * np.sum(w[:, None] ** k * np.sin(np.outer(w, t) + phase[:, None] + k * np.pi / 2), axis=0)
        for k in range(3)
    )


def _log(robot: RobotModel, light: float = 1.0) -> Log:
    """A log of random motion, with forces at the feet that balance it; `light`: factor on all masses."""
    rng = np.random.default_rng(4)
    t = np.arange(0, SECONDS, 1 / RATE)
    q, dq, ddq = (np.array(x).T for x in zip(*(_wave(rng, t, 0.4) for _ in robot.joint_names), strict=True))
    q = q + np.tile([0.0, 0.8, -1.5], 4)
    omega, alpha = (np.array(x).T for x in list(zip(*(_wave(rng, t, 0.4) for _ in "xyz"), strict=True))[1:])
    specific = np.array([_wave(rng, t, 2.0)[0] for _ in "xyz"]).T + np.array([0, 0, 9.81])
    floating = with_floating_base(robot)
    up = np.tile([0.0, 0.0, 1.0], (len(t), 1))
    ones = np.ones((len(t), 4), dtype=np.bool_)
    samples = floating_samples(floating, Samples.from_motion(q, dq, ddq), omega, alpha, specific, up, ones)
    torque = Terms((RigidBody(),)).torque(floating, samples, light * floating.inertia_prior.ravel())
    feet = tuple(
        Contact(name, body, tuple(frame[:3, 3].tolist()))
        for name in FEET
        for body, frame in [floating.link_frame(name)]
    )
    J = contact_jacobian(floating, feet, samples.q, up)
    force = np.einsum("tcb,tb->tc", np.linalg.pinv(J[:, :, :6].transpose(0, 2, 1)), torque[:, :6])
    tau = torque - np.einsum("tcn,tc->tn", J, force) + 0.02 * rng.normal(size=torque.shape)
    _, frame = floating.link_frame("imu")
    R, p = frame[:3, :3], frame[:3, 3]
    arm = np.broadcast_to(p, omega.shape)
    felt = specific + np.cross(alpha, arm) + np.cross(omega, np.cross(omega, arm))
    columns = {"t": t}
    for j, name in enumerate(robot.joint_names):
        columns |= {f"q_{name}": q[:, j], f"tau_{name}": tau[:, 6 + j]}
    for k, axis in enumerate("xyz"):
        columns |= {f"w_{axis}": (omega @ R)[:, k], f"a_{axis}": (felt @ R)[:, k]}
    columns |= {f"c_{foot}": np.ones(len(t)) for foot in FEET}
    return Log.from_frame(columns, robot, mapping=MAPPING)


MAPPING: dict[str, Any] = {
    "time": {"column": "t", "unit": "s"},
    "position": {"columns": "q_{joint}", "unit": "rad"},
    "effort": {"columns": "tau_{joint}", "unit": "N m"},
    "imu": {
        "link": "imu",
        "gyro": "w_{axis}",
        "acceleration": "a_{axis}",
        "unit": {"gyro": "rad/s", "acceleration": "m/s^2"},
    },
    "contact": {"feet": list(FEET), "columns": "c_{foot}", "moment": False},
}


@pytest.fixture(scope="module")
def robot() -> RobotModel:
    """A quadruped, whose feet push at the origins of their links, as the log does."""
    from dataclasses import replace

    return replace(load_robot(shipped("go2_description/urdf/go2.urdf")), source="")


def test_mass_is_found_without_forces_and_without_pose(robot: RobotModel) -> None:
    """The true robot has 0.8 times the masses of its file; the base has neither position nor orientation in the log."""
    result = identify(robot, _log(robot, 0.8))
    estimate = result.estimate
    mass = sum(
        value
        for column, value in zip(estimate.columns, estimate.parameters, strict=True)
        if column.name[1:].isdigit() and column.name[0] == "m"
    )
    true = 0.8 * with_floating_base(robot).inertia_prior[:, 0].sum()
    assert mass == pytest.approx(true, rel=0.01)
    assert result.validations[0].scores.total_relative < 0.05
    assert any(note.code == "floating-base" for note in result.diagnostics)


def test_momentum_rows_and_a_floating_base_without_imu_are_refused(robot: RobotModel) -> None:
    """Each with its reason."""
    from dataclasses import replace

    from dynid.identification.settings import Settings
    from dynid.rows.momentum import MomentumRows

    log = _log(robot)
    with pytest.raises(UsageError, match="contact forces"):
        identify(robot, log, settings=Settings(rows=MomentumRows()))
    wanted = replace(robot, reading=replace(robot.reading, base="floating"))
    columns = {name: np.linspace(0, 1, 50) for name in ("t", *(f"q_{j}" for j in robot.joint_names))}
    columns |= {f"tau_{j}": np.linspace(0, 1, 50) for j in robot.joint_names}
    with pytest.raises(UsageError, match="IMU"):
        identify(wanted, Log.from_frame(columns, wanted))


def test_swapped_feet_and_missed_contacts_are_noticed() -> None:
    """Flags of one foot fit the load of another, and a flag that never rises."""
    rng = np.random.default_rng(0)
    pressed = (rng.uniform(size=(500, 4)) > 0.4).astype(float)
    codes = []
    for logged in (pressed, pressed[:, [1, 0, 2, 3]], pressed * [1, 1, 0, 1]):
        diagnostics = Diagnostics()
        check_contacts(FEET, logged, pressed, diagnostics)
        codes.append([item.code for item in diagnostics])
    assert codes == [[], ["feet-swapped"], ["contact-missed"]]
