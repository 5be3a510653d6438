"""A robot in words: its tree, joints, limits, drives and prior masses."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float
from dynid.robot.model import RobotModel


def describe(robot: RobotModel) -> list[str]:
    """Lines of text for a terminal; control characters in names are written as escapes."""
    known = np.isfinite(robot.inertia_prior[:, 0])
    total = float(robot.inertia_prior[known, 0].sum())
    lines = [
        f"robot '{robot.name}' ({robot.source or 'built in code'})",
        f"  {robot.n} independent joint(s), {robot.n_bodies} moving bodies",
        f"  gravity {_vector(robot.gravity)} m/s^2",
        f"  prior mass of the moving bodies: {total:.4g} kg"
        + ("" if known.all() else f" ({int((~known).sum())} unknown)"),
        *(
            [f"  held: {', '.join(f'{j} at {x:.4g}' for j, x in robot.locked.items())}"]
            if robot.locked
            else []
        ),
        "",
        "tree:",
    ]
    depth: list[int] = []
    for i, body in enumerate(robot.body_names):
        parent = int(robot.parent[i])
        depth.append(0 if parent < 0 else depth[parent] + 1)
        mass = f"{robot.inertia_prior[i, 0]:.4g} kg" if known[i] else "mass unknown"
        parts = f" (with {', '.join(robot.merged[i][1:])})" if len(robot.merged[i]) > 1 else ""
        lines.append(f"  {'  ' * depth[i]}{i + 1} {body}{parts}: {mass}, {_joint(robot, i)}")
    lines += [
        "",
        f"{'joint':<24}"
        + "".join(f"{head:>10}" for head in ("lower", "upper", "velocity", "effort"))
        + f"{'gear':>9}{'rotor kg m2':>13}",
    ]
    for j, name in enumerate(robot.joint_names):
        limits = robot.limits
        numbers = (limits.lower[j], limits.upper[j], limits.velocity[j], limits.effort[j])
        lines.append(
            f"{name:<24}" + "".join(f"{_number(x):>10}" for x in numbers)
            + f"{_number(robot.drive.gear_ratio[j]):>9}{_number(robot.drive.rotor_inertia[j]):>13}"
        )  # fmt: skip
    return [_printable(line) for line in lines]


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def _joint(robot: RobotModel, i: int) -> str:
    text = f"{robot.joint_types[i]} joint '{robot.tree_joint_names[i]}' about {_vector(robot.axis[i])}"
    if robot.joint_types[i] == "prismatic":
        text = text.replace(" about ", " along ")
    row = robot.projection[i]
    if robot.tree_joint_names[i] not in robot.joint_names:
        leaders = [f"'{robot.joint_names[k]}' times {row[k]:g}" for k in np.flatnonzero(row)]
        text += f" (follows {' plus '.join(leaders) or 'nothing'})"
    return text


def _vector(values: Float) -> str:
    return "(" + ", ".join(f"{x:.4g}" for x in values) + ")"


def _number(value: float) -> str:
    return f"{value:.4g}" if np.isfinite(value) else "-"
