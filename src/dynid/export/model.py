"""What other programs can hold of an identified model: bodies, rotors and joint friction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dynid.arrays import Float, locked
from dynid.diagnostics import Diagnostics
from dynid.errors import UsageError
from dynid.identification import Identification
from dynid.kernel import inverse_dynamics
from dynid.robot.model import RobotModel
from dynid.spatial.inertia import eigenvalues, is_physical
from dynid.terms.friction import Coulomb, smooth_sign
from dynid.terms.term import Column, Terms

# Rounding of parameters that lie on the border of what is physical.
BORDER = 1e-10
_HELD = ("rotor_inertia", "viscous", "coulomb", "offset")
# These describe the measurement or the load of a log, not the robot.
_NOT_OF_THE_ROBOT = ("drive_gain", "known_payload")


@dataclass(frozen=True, eq=False)
class ExportModel:
    """tau = rigid bodies + rotor ddq + viscous dq + coulomb s(dq) + offset, s = tanh(dq / width) or the sign.

    inertia: (nb, 10) m, mcx, ..., Izz about the joint frames.
    rotor, viscous, coulomb, offset: (n,), joint side.    width: (n,) rad/s or m/s, 0 = plain sign.
    left_out: names of terms of the identified model that are not among these.
    """

    robot: RobotModel
    inertia: Float
    rotor: Float
    viscous: Float
    coulomb: Float
    offset: Float
    width: Float
    left_out: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "inertia", locked(self.inertia, (self.robot.n_bodies, 10), "inertia"))
        for name in ("rotor", "viscous", "coulomb", "offset", "width"):
            object.__setattr__(self, name, locked(getattr(self, name), (self.robot.n,), name))
        for name in ("inertia", "rotor", "viscous", "coulomb", "offset", "width"):
            if not np.isfinite(getattr(self, name)).all():
                raise UsageError(
                    "export-finite",
                    found=f"{name} with unknown or infinite numbers",
                    expected="finite numbers",
                )

    @staticmethod
    def of_run(run: Identification, parameters: Float | None = None) -> ExportModel:
        """The model of a run with its full parameters, or with others, (p,)."""
        theta = run.estimate.parameters if parameters is None else parameters
        return ExportModel.of_terms(run.robot, run.terms, theta)

    @staticmethod
    def of_terms(robot: RobotModel, terms: Terms, theta: Float) -> ExportModel:
        """The model of terms with parameters theta (p,); raises UsageError without the term of rigid bodies."""
        columns = terms.columns(robot)
        if not any(column.term == "rigid_body" for column in columns):
            raise UsageError(
                "no-rigid-body", found="a model without the term rigid_body", expected="inertial parameters"
            )
        values = {name: _by_joint(columns, theta, name, robot.n) for name in _HELD}
        width = np.zeros(robot.n)
        for term in terms:
            if isinstance(term, Coulomb):
                width[:] = term.width
        known = {"rigid_body", *_HELD, *_NOT_OF_THE_ROBOT}
        return ExportModel(
            robot=robot,
            inertia=np.array(
                [value for c, value in zip(columns, theta, strict=True) if c.term == "rigid_body"]
            ).reshape(robot.n_bodies, 10),
            rotor=values["rotor_inertia"],
            viscous=values["viscous"],
            coulomb=values["coulomb"],
            offset=values["offset"],
            width=width,
            left_out=tuple(dict.fromkeys(term.name for term in terms if term.name not in known)),
        )

    def rigid_torque(self, q: Float, dq: Float, ddq: Float) -> Float:
        """M ddq + C dq + g, rotors included, (T, n)."""
        tree = self.robot.tree_motion(q, dq, ddq)
        return (
            inverse_dynamics(self.robot.tree, self.inertia, *tree) @ self.robot.projection + self.rotor * ddq
        )

    def friction(self, dq: Float) -> Float:
        """Viscous dq + coulomb s(dq) + offset, (T, n)."""
        signs = np.column_stack([smooth_sign(dq[:, j], float(self.width[j])) for j in range(self.robot.n)])
        return self.viscous * dq + self.coulomb * signs + self.offset

    def torque(self, q: Float, dq: Float, ddq: Float) -> Float:
        """Torque of the whole exported model, (T, n)."""
        return self.rigid_torque(q, dq, ddq) + self.friction(dq)

    def unphysical(self) -> tuple[str, ...]:
        """What no real robot has, one sentence each: eigenvalues of bodies, negative friction or rotors."""
        found = [
            body_fault(name, pi)
            for name, pi in zip(self.robot.body_names, self.inertia, strict=True)
            if not is_physical(pi, BORDER)
        ]
        for what in ("rotor", "viscous", "coulomb"):
            label = "rotor inertia" if what == "rotor" else f"{what} friction"
            found += [
                f"joint '{self.robot.joint_names[j]}': {label} {value:.4g}"
                for j, value in enumerate(getattr(self, what))
                if value < 0
            ]
        return tuple(found)


def body_fault(name: str, pi: Float) -> str:
    """A sentence that tells why ten numbers belong to no body."""
    values = ", ".join(f"{value:.3g}" for value in eigenvalues(pi))
    return f"body '{name}': mass {pi[0]:.4g} kg, pseudo-inertia eigenvalues {values}"


def note_left_out(model: ExportModel, kind: str, further: Sequence[str], diagnostics: Diagnostics) -> None:
    """Warns of what a file format cannot hold."""
    missing = [*model.left_out, *further]
    if missing:
        diagnostics.warn(
            "export-left-out", f"{kind} cannot hold {', '.join(missing)}: the exported model is without it"
        )


def _by_joint(columns: Sequence[Column], theta: Float, term: str, n: int) -> Float:
    values = np.zeros(n)
    for column, value in zip(columns, theta, strict=True):
        if column.term == term:
            values[column.owner] = value
    return values
