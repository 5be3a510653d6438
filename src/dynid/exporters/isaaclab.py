"""Isaac Lab: a Python file with the articulation's configuration, beside the URDF that it loads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynid.base.arrays import Float
from dynid.exporters.model import ExportModel
from dynid.robot.drive import COMPUTER

# Central share of an ensemble between the ends of a range of randomisation.
_CENTRAL = 0.95
_IMPORTS = """\
import math
from pathlib import Path

import isaaclab.envs.mdp as mdp
import isaaclab.sim as sim_utils
from isaaclab.actuators import {actuator}
from isaaclab.assets import ArticulationCfg
from isaaclab.managers import EventTermCfg, SceneEntityCfg
"""


def isaaclab_config(
    model: ExportModel, urdf: str, lost: Sequence[str], members: Sequence[ExportModel] = ()
) -> bytes:
    """Python file with an ArticulationCfg, whose actuators have gains, delay, friction, armature and limits per joint.

    `model`: the model, with friction that is viscous and dry (`ExportModel.straightened`); `urdf`: name of the URDF in
    the same folder; `lost`: effects that the file does not contain, for its first lines; `members`: models of an
    ensemble: their central 95 % are the ranges of randomisation. Result: the file. The names of its classes and
    arguments are those of Isaac Lab 3.0, in which friction is a force or torque; `effort_limit` and `velocity_limit`
    are the names that 2.3 has, too.
    """
    robot = model.robot
    servo = robot.drive.servo
    servo = servo if servo is not None and servo.known else None
    late = servo is not None and np.isfinite(servo.delay) and servo.delay > 0
    actuator = "DelayedPDActuatorCfg" if late else "IdealPDActuatorCfg"
    lines = _head(model, lost, servo is not None)
    lines += ["", *_IMPORTS.format(actuator=actuator).splitlines(), ""]
    lines += ["PHYSICS_STEP = 0.005  # s: set it to sim.dt of the environment"]
    if servo is not None and late:
        lines += [f"DELAY = {servo.delay!r}  # s, from a command to its torque"]
    limits = robot.limits
    lines += ["ACTUATORS = {"]
    for j, name in enumerate(robot.joint_names):
        values = {
            "stiffness": servo.kp[j] if servo is not None else 0.0,
            "damping": servo.kd[j] if servo is not None else 0.0,
            "armature": model.rotor[j],
            "friction": model.coulomb[j],
            "dynamic_friction": model.coulomb[j],
            "viscous_friction": model.viscous[j],
            "effort_limit": min(limits.effort[j], servo.effort_limit[j] if servo is not None else np.inf),
            "velocity_limit": limits.velocity[j],
        }
        lines += [f"    {name!r}: {actuator}(", f"        joint_names_expr=[{_exactly(name)!r}],"]
        lines += [f"        {key}={float(value)!r}," for key, value in values.items() if np.isfinite(value)]
        if late:
            lines += ["        min_delay=math.floor(DELAY / PHYSICS_STEP + 1e-9),"]
            lines += ["        max_delay=math.ceil(DELAY / PHYSICS_STEP - 1e-9),"]
        lines += ["    ),"]
    lines += ["}", ""]
    gains = "sim_utils.UrdfConverterCfg.JointDriveCfg.PDGainsCfg(stiffness=0.0, damping=0.0)"
    lines += [
        "ROBOT_CFG = ArticulationCfg(",
        '    prim_path="{ENV_REGEX_NS}/Robot",',
        "    spawn=sim_utils.UrdfFileCfg(",
        f"        asset_path=str(Path(__file__).with_name({urdf!r})),",
        f"        fix_base={not robot.floats},",
        f"        joint_drive=sim_utils.UrdfConverterCfg.JointDriveCfg(gains={gains}),",
        "    ),",
        "    actuators=ACTUATORS,",
        ")",
        "",
        *_events(model, members),
        "",
    ]
    return "\n".join(lines).encode()


def _head(model: ExportModel, lost: Sequence[str], has_gains: bool) -> list[str]:
    servo = model.robot.drive.servo
    notes = [f"This file does not contain: {', '.join(lost)}."] if lost else []
    if model.offset.any():
        offsets = ", ".join(f"{offset:.4g}" for offset in model.offset)
        notes += [f"It does not contain the constant torques of the joints, {offsets} N m (N)."]
    if not has_gains or servo is None:
        notes += [
            "The run has no gains of position controllers. Stiffness and damping are 0, so joints follow effort "
            "targets; set both for position targets."
        ]
    else:
        if servo.dead_band.any():
            notes += ["It does not contain the dead band of the controllers."]
        if not np.isfinite(servo.delay):
            notes += ["The delay of the commands is unknown and set to none."]
        if np.isfinite(servo.delay) and (servo.loop or COMPUTER) == COMPUTER:
            notes += [
                "The whole torque of this robot is late, but in Isaac Lab only commands are, and feedback is current: "
                "joints swing less. About stiffness * DELAY less viscous friction has the same effect."
            ]
    notes += [
        "friction and dynamic_friction are equal, since the model has one dry friction. They are forces or torques, as "
        "in Isaac Lab 2.3 and later with Isaac Sim 5 and later; before, they were ratios without a unit."
    ]
    text = [
        f"Isaac Lab configuration of the identified robot {model.robot.name!a}, written by dynid.",
        "",
        *notes,
    ]
    return [f"# {line}".rstrip() for line in text]


def _exactly(name: str) -> str:
    """Regular expression of one name: Isaac Lab matches names with it."""
    return "".join(
        character if character.isalnum() or character == "_" else f"\\{character}" for character in name
    )


def _events(model: ExportModel, members: Sequence[ExportModel]) -> list[str]:
    """Terms that scale friction, armature and masses, each by a range of the ensemble.

    Isaac Lab draws factors of dry and viscous friction from one range: that of the friction at the log's highest speed.
    """
    if not members:
        return ["# Ranges of randomisation: write the file with --ensemble 200.", "EVENTS = {}"]
    robot = model.robot
    lines = [
        "# Factors on the values above and on the masses of the URDF: central 95 % of the ensemble.",
        "EVENTS = {",
    ]
    friction = [model.coulomb + model.viscous * model.peak]
    friction += [member.coulomb + member.viscous * model.peak for member in members]
    masses = [model.inertia[:, 0], *(member.inertia[:, 0] for member in members)]
    armatures = [model.rotor, *(member.rotor for member in members)]
    for j, name in enumerate(robot.joint_names):
        parts = [
            (f"{key}_distribution_params", scale)
            for key, values in (("friction", friction), ("armature", armatures))
            if (scale := _factors(np.array(values)[:, j])) is not None
        ]
        if parts:
            given = "".join(f", {key!r}: {scale}" for key, scale in parts)
            lines += [
                f"    {'joint ' + name!r}: EventTermCfg(",
                '        func=mdp.randomize_joint_parameters, mode="startup",',
                f'        params={{"asset_cfg": SceneEntityCfg("robot", joint_names=[{_exactly(name)!r}]){given}, '
                '"operation": "scale"},',
                "    ),",
            ]
    for i, name in enumerate(robot.body_names):
        scale = _factors(np.array(masses)[:, i])
        if scale is not None:
            lines += [
                f"    {'mass of ' + name!r}: EventTermCfg(",
                '        func=mdp.randomize_rigid_body_mass, mode="startup",',
                f'        params={{"asset_cfg": SceneEntityCfg("robot", body_names=[{_exactly(name)!r}]), '
                f'"mass_distribution_params": {scale}, "operation": "scale"}},',
                "    ),",
            ]
    return [*lines, "}"]


def _factors(values: Float) -> tuple[float, float] | None:
    """Range of values[1:] relative to values[0]; None for zero or equal values."""
    if values[0] <= 0 or np.ptp(values) == 0:
        return None
    tail = (1.0 - _CENTRAL) / 2.0
    lower, upper = np.quantile(values[1:] / values[0], (tail, 1.0 - tail))
    return round(max(float(lower), 0.0), 6), round(float(upper), 6)
