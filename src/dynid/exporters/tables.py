"""Tables of parameters: dynid JSON, and CSV in Khalil's and pinocchio's order; both can be read back."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.arrays import Float, finite_or_none
from dynid.base.errors import DynidError, InputError, Place, UsageError
from dynid.base.files import read_bytes
from dynid.base.registry import Need, refuse_missing
from dynid.exporters.model import ExportModel
from dynid.robot.drive import COMPUTER
from dynid.robot.model import RobotModel
from dynid.robot.serial import robot_from_dict, robot_to_dict
from dynid.spatial.inertia import to_khalil
from dynid.terms.catalogue import names_in_spec, terms_from_spec, terms_to_spec
from dynid.terms.term import Terms

# Version of the JSON format, and bytes that a model file may have: many times more than any model needs.
FORMAT = 1
MAX_BYTES = 64_000_000
KHALIL = ("XX", "XY", "XZ", "YY", "YZ", "ZZ", "MX", "MY", "MZ", "M")
PINOCCHIO = ("m", "mcx", "mcy", "mcz", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz")
_JOINT = ("Ia", "fv", "fc", "fo")


def model_json(robot: RobotModel, terms: Terms, theta: Float) -> bytes:
    """Write robot, terms and parameters as JSON: all that is needed to compute the model's torque.

    `theta` (n_parameters,). Result: the file.
    """
    columns = terms.columns(robot)
    data = {
        "format": FORMAT,
        "kind": "dynid-model",
        "robot": robot_to_dict(robot),
        "terms": terms_to_spec(terms),
        "parameters": [
            {"name": column.name, "unit": column.unit, "value": float(value)}
            for column, value in zip(columns, theta, strict=True)
        ],
    }
    return (json.dumps(data, indent=1, allow_nan=False) + "\n").encode()


def read_model_json(path: str | Path) -> tuple[RobotModel, Terms, Float]:
    """Robot, terms and parameters (p,) of an exported JSON file; raises InputError for another file."""
    try:
        data: Any = json.loads(read_bytes(path, "a dynid model", MAX_BYTES))
        if data["kind"] != "dynid-model" or data["format"] != FORMAT:
            raise ValueError(f"kind {data['kind']}, format {data['format']}")
        refuse_missing([Need("term", name) for name in names_in_spec(data["terms"])], Place(file=str(path)))
        robot, terms = robot_from_dict(data["robot"]), terms_from_spec(data["terms"])
        values = {parameter["name"]: float(parameter["value"]) for parameter in data["parameters"]}
        return robot, terms, np.array([values[column.name] for column in terms.columns(robot)])
    except (LookupError, TypeError, ValueError, RecursionError, DynidError) as error:
        if isinstance(error, DynidError) and error.identifier == "missing-plugin":
            raise
        raise InputError(
            "model-json",
            found=f"a file that is no dynid model ({type(error).__name__}: {error})",
            expected=f"a file written by dynid export, format {FORMAT}",
            place=Place(file=str(path)),
        ) from error


def table(model: ExportModel, order: str) -> bytes:
    """CSV with one row per link: ten inertial parameters in Khalil's or pinocchio's order, then its joint."""
    robot = model.robot
    symbols = KHALIL if order == "khalil" else PINOCCHIO
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("body", "joint", *symbols, *_JOINT))
    for i, (body, joint) in enumerate(zip(robot.body_names, robot.tree_joint_names, strict=True)):
        pi = to_khalil(model.inertia[i]) if order == "khalil" else model.inertia[i]
        line = [repr(float(value)) for value in pi]
        if joint in robot.joint_names:
            j = robot.joint_names.index(joint)
            line += [repr(float(v[j])) for v in (model.rotor, model.viscous, model.coulomb, model.offset)]
        else:
            line += [""] * len(_JOINT)
        writer.writerow((_cell(body), _cell(joint), *line))
    return text.getvalue().encode()


def _cell(name: str) -> str:
    # A spreadsheet would take a name with a leading sign for a formula.
    return "'" + name if name[:1] in ("=", "+", "-", "@") else name


# Actuators for simulators that store them in a file of their own: gains, delay, armature and friction per joint.


def actuators_json(model: ExportModel) -> bytes:
    """Position controllers and drives as JSON, with the keys of Isaac Lab's DelayedPDActuatorCfg.

    stiffness, damping: N m/rad and N m s/rad.    armature: kg m^2.    friction: Coulomb, N m.    viscous_friction: N m
    s/rad.    effort_limit: N m, null = none.    min_delay, max_delay: s, from a command to its torque; divide them by
    the simulation's step.    hold: s, for which a command acts.    loop: "drive" if a late command meets the present
    motion, as in DelayedPDActuatorCfg; "computer" if the whole torque is late.

    Raises UsageError for a robot without known gains.
    """
    servo = model.robot.drive.servo
    if servo is None or not servo.known:
        raise UsageError(
            "no-gains",
            found="a robot without known gains of its position controllers",
            expected="a run identified from commanded positions, or a robot file with gains",
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
        for actuator in actuators:
            actuator["min_delay"] = actuator["max_delay"] = 0.0
    units = "rad, N m, kg m^2, s (m, N, kg of sliding joints)"
    return (
        json.dumps({"robot": model.robot.name, "units": units, "actuators": actuators}, indent=2).encode()
        + b"\n"
    )
