"""Friction and rotors behind linkages: found at the motors of MuJoCo's loops, where logs of them are identified."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid import identify, load_robot, read_log
from dynid.base import Diagnostics
from dynid.run import Identification
from dynid.terms import MotorInertia, OnMotor
from tests.loop_plants import BARS, LoopPlant, ankle, knee, swing, write_csv

TIME = np.arange(0.0, 15.0, 0.02)


def identified(robot: Path, log: Path) -> Identification:
    """A log of dynid's own column names, identified without a model."""
    quiet = Diagnostics()
    model = load_robot(robot, diagnostics=quiet)
    return identify(model, read_log(log, model), diagnostics=quiet)


def inside(result: Identification, truth: dict[str, float], floor: float = 0.02) -> None:
    """Assert that each value is within its 95 % interval, or within a share of the truth."""
    estimate = result.estimate
    names = [estimate.columns[i].name for i in estimate.base.independent]
    for name, value in truth.items():
        k = names.index(name)
        half = max(float(estimate.half_width()[k]), floor * value)
        assert abs(estimate.value[k] - value) < half, (name, estimate.value[k], half)


def missed(result: Identification) -> float:
    """Held-out error over torque, of all joints."""
    scores = result.validations[0].scores
    return float(np.sqrt((scores.rms**2).sum() / (scores.torque_rms**2).sum()))


@pytest.mark.parametrize("mass", [0.0, 0.03])
def test_an_ankle_with_two_rods_has_its_friction_at_the_motors(mass: float, tmp_path: Path) -> None:
    plant = LoopPlant(
        ankle(mass), ["knee", "ankle_pitch", "ankle_roll"], ["knee", "left_motor", "right_motor"]
    )
    q, dq, ddq = swing(TIME, np.array([0.0, -0.05, 0.0]), np.array([0.8, 0.45, 0.22]), 4)
    tau, _ = plant.torque(q, dq, ddq, np.array([0.1, 0.02, 0.02]), np.array([0.3, 0.08, 0.08]))
    tau = tau + np.random.default_rng(0).normal(0, [0.01, 0.001, 0.001], tau.shape)
    (tmp_path / "leg.xml").write_text(ankle(mass))
    names = ("knee", "ankle_pitch", "ankle_roll")
    columns = {f"q_{name}": q[:, j] for j, name in enumerate(names)}
    columns |= {f"tau_{name}": tau[:, j] for j, name in enumerate(names)}
    result = identified(tmp_path / "leg.xml", write_csv(tmp_path / "log.csv", TIME, **columns))
    assert missed(result) < 0.015
    inside(result, {"fcm2": 0.08, "fcm3": 0.08, "fc1": 0.3, "fvm2": 0.02, "fvm3": 0.02}, floor=0.03)
    inside(result, {"Im2": 0.004, "Im3": 0.004}, floor=0.06)


def of_knee(result: Identification) -> float:
    """Held-out error of the second joint over its torque."""
    scores = result.validations[0].scores
    return float(scores.rms[1] / scores.torque_rms[1])


KNEE = """mjcf = "tree.xml"
[drive]
torque_side = "motor"
[[joint]]
name = "knee"
drive.linkage = {{ {bars} }}
"""


def test_a_knee_has_its_friction_and_rotor_at_the_motor(tmp_path: Path) -> None:
    plant = LoopPlant(knee(), ["hip", "knee"], ["hip", "crank"], start={"knee": -1.55})
    q, dq, ddq = swing(TIME, np.array([0.0, -1.5]), np.array([0.9, 0.75]), 5)
    tau, _ = plant.torque(q, dq, ddq, np.array([0.1, 0.12]), np.array([0.3, 0.35]))
    tau = tau + np.random.default_rng(1).normal(0, 0.01, tau.shape)
    (tmp_path / "tree.xml").write_text(
        knee().split('<body name="crank">')[0] + "</body></worldbody></mujoco>"
    )
    bars = ", ".join(f"{name} = {value}" for name, value in BARS.items())
    (tmp_path / "leg.toml").write_text(KNEE.format(bars=bars))
    columns = {"q_hip": q[:, 0], "q_knee": q[:, 1], "tau_hip": tau[:, 0], "tau_knee": tau[:, 1]}
    log = write_csv(tmp_path / "log.csv", TIME, **columns)
    result = identified(tmp_path / "leg.toml", log)
    inside(result, {"fvm2": 0.12, "fcm2": 0.35, "Im2": 0.012, "fv1": 0.1, "fc1": 0.3}, floor=0.03)
    assert [term.joints for term in result.terms if isinstance(term, MotorInertia)] == [("knee",)]
    assert len([term for term in result.terms if isinstance(term, OnMotor)]) == 2
    # Without the bars the torque of the knee is predicted worse.
    (tmp_path / "plain.toml").write_text('mjcf = "tree.xml"\n')
    plain = identified(tmp_path / "plain.toml", log)
    assert of_knee(result) < 0.8 * of_knee(plain)
