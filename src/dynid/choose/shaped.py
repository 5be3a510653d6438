"""Terms whose shapes are open: as they are before a search, on some joints, and put together again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dynid.robot.model import RobotModel
from dynid.terms.curve import CurveTerm, ShapedTerm
from dynid.terms.joint_term import joints_of, on_joints
from dynid.terms.term import Term, Terms


def is_open(terms: Terms) -> bool:
    """Whether a model has a choice to make, a load or a shape to estimate."""
    return any(term.is_open for term in terms)


def nominal(terms: Terms, robot: RobotModel) -> Terms:
    """Terms with baseline friction and typical shapes, to start from."""
    made: list[Term] = []
    for term in terms:
        plain = plainest(term, joints_of(term))
        if plain is not None:
            made += list(plain)
        elif isinstance(term, ShapedTerm) and term.shapes:
            table = term.shape_table(robot)
            nominal = np.array([shape.typical for shape in term.shapes])
            made.append(term.with_shape_table(np.where(np.isnan(table), nominal, table)))
        else:
            made.append(term)
    return Terms(tuple(made))


def plainest(term: Term, joints: tuple[str, ...]) -> Terms | None:
    """The first of a term's alternatives; None for a term without any."""
    return next(iter(term.alternatives(joints).values()), None)


def merged(parts: Sequence[Terms], robot: RobotModel) -> list[Term]:
    """Terms on one joint each, put together to terms on all joints that share a form."""
    groups: dict[Term, list[Term]] = {}
    for terms in parts:
        for term in terms:
            groups.setdefault(_form(term), []).append(term)
    return [_joined(form, members, robot) for form, members in groups.items()]


def _form(term: Term) -> Term:
    plain = on_joints(term, ())
    if not isinstance(term, CurveTerm):
        return plain
    return replace(plain, **{shape.name: None for shape in term.shapes})


def _joined(form: Term, members: Sequence[Term], robot: RobotModel) -> Term:
    names = [joints_of(member)[0] for member in members]
    order = sorted(range(len(names)), key=lambda i: robot.joint_names.index(names[i]))
    on = () if len(names) == robot.n else tuple(names[i] for i in order)
    whole = on_joints(form, on)
    if isinstance(whole, CurveTerm) and whole.shapes:
        rows = [m.shape_table(robot)[0] for m in (members[i] for i in order) if isinstance(m, CurveTerm)]
        return whole.with_shape_table(np.array(rows))
    return whole
