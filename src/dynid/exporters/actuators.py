"""A file of actuators for simulators that keep them beside the robot: gains, delay, armature and friction by joint."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from dynid.base.arrays import finite_or_none
from dynid.base.errors import UsageError
from dynid.exporters.model import ExportModel
from dynid.robot.servo import COMPUTER


def actuators_json(model: ExportModel) -> bytes:
    """Position controllers and what the drives add, as JSON: the keys are those of Isaac Lab's DelayedPDActuatorCfg.

    stiffness, damping: N m/rad and N m s/rad.    armature: kg m^2.    friction: Coulomb, N m.    viscous_friction: N m
    s/rad.    effort_limit: N m, null = none.    min_delay, max_delay: s, from a command to its torque; divide them by
    the simulation's step.    hold: s, for which a command acts.    loop: "drive" where a late command meets the motion
    of the moment, as DelayedPDActuatorCfg has it; "computer" where the whole torque is late.

    Raises UsageError for a robot whose position controllers are not known.
    """
    servo = model.robot.drive.servo
    if servo is None or not servo.known:
        raise UsageError(
            "no-gains",
            found="a robot whose position controllers are not known",
            expected="a run of a log of commands, or a robot with gains",
            do="give drive.kp and drive.kd to dynid identify, or choose another format",
        )
    actuators: list[dict[str, Any]] = [
        {
            "joint_names_expr": [name],
            "stiffness": float(servo.kp[j]),
            "damping": float(servo.kd[j]),
            "effort_limit": finite_or_none(float(servo.effort_limit[j])),
            "armature": float(model.rotor[j]),
            "friction": float(model.coulomb[j]),
            "viscous_friction": float(model.viscous[j]),
            "offset": float(model.offset[j]),
            "dead_band": float(servo.dead_band[j]),
            "min_delay": finite_or_none(servo.delay),
            "max_delay": finite_or_none(servo.delay),
            "hold": finite_or_none(servo.hold),
            "loop": servo.loop or COMPUTER,
        }
        for j, name in enumerate(model.robot.joint_names)
    ]
    if not np.isfinite(servo.delay):
        for one in actuators:
            one["min_delay"] = one["max_delay"] = 0.0
    units = "rad, N m, kg m^2, s (m, N, kg of sliding joints)"
    return (
        json.dumps({"robot": model.robot.name, "units": units, "actuators": actuators}, indent=2).encode()
        + b"\n"
    )
