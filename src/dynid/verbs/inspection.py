"""What could be identified of a robot, in words."""

from __future__ import annotations

from dynid.factor.base import BaseMap, Category, structural_base
from dynid.robot.model import RobotModel
from dynid.rows.torque import TorqueRows
from dynid.terms.rigid_body import RigidBody
from dynid.terms.term import Terms


def describe_base(robot: RobotModel, seed: int = 0, terms: Terms | None = None) -> list[str]:
    """Lines of text: the number of base parameters, their groupings as formulas, and what nothing can determine.

    terms: the model; the rigid bodies alone when not given.
    """
    model = terms or Terms((RigidBody(),))
    base = structural_base(robot, model, TorqueRows(), seed)
    lines = [
        f"base parameters: {base.rank} of {len(base.names)} parameters ({', '.join(term.name for term in model)})",
        f"  singular values fall by a factor of {base.gap:.1e} behind the last one that counts",
        "",
        "groupings (number = body, counted from 1 at the base):",
    ]
    lines += [f"  {formula}" for formula in base.formulas()]
    lines += ["", *_categories(base)]
    lines += ["", "bodies:"]
    lines += [
        f"  {i + 1}: {body} (moved by joint '{joint}')"
        for i, (body, joint) in enumerate(zip(robot.body_names, robot.tree_joint_names, strict=True))
    ]
    return lines


def _categories(base: BaseMap) -> list[str]:
    categories = base.categories()
    lines = []
    for category in Category:
        members = [name for name, have in zip(base.names, categories, strict=True) if have is category]
        lines.append(f"{category} ({len(members)}): {', '.join(members) or 'none'}")
    return lines
