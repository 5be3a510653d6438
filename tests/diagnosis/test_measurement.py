"""Is the effort a measurement? Torque made by pinocchio, as a controller computes it and as drives give it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pinocchio
import pytest

from dynid.base import Diagnostics, Float
from dynid.diagnosis import input_checks as measurement
from dynid.diagnosis.input_checks import LEAST_FRICTION, LEAST_NOISE
from dynid.diagnosis.residual_analysis import basis
from dynid.identification import Settings, identify
from dynid.log import canonical_columns, read_log, write_log
from dynid.robot import load_robot
from dynid.run import Identification
from dynid.trajectories import FourierTrajectory

LINK = """
<link name="l{j}"><inertial><origin xyz="{x} 0.02 0.03"/><mass value="{m}"/>
<inertia ixx="0.03" ixy="0" ixz="0" iyy="0.04" iyz="0" izz="0.02"/></inertial></link>
<joint name="j{j}" type="revolute"><parent link="l{before}"/><child link="l{j}"/><origin xyz="{d} 0 0.2"/>
<axis xyz="{axis}"/><limit lower="-2" upper="2" velocity="2" effort="200"/></joint>
"""
BODIES = ((0.05, 6.0, 0.0, "0 0 1"), (0.2, 4.0, 0.0, "0 1 0"), (0.15, 2.5, 0.4, "0 1 0"))
URDF = (
    '<robot name="arm"><link name="l0"/>'
    + "".join(
        LINK.format(j=j + 1, before=j, x=x, m=m, d=d, axis=axis) for j, (x, m, d, axis) in enumerate(BODIES)
    )
    + "</robot>"
)
RATE, SECONDS = 200.0, 30.0


def rigid(q: Float, dq: Float, ddq: Float) -> Float:
    """Inverse dynamics by pinocchio, (T, n)."""
    model = pinocchio.buildModelFromXML(URDF)
    data = model.createData()
    return np.array([pinocchio.rnea(model, data, *row) for row in zip(q, dq, ddq, strict=True)])


def identified(folder: Path, friction: float, noise: float, seed: int = 3) -> Identification:
    """A log of torque with shares of friction and noise, identified; positions carry an encoder's noise."""
    (folder / "arm.urdf").write_text(URDF)
    robot = load_robot(folder / "arm.urdf")
    t = np.arange(0.0, SECONDS, 1.0 / RATE)
    q, dq, ddq = FourierTrajectory.random(robot, SECONDS, 5, seed, 0.1).motion(t)
    rng = np.random.default_rng(seed)
    tau = rigid(q, dq, ddq)
    size = np.sqrt(np.mean(tau**2, axis=0))
    tau += friction * size * (np.tanh(dq / 5e-3) + dq / np.abs(dq).max(axis=0))
    tau += noise * size * rng.normal(size=tau.shape)
    columns = canonical_columns(robot.joint_names, q + 2e-6 * rng.normal(size=q.shape), tau=tau)
    log = read_log(write_log(folder / "log.parquet", t, columns), robot)
    return identify(robot, log, Settings(), diagnostics=Diagnostics(), threads=1)


@pytest.fixture
def decompositions(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes of the matrices that the check decomposes."""
    shapes: list[tuple[int, ...]] = []

    def counted(rows: Float) -> Float:
        shapes.append(rows.shape)
        return basis(rows)

    monkeypatch.setattr(measurement, "basis", counted)
    return shapes


def test_a_controllers_model_is_no_measurement(tmp_path: Path, decompositions: list[tuple[int, ...]]) -> None:
    found = identified(tmp_path, friction=0.0, noise=0.0)
    # The matrix is the same for every joint.
    assert len(decompositions) == 1
    (doubt,) = found.diagnostics.doubts
    assert doubt.identifier == "modelled-effort"
    assert "not from a measurement" in doubt.text
    assert found.verdict.level == "doubtful"


@pytest.mark.parametrize("seed", [3, 4])
def test_a_simple_model_that_is_fitted_with_errors_is_no_measurement(tmp_path: Path, seed: int) -> None:
    """Gravity, and the inertia of each joint alone, 30 % off and early, written with four digits."""
    (tmp_path / "arm.urdf").write_text(URDF)
    robot = load_robot(tmp_path / "arm.urdf")
    t = np.arange(0.0, SECONDS, 1.0 / RATE)
    q, dq, ddq = FourierTrajectory.random(robot, SECONDS, 5, seed, 0.1).motion(t)
    model = pinocchio.buildModelFromXML(URDF)
    data = model.createData()
    inertia = np.array([np.diag(pinocchio.crba(model, data, row)) for row in q])
    tau = np.round(rigid(q, 0.0 * dq, 0.0 * ddq) + 1.3 * inertia * ddq, 4)[2:]
    noise = 2e-6 * np.random.default_rng(seed).normal(size=q[2:].shape)
    columns = canonical_columns(robot.joint_names, q[:-2] + noise, tau=tau)
    log = read_log(write_log(tmp_path / "log.parquet", t[:-2], columns), robot)
    run = identify(robot, log, Settings(), diagnostics=Diagnostics(), threads=1)
    assert "modelled-effort" in {finding.code for finding in run.diagnostics}
    assert run.verdict.level == "doubtful"


@pytest.mark.parametrize(
    ("friction", "noise"),
    [(0.1, 0.01), (3 * LEAST_FRICTION, 0.0), (0.0, 3 * LEAST_NOISE), (0.05, 0.0)],
    ids=["real", "smooth", "frictionless", "filtered"],
)
def test_friction_or_noise_alone_make_a_measurement(friction: float, noise: float, tmp_path: Path) -> None:
    found = identified(tmp_path, friction, noise)
    assert "modelled-effort" not in {one.identifier for one in found.diagnostics}


def test_noise_alone_spares_the_fit_of_friction(
    tmp_path: Path, decompositions: list[tuple[int, ...]]
) -> None:
    identified(tmp_path, friction=0.1, noise=0.01)
    assert not decompositions
