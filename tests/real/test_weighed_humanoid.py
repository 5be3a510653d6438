"""Weigh a real humanoid by the normal forces of its feet (iCubGenova04, no joint torques)."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from dynid.exporters import export
from dynid.identification import identify
from dynid.log import Log
from dynid.robot import load_robot
from dynid.run import total_mass

pinocchio = pytest.importorskip("pinocchio")

SIDES = {"l": "lf", "r": "rf"}
ARM = ("shoulder_pitch", "shoulder_roll", "shoulder_yaw", "elbow")
LEG = ("hip_pitch", "hip_roll", "hip_yaw", "knee", "ankle_pitch", "ankle_roll")
JOINTS = (
    *("neck_pitch", "neck_roll", "neck_yaw", "torso_pitch", "torso_roll", "torso_yaw"),
    *(f"{side}_{joint}" for limb in (ARM, LEG) for side in SIDES for joint in limb),
)
MAPPING = {
    "time": {"column": "t", "unit": "s"},
    "position": {"columns": "q_{joint}", "unit": "rad"},
    "imu": {
        "link": "root_link_imu_frame",
        "gyro": "w_{axis}",
        "acceleration": "a_{axis}",
        "unit": {"gyro": "rad/s", "acceleration": "m/s^2"},
    },
    "contact": {"feet": ["l_sole", "r_sole"], "columns": "f_{foot}", "unit": "N"},
}


# Masses in kg of a scale fit of the same logs that does not use dynid (the data's description).
@pytest.mark.parametrize(("recording", "scale"), [("walking", 33.78), ("com-sinusoid", 34.24)])
def test_normal_forces_of_the_feet_weigh_a_humanoid(
    recording: str, scale: float, data_dir: Path, tmp_path: Path
) -> None:
    folder = data_dir / "icub_standing"
    with h5py.File(folder / f"{recording}.mat") as file:
        values: dict[str, np.ndarray] = {}
        file.visititems(
            lambda name, item: (
                values.update({name.split("/")[-1]: np.array(item)})
                if isinstance(item, h5py.Dataset)
                else None
            )
        )
    q, w, a = (values[name].T for name in ("estimatorJointsPos", "imuOmega", "imuAcc"))
    q, w, a = (part if part.shape[0] > part.shape[1] else part.T for part in (q, w, a))
    columns = {"t": 0.01 * np.arange(len(q))}
    columns |= {f"q_{name}": q[:, j] for j, name in enumerate(JOINTS)}
    columns |= {
        f"{kind}_{axis}": part[:, k] for kind, part in (("w", w), ("a", a)) for k, axis in enumerate("xyz")
    }
    forces = {f"f_{side}_sole": values[f"{foot}ForceZ"].ravel() for side, foot in SIDES.items()}
    robot = load_robot(folder / "model.urdf")
    run = identify(robot, Log.from_frame(columns | forces, robot, mapping=MAPPING))
    mass = total_mass(run.estimate, run.regression)
    assert abs(mass.value - scale) < mass.half < 0.04 * scale
    assert run.verdict.level == "poor"
    # The hands are not logged, so they are locked in the run; the exported file has them again.
    assert run.robot.locked
    export(run, tmp_path / "weighed.urdf")
    exported = pinocchio.buildModelFromUrdf(str(tmp_path / "weighed.urdf"), pinocchio.JointModelFreeFlyer())
    assert pinocchio.computeTotalMass(exported) == pytest.approx(mass.value, rel=1e-10)
