"""Identification of robots of 2 to 55 joints: processor time and peak memory beside the model and the verdict.

    python benchmarks/joints.py [--robots xarm7 g1] [--seconds 60] [--rate 500] [--plain] [--out rows.jsonl]
    python benchmarks/joints.py --against rows.jsonl

Published URDFs of the package example-robot-data, and a random tree, follow a Fourier series on a fixed base; pinocchio
gives the torque of their links, to which rotors, friction and noise are added. Every log, of positions, velocities and
torques in Parquet, is identified by `dynid identify ROBOT LOG` in a fresh process on one thread; --plain adds
--no-auto.
With --against, rows of an earlier --out are expected: the benchmark exits 1 if a model, verdict or finding differs, or
a parameter by more than 1e-9 of its interval or size.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import (
    Row,
    append,
    dynid_command,
    figure,
    markdown,
    note,
    parser,
    pinocchio_model,
    rows_of,
)

import numpy as np

from dynid.base import Float
from dynid.log import canonical_columns, write_log
from dynid.robot import Limits, RobotModel, load_robot
from dynid.testing import random_robot
from dynid.testing.plants import example_robots
from dynid.trajectories import FourierTrajectory

# Files in example-robot-data; a number is that of the joints of a random tree.
ROBOTS: dict[str, str | int] = {
    "two_dof": "asr_twodof_description/urdf/TwoDofs.urdf",
    "xarm7": "xarm_description/urdf/xarm7.urdf",
    "allegro": "allegro_hand_description/urdf/allegro_right_hand.urdf",
    "g1": "g1_description/urdf/g1_29dof_rev_1_0.urdf",
    "g1_hands": "g1_description/urdf/g1_29dof_with_hand_rev_1_0.urdf",
    "talos": "talos_data/robots/talos_full_v2.urdf",
    "tree55": 55,
}
SPEED, REACH = 1.5, 1.2  # rad/s, and rad about the middle of a joint's range
TORQUE_NOISE, ENCODER = 0.005, 2.0 * np.pi / 2.0**17  # share of the peak; rad a count
SAME = 1e-9


def main(arguments: Sequence[str] | None = None) -> int:
    """The benchmark; see the module."""
    options = parser(
        __doc__, robots=list(ROBOTS), seconds=60.0, rate=500.0, plain=False, out=Path, against=Path
    )
    given = options.parse_args(arguments)
    # Modules are compiled once, as pip leaves them.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    expected = {row["robot"]: row for row in rows_of(given.against)}
    rows, different = [], []
    for name in given.robots:
        row = measured(name, given.seconds, given.rate, given.plain)
        note(f"{name}: {row['processor']:.1f} s, {row['megabytes']:.0f} MB, {row['verdict']}")
        append(given.out, row)
        rows.append(row)
        if name in expected:
            different += [f"{name}: {text}" for text in differences(expected[name], row)]
    head = ("robot", "joints", "links", "processor, s", "peak, MB", "verdict", "held-out error, %", "model")
    print(
        markdown(
            head,
            [
                (
                    row["robot"], row["joints"], row["links"], figure(row["processor"]), figure(row["megabytes"]),
                    row["verdict"], figure(row["error"]), ", ".join(row["model"]),
                )
                for row in rows
            ],
        )
    )  # fmt: skip
    for text in different:
        print(text)
    return int(bool(different))


def measured(name: str, seconds: float, rate: float, plain: bool = False) -> Row:
    """The command on the log of a robot: what it costs and what it answers."""
    with tempfile.TemporaryDirectory() as folder:
        path, log = write(name, Path(folder), seconds, rate)
        out = Path(folder) / "run"
        ended = dynid_command("identify", path, log, "--out", out, *(["--no-auto"] if plain else []))
        robot = load_robot(path)
        row = {
            "robot": name,
            "joints": robot.n,
            "links": len(robot.body_names),
            "exit": ended.code,
            "processor": ended.seconds,
            "megabytes": ended.megabytes,
        }
        if not (out / "run.json").is_file():
            return row | {
                "verdict": "-",
                "error": None,
                "model": (ended.errors or ended.output).splitlines()[-1:],
            }
        return row | answer(out)


def answer(run: Path) -> Row:
    """What a run folder says: verdict, codes of findings, terms, and parameters with their intervals."""
    result, model = (json.loads((run / name).read_text()) for name in ("run.json", "model.json"))
    estimate, verdict, selection = model["estimate"], result["verdict"], result["selection"] or {}
    return {
        "verdict": verdict["level"],
        "codes": [finding["code"] for finding in verdict["findings"]],
        "error": 100 * result["scores"][-1]["total_relative"],
        "model": [term["term"] for term in model["terms"]],
        "forms": {choice["joint"]: choice["form"] for choice in selection.get("friction", [])},
        # A coefficient in a name may round either way.
        "names": [re.sub(r"[0-9.e-]+ ", "", name) for name in estimate["names"]],
        "value": estimate["value"],
        "std": estimate["std"],
    }


def differences(before: Row, now: Row) -> list[str]:
    """In what two answers to one log differ."""
    compared = ("exit", "verdict", "codes", "model", "forms")
    texts = [
        f"{key}: {before.get(key)} -> {now.get(key)}" for key in compared if before.get(key) != now.get(key)
    ]
    if texts or "value" not in now:
        return texts
    if before["names"] != now["names"]:
        return ["other base parameters"]
    for key in ("value", "std"):
        old, new = np.array(before[key]), np.array(now[key])
        away = np.abs(new - old) / np.maximum(np.abs(old), before["std"])
        if away.max() > SAME:
            texts.append(
                f"{key} of {now['names'][int(away.argmax())]}: by {away.max():.1e} of its interval or size"
            )
    return texts


def write(name: str, folder: Path, seconds: float, rate: float) -> tuple[Path, Path]:
    """Write a robot file and a log.

    Parameters
    ----------
    name : str
        Robot of `ROBOTS`.
    folder : Path
        Where the files are written.
    seconds : float, s
        Length of the log.
    rate : float, Hz
        Sampling rate.

    Returns
    -------
    robot, log : Path

    """
    source = ROBOTS[name]
    if isinstance(source, int):
        path = write_urdf(random_robot(1, source, branching=0.3), folder / "robot.urdf")
    else:
        path = example_robots() / source
    robot, rng = load_robot(path), np.random.default_rng(0)
    lower, upper = np.maximum(robot.limits.lower, -3.0), np.minimum(robot.limits.upper, 3.0)
    middle, reach = 0.5 * (lower + upper), np.minimum(0.5 * (upper - lower), REACH)
    bounds = Limits(middle - reach, middle + reach, np.full(robot.n, SPEED), np.full(robot.n, np.inf))
    t = np.arange(round(seconds * rate)) / rate
    motion = FourierTrajectory.random(replace(robot, limits=bounds), seconds, 5, 0, 0.1)
    q, dq, ddq = motion.motion(t)
    tau = link_torque(robot, q, dq, ddq)
    scale = np.abs(tau).max(axis=0)
    tau += scale / SPEED * rng.uniform(0.05, 0.15, robot.n) * dq
    tau += scale * rng.uniform(0.05, 0.2, robot.n) * np.tanh(dq / (5e-3 * SPEED))
    tau += scale * rng.uniform(0.01, 0.05, robot.n) * ddq
    tau += TORQUE_NOISE * scale * rng.normal(size=tau.shape)
    velocity = dq + ENCODER / 8e-3 / np.sqrt(12.0) * rng.normal(size=dq.shape)
    columns = canonical_columns(robot.joint_names, np.round(q / ENCODER) * ENCODER, dq=velocity, tau=tau)
    return path, write_log(folder / "log.parquet", t, columns)


def link_torque(robot: RobotModel, q: Float, dq: Float, ddq: Float) -> Float:
    """Torque of the links at the joints, (T, n), by pinocchio."""
    import pinocchio as pin

    model, P = pinocchio_model(robot), robot.projection
    data = model.createData()
    motion = zip(q @ P.T + robot.projection_offset, dq @ P.T, ddq @ P.T, strict=True)
    return np.array([pin.rnea(model, data, *state) for state in motion]) @ P


def write_urdf(robot: RobotModel, path: Path) -> Path:
    """Write the links and joints of a robot without followers."""
    root = ElementTree.Element("robot", name=robot.name)
    ElementTree.SubElement(root, "link", name="base")
    for i, name in enumerate(robot.body_names):
        mass, *first, xx, xy, yy, xz, yz, zz = map(float, robot.inertia_prior[i])
        com = np.array(first) / mass
        about_com = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) - mass * (
            com @ com * np.eye(3) - np.outer(com, com)
        )
        link = ElementTree.SubElement(root, "link", name=name)
        inertial = ElementTree.SubElement(link, "inertial")
        ElementTree.SubElement(inertial, "origin", xyz=words(com))
        ElementTree.SubElement(inertial, "mass", value=repr(mass))
        pairs = {"ixx": (0, 0), "ixy": (0, 1), "ixz": (0, 2), "iyy": (1, 1), "iyz": (1, 2), "izz": (2, 2)}
        ElementTree.SubElement(
            inertial, "inertia", {key: repr(float(about_com[ij])) for key, ij in pairs.items()}
        )
        joint = ElementTree.SubElement(
            root, "joint", name=robot.tree_joint_names[i], type=robot.joint_types[i].value
        )
        parent = int(robot.parent[i])
        ElementTree.SubElement(joint, "parent", link="base" if parent < 0 else robot.body_names[parent])
        ElementTree.SubElement(joint, "child", link=name)
        R = robot.T_parent_joint[i][:3, :3]
        rpy = (np.arctan2(R[2, 1], R[2, 2]), -np.arcsin(R[2, 0]), np.arctan2(R[1, 0], R[0, 0]))
        ElementTree.SubElement(joint, "origin", xyz=words(robot.T_parent_joint[i][:3, 3]), rpy=words(rpy))
        ElementTree.SubElement(joint, "axis", xyz=words(robot.axis[i]))
        ElementTree.SubElement(joint, "limit", lower="-2", upper="2", velocity="20", effort="10000")
    ElementTree.ElementTree(root).write(path)
    return path


def words(numbers: Sequence[float] | Float) -> str:
    """Numbers as an attribute of a URDF."""
    return " ".join(repr(float(number)) for number in numbers)


if __name__ == "__main__":
    sys.exit(main())
