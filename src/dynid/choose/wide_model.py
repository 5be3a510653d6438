"""Every column that some candidate model has, side by side in one model, so that a log is worked through once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.choose.position_waves import PositionWaves
from dynid.estimate.estimator import Estimate
from dynid.kernel import Panels
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.compliance import Compliance
from dynid.terms.coupling import JointCoupling
from dynid.terms.curve import CurveTerm, JointMotion
from dynid.terms.friction import Coulomb, Offset, Viscous
from dynid.terms.friction_choice import WIDTH
from dynid.terms.friction_curves import AsymmetricCoulomb, PolynomialFriction
from dynid.terms.friction_shapes import Presliding, SmoothCoulomb, Stribeck
from dynid.terms.measurement_effects import Drift, GainError, GravityTilt, Nominal, TorqueDelay
from dynid.terms.rotor import RotorInertia
from dynid.terms.term import Column, Of, Term, Terms

Label = tuple[str, int]
EVERYWHERE = -1
# Forms of friction with one shape, and at which shares of its range (logarithmic) they are tried.
SHAPED: dict[str, tuple[CurveTerm, tuple[float, ...]]] = {
    "tanh": (SmoothCoulomb(), (0.3, 0.45, 0.6, 0.75)),
    "presliding": (Presliding(), (0.2, 0.3, 0.4, 0.5, 0.6, 0.7)),
    "stribeck": (Stribeck(width=WIDTH), (0.3, 0.5, 0.7, 0.9)),
}
# Effects of the log, or of how it was taken, rather than of the robot.
FAULTS = ("delay", "lag", "gain", "drift", "tilt")
AXES_TERMS = (RotorInertia, Viscous, Coulomb, Offset)


@dataclass(frozen=True)
class Labelled(Term):
    """A term whose parameters carry a label, so that several of a kind can stand side by side."""

    inner: Term
    label: str
    name: str = "labelled"
    remembers: ClassVar[bool] = True

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """Those of the term, renamed."""
        return tuple(replace(c, name=f"{self.label}:{c.name}") for c in self.inner.columns(robot))

    def seen(self, samples: Samples) -> Samples:
        """What the term sees."""
        return self.inner.seen(samples)

    def alive(self, robot: RobotModel, moved: Bool) -> Bool:
        """That of the term."""
        return self.inner.alive(robot, moved)

    def channels(self) -> tuple[str, ...]:
        """Those of the term."""
        return self.inner.channels()

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """That of the term."""
        return self.inner.torque_regressor(robot, samples, wanted)

    def motor_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """That of the term."""
        return self.inner.motor_regressor(robot, samples, wanted)

    def momentum_form(self, robot: RobotModel, samples: Samples, wanted: Bool) -> tuple[Panels, Panels]:
        """That of the term."""
        return self.inner.momentum_form(robot, samples, wanted)

    def energy_form(self, robot: RobotModel, samples: Samples, wanted: Bool) -> tuple[Float, Panels]:
        """That of the term."""
        return self.inner.energy_form(robot, samples, wanted)


@dataclass(frozen=True, eq=False)
class Superset:
    """The wide model, and which of its columns belong to which effect on which joint (EVERYWHERE = on all).

    shapes: by label, the shape (s,) that stands in it.
    """

    terms: Terms
    members: dict[Label, tuple[str, ...]]
    shapes: dict[Label, Float]

    def names(self, labels: Iterable[Label]) -> tuple[str, ...]:
        """Columns of some effects."""
        return tuple(name for label in labels for name in self.members.get(label, ()))

    def joints(self, effect: str) -> tuple[Label, ...]:
        """Labels of an effect that acts joint by joint, in order."""
        return tuple(label for label in self.members if label[0] == effect)


def kept_terms(terms: Terms) -> Terms:
    """The terms that are in every candidate: all but rotors and plain friction."""
    return Terms(tuple(term for term in terms if not isinstance(term, AXES_TERMS)))


def nominal_model(robot: RobotModel, estimate: Estimate, before: Nominal | None = None) -> Nominal:
    """The bodies and drives of a fit.    before: drives of joints whose friction has another form now."""
    inertia = np.zeros(10 * robot.n_bodies)
    bodies = [i for i, c in enumerate(estimate.columns) if c.of is Of.BODY]
    inertia[: len(bodies)] = estimate.parameters[bodies]
    drives = np.zeros((4, robot.n)) if before is None else np.array(before.drives).reshape(4, robot.n)
    kinds = ("rotor_inertia", "viscous", "coulomb", "offset")
    for column, value in zip(estimate.columns, estimate.parameters, strict=True):
        if column.term in kinds:
            drives[kinds.index(column.term), column.owner] = value
    return Nominal(tuple(inertia.tolist()), tuple(drives.ravel().tolist()))


def found_delays(estimate: Estimate) -> dict[str, float]:
    """Delays of the torque that a fit holds, s, by name."""
    return {
        estimate.columns[i].name: float(value)
        for i, value in zip(estimate.base.independent, estimate.value, strict=True)
        if estimate.columns[i].term == TorqueDelay.name
    }


def superset(
    robot: RobotModel,
    kept: Terms,
    nominal: Nominal,
    late: Mapping[str, float],
    motion: Sequence[JointMotion],
    origin: float,
    wide: bool,
) -> Superset:
    """The wide model around the terms that every candidate has.

    late: delays found so far, s, by name.
    motion: of every joint, for the shapes of friction to try.    origin: of drift, s.
    wide: whether couplings and one-encoder compliance make sense with the rows at hand.
    """
    bodies, drives = nominal.inertia, nominal.drives
    every = late.get("delay", 0.0)
    alone = {f"delay{j + 1}": every + late.get(f"delay{j + 1}", 0.0) for j in range(robot.n)}
    labelled: list[tuple[str, Term]] = [
        ("rotor", RotorInertia()),
        ("viscous", Viscous()),
        ("coulomb", Coulomb(WIDTH)),
        ("offset", Offset()),
        ("sides", AsymmetricCoulomb(WIDTH)),
        ("cubic", PolynomialFriction((3,))),
        *_shaped(robot, motion),
        ("drift", Drift(origin)),
        ("tilt", GravityTilt(bodies)),
        ("delay", TorqueDelay(bodies, drives).near(robot, late)),
        ("lag", TorqueDelay(bodies, drives, each=True).near(robot, alone)),
        ("gain", GainError(bodies, drives, robot.joint_names)),
        ("position", PositionWaves()),
    ]
    if wide:
        labelled += [("coupling", JointCoupling(width=WIDTH)), ("compliance", Compliance(bodies))]
    terms = Terms((*kept.terms, *(Labelled(term, label) for label, term in labelled)))
    members: dict[Label, list[str]] = {("kept", EVERYWHERE): [c.name for c in kept.columns(robot)]}
    shapes: dict[Label, Float] = {}
    for label, term in labelled:
        for i, column in enumerate(term.columns(robot)):
            place = (
                EVERYWHERE if label in ("tilt", "delay") else i // 3 if label == "coupling" else column.owner
            )
            members.setdefault((label, place), []).append(f"{label}:{column.name}")
            if isinstance(term, CurveTerm) and term.shapes:
                shapes[label, place] = term.shape_table(robot)[column.owner]
    return Superset(terms, {label: tuple(names) for label, names in members.items()}, shapes)


def _shaped(robot: RobotModel, motion: Sequence[JointMotion]) -> list[tuple[str, Term]]:
    """Friction with a nonlinear parameter at a few of its values each, joint by joint within its own range."""
    found: list[tuple[str, Term]] = []
    for name, (term, shares) in SHAPED.items():
        ranges = np.array([term.range_of(one if one.peak > 0 else _STILL)[0] for one in motion])
        for k, share in enumerate(shares):
            shapes = ranges[:, 0] * (ranges[:, 1] / ranges[:, 0]) ** share
            found.append((f"{name}@{k}", term.with_shape_table(shapes[:, None])))
    return found


_STILL = JointMotion(1.0, 1.0, 1.0)
