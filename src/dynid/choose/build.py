"""From the options that were chosen to the terms of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np

from dynid.choose.coupled_drives import at_motor, spring_at
from dynid.choose.wide_model import EVERYWHERE, SHAPED, Label, Superset
from dynid.robot.model import RobotModel
from dynid.terms.compliance import Compliance
from dynid.terms.coupling import JointCoupling
from dynid.terms.curve import CurveTerm
from dynid.terms.friction import Coulomb, Offset, Viscous
from dynid.terms.friction_choice import WIDTH
from dynid.terms.friction_curves import AsymmetricCoulomb, PolynomialFriction
from dynid.terms.measurement_effects import Drift, GainError, GravityTilt, Nominal, TorqueDelay
from dynid.terms.rotor import RotorInertia
from dynid.terms.term import Term, Terms, joint_indices, on_joints

Names = tuple[str, ...]


def terms_of(
    robot: RobotModel, kept: Terms, effects: Iterable[Label], nominal: Nominal, origin: float
) -> Terms:
    """The kept terms and chosen effects as terms; shapes are left open, to be sought with all joints together."""
    labels = set(effects)

    def on(*effects: str) -> tuple[str, ...] | None:
        """Names of the joints with one of these effects, () = all, None = none."""
        joints = sorted({j for effect, j in labels if effect in effects})
        return (
            None
            if not joints
            else ()
            if len(joints) == robot.n
            else tuple(robot.joint_names[j] for j in joints)
        )

    found: list[Term] = list(kept.terms)
    if on("rotor") is not None:
        found.append(RotorInertia())
    made: list[tuple[tuple[str, ...], Callable[[Names], Term]]] = [
        (("viscous",), lambda names: Viscous(joints=names)),
        (("coulomb",), lambda names: Coulomb(WIDTH, joints=names)),
        (("sides",), lambda names: AsymmetricCoulomb(WIDTH, joints=names)),
        (("cubic",), lambda names: PolynomialFriction((3,), joints=names)),
        *((_grid(name), partial(_of_shape, name)) for name in SHAPED),
        (("offset",), lambda names: Offset(joints=names)),
        (("drift",), lambda names: Drift(origin, joints=names)),
        (("compliance",), lambda names: Compliance(nominal.inertia, joints=names)),
        (("lag",), lambda names: TorqueDelay(nominal.inertia, nominal.drives, each=True, joints=names)),
        (("gain",), lambda names: GainError(nominal.inertia, nominal.drives, joints=names)),
    ]
    for kinds, build in made:
        names = on(*kinds)
        if names is not None:
            found.append(build(names))
    found += [term for effect, i in sorted(labels) if effect == "motor" for term in at_motor(robot, i)]
    found += [spring_at(robot, j) for effect, j in sorted(labels) if effect == "spring"]
    pairs = JointCoupling().pairs(robot)
    coupled = [pairs[i] for effect, i in sorted(labels) if effect == "coupling"]
    if coupled:
        names = robot.joint_names
        found.append(
            JointCoupling(tuple(names[j] for j, _ in coupled), tuple(names[k] for _, k in coupled), WIDTH)
        )
    if ("tilt", EVERYWHERE) in labels:
        found.append(GravityTilt(nominal.inertia))
    if ("delay", EVERYWHERE) in labels:
        found.append(TorqueDelay(nominal.inertia, nominal.drives))
    return Terms(tuple(found))


def started(robot: RobotModel, terms: Terms, effects: Iterable[Label], wide: Superset) -> Terms:
    """The terms with the best shapes on the grid in place of open ones."""
    tried = {label: wide.shapes[label] for label in effects if label in wide.shapes}
    made: list[Term] = []
    for term in terms:
        if isinstance(term, CurveTerm) and term.shapes and np.isnan(term.shape_table(robot)).any():
            name = next(name for name, (kind, _) in SHAPED.items() if kind.name == term.name)
            rows = [
                next(
                    shape for (effect, joint), shape in tried.items() if joint == j and effect in _grid(name)
                )
                for j in joint_indices(robot, term.joints)
            ]
            made.append(term.with_shape_table(np.array(rows)))
        else:
            made.append(term)
    return Terms(tuple(made))


def _grid(name: str) -> tuple[str, ...]:
    return tuple(f"{name}@{k}" for k in range(len(SHAPED[name][1])))


def _of_shape(name: str, joints: Names) -> Term:
    return on_joints(SHAPED[name][0], joints)
