"""Logs of MuJoCo's own fields: whatever of the actuators was written, the torque at the joints is read."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics, Float
from dynid.identification import Experiment, open_log
from dynid.layouts import experiment_text, propose_logs
from dynid.log import write_log
from dynid.robot import load_robot

mujoco = pytest.importorskip("mujoco")

JOINTS = ("pan", "lift", "elbow")
BODIES = """<mujoco model="arm"><option timestep="0.002" integrator="implicitfast"/><worldbody>
<body pos="0 0 0.3"><joint name="pan" axis="0 0 1" damping="1" armature="0.1"/>
 <inertial mass="4" pos="0.02 0 0.05" diaginertia="0.03 0.03 0.02"/>
 <body pos="0 0 0.2"><joint name="lift" axis="0 1 0" damping="1" armature="0.1"/>
  <inertial mass="3" pos="0.2 0.01 0" diaginertia="0.01 0.05 0.05"/>
  <body pos="0.4 0 0"><joint name="elbow" axis="0 1 0" damping="0.5" armature="0.1"/>
   <inertial mass="2" pos="0.15 0 0.02" diaginertia="0.005 0.02 0.02"/></body>
</body></body></worldbody><actuator>{}</actuator></mujoco>"""
ACTUATORS = {
    "motors": '<motor joint="pan" gear="30"/><motor joint="lift" gear="-12"/><motor joint="elbow" gear="6"/>',
    "gains": '<general joint="pan" gear="4" gainprm="3"/><general joint="lift" gear="5" gainprm="2"/>'
    '<motor joint="elbow" gear="0.1"/>',
    "controllers": '<position joint="pan" kp="50" kv="5" gear="4"/><position joint="lift" kp="80" kv="8" gear="3"/>'
    '<position joint="elbow" kp="60" kv="6" gear="2"/>',
}


def simulated(xml: str, seed: int) -> dict[str, Float]:
    """Fields by name: the arm follows sines by computed torque, or by its controllers."""
    rng = np.random.default_rng(seed)
    model = mujoco.MjModel.from_xml_string(xml)
    data = mujoco.MjData(model)
    w, phase = 2 * np.pi * rng.uniform(0.1, 0.8, (3, 3)), rng.uniform(0.0, 6.0, (3, 3))
    gear, position = model.actuator_gear[:, 0], "position" in xml
    rows = []
    for _ in range(10000):
        angle = w * data.time + phase
        wanted, speed = 0.3 * np.sin(angle).sum(axis=0), 0.3 * (w * np.cos(angle)).sum(axis=0)
        if not rows:
            data.qpos[:], data.qvel[:] = wanted, speed
            mujoco.mj_forward(model, data)
        torque = 200.0 * (wanted - data.qpos) + 20.0 * (speed - data.qvel) + data.qfrc_bias
        data.ctrl[:] = gear * wanted if position else torque / gear / model.actuator_gainprm[:, 0]
        before = [data.time], data.qpos.copy(), data.qvel.copy()
        mujoco.mj_step(model, data)
        rows.append([*before, data.ctrl.copy(), data.actuator_force.copy(), data.qfrc_actuator.copy()])
    names = ("time", "qpos", "qvel", "ctrl", "actuator_force", "qfrc_actuator")
    return {name: np.array([row[k] for row in rows]) for k, name in enumerate(names)}


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("kind", list(ACTUATORS))
def test_efforts_of_actuators_are_torque_at_the_joints(kind: str, named: bool, tmp_path: Path) -> None:
    path = tmp_path / "arm.xml"
    path.write_text(BODIES.format(ACTUATORS[kind]))
    robot, fields = load_robot(path), simulated(path.read_text(), 3)
    field_sets = (
        ("qfrc_actuator", "actuator_force", "ctrl"),
        ("actuator_force", "ctrl"),
        ("actuator_force",),
        ("ctrl",),
    )
    for number, kept in enumerate(field_sets):
        if kind == "controllers" and kept == ("ctrl",):
            continue  # positions, not torques
        columns = {
            f"{name}_{joint if named else j}": fields[name][:, j]
            for name in ("qpos", "qvel", *kept)
            for j, joint in enumerate(JOINTS)
        }
        log = tmp_path / f"{number}.parquet"
        write_log(log, fields["time"][:, 0], columns)
        found = propose_logs(robot, [log])
        assert found["log.effort.columns"].value == f"{kept[0]}_{'{joint}' if named else '{index}'}"
        assert not found.open, [(one.key, one.why) for one in found.open]
        assert_torque(path, log, experiment_text(found, "a test"), fields["qfrc_actuator"], tmp_path)


def assert_torque(robot: Path, log: Path, text: str, expected: Float, folder: Path) -> None:
    """The log, read as an experiment file says, has the torque at the joints."""
    file = folder / "experiment.toml"
    file.write_text(text)
    assert tomllib.loads(text)["log"]
    experiment = Experiment.read(file)
    sink = Diagnostics()
    opened = open_log(experiment, [log], experiment.robot(robot, sink), experiment.data.train, sink)
    tau = opened.read(opened.trajectories[0]).tau
    assert tau is not None
    np.testing.assert_allclose(tau, expected, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("field", ["actuator_force", "ctrl"])
def test_a_torque_before_its_gear_is_recognised_whatever_it_is_called(field: str, tmp_path: Path) -> None:
    path = tmp_path / "arm.xml"
    path.write_text(BODIES.format(ACTUATORS["motors"]))
    robot, fields = load_robot(path), simulated(path.read_text(), 4)
    columns = {f"q_{joint}": fields["qpos"][:, j] for j, joint in enumerate(JOINTS)}
    columns |= {f"tau_{joint}": fields[field][:, j] for j, joint in enumerate(JOINTS)}
    write_log(tmp_path / "log.parquet", fields["time"][:, 0], columns)
    found = propose_logs(robot, [tmp_path / "log.parquet"])
    assert found.gains == pytest.approx(dict(zip(JOINTS, (30.0, -12.0, 6.0), strict=True)))
    # What is the joints' torque already stays so, gears or not.
    columns |= {f"tau_{joint}": fields["qfrc_actuator"][:, j] for j, joint in enumerate(JOINTS)}
    write_log(tmp_path / "log.parquet", fields["time"][:, 0], columns)
    found = propose_logs(robot, [tmp_path / "log.parquet"])
    assert (found["log.effort.unit"].value, found.gains) == ("N m", {})


def test_inputs_of_position_controllers_are_commands(tmp_path: Path) -> None:
    text = BODIES.format("".join(f'<position joint="{j}" kp="900" kv="60"/>' for j in JOINTS))
    path = tmp_path / "arm.xml"
    path.write_text(text)
    fields = simulated(text, 5)
    columns = {
        f"{name}_{joint}": fields[name][:, j] for name in ("qpos", "ctrl") for j, joint in enumerate(JOINTS)
    }
    write_log(tmp_path / "log.parquet", fields["time"][:, 0], columns)
    found = propose_logs(load_robot(path), [tmp_path / "log.parquet"])
    assert set(found.groups) == {"position", "command_position"}
    assert found.groups["command_position"].columns == {joint: f"ctrl_{joint}" for joint in JOINTS}
