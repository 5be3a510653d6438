"""The arm and its clean log."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dynid.robot import load_robot
from dynid.robot.model import RobotModel
from dynid.simulation.rigid import rigid_torque
from tests.bad_inputs.clean_logs import JOINT, JOINTS, NAMES, RATE, ROBOT, ROWS, Columns, floats


@pytest.fixture(scope="module")
def robot(tmp_path_factory: pytest.TempPathFactory) -> RobotModel:
    path = tmp_path_factory.mktemp("robot") / "arm.toml"
    parts = []
    for joint in JOINTS:
        values = {key: floats(v) if isinstance(v, list) else v for key, v in joint.items()}
        parts.append(JOINT.format(**values | {"effort": float(joint["effort"])}))
    path.write_text(ROBOT + "".join(parts))
    return load_robot(path)


@pytest.fixture(scope="module")
def bare(robot: RobotModel) -> RobotModel:
    """The same arm, its inertias unknown."""
    return replace(robot, inertia_prior=np.full((3, 10), np.nan))


@pytest.fixture(scope="module")
def clean(robot: RobotModel) -> Columns:
    """Twenty seconds of exciting motion with friction and noise: a log without fault."""
    t = np.arange(ROWS) / RATE
    q, dq, ddq = np.zeros((3, ROWS, 3))
    for j, (f, a) in enumerate(((0.13, 0.9), (0.17, 0.8), (0.23, 1.0))):
        for k, share in ((1, 1.0), (2, 0.3), (3, 0.15)):
            w = 2 * np.pi * f * k
            q[:, j] += a * share * np.sin(w * t + j + k)
            dq[:, j] += a * share * w * np.cos(w * t + j + k)
            ddq[:, j] -= a * share * w**2 * np.sin(w * t + j + k)
    rng = np.random.default_rng(5)
    tau = rigid_torque(robot, robot.inertia_prior, q, dq, ddq) + 0.4 * dq + 0.8 * np.tanh(dq / 0.02)
    columns = {"t": t}
    for prefix, values, noise in (("q", q, 2e-5), ("dq", dq, 2e-3), ("tau", tau, 0.05)):
        for j, name in enumerate(NAMES):
            columns[f"{prefix}_{name}"] = values[:, j] + noise * rng.normal(size=ROWS)
    return columns
