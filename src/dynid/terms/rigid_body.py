"""Rigid bodies: ten inertial parameters a body."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.records import dataclass
from dynid.kernel import (
    Panels,
    inverse_dynamics,
    kinetic_energy_regressor,
    momentum_rate_regressor,
    momentum_regressor,
    potential_energy_regressor,
    torque_regressor,
)
from dynid.kernel.adjoint import torque_jacobian
from dynid.robot.model import RobotModel
from dynid.signals.parallel import ParallelFilter
from dynid.signals.samples import Samples
from dynid.terms.exports import Kind, Part, Traits
from dynid.terms.forms import energy_form, exported_parts, filtered_regressor, momentum_form, torque_of
from dynid.terms.residual_tests import TermWords
from dynid.terms.term import Column, Of, Symbol, Term, empty_panels

INERTIAL_SYMBOLS = ("m", "mcx", "mcy", "mcz", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz")
INERTIAL_UNITS = ("kg", *("kg m",) * 3, *("kg m^2",) * 6)
_NON_NEGATIVE = {"m", "Ixx", "Iyy", "Izz"}


@dataclass(frozen=True)
class RigidBody(Term):
    """Torque of the rigid bodies, gravity included: tau = Y(q, dq, ddq) pi, ten parameters a body.

    Order m, mcx, mcy, mcz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz about the joint frame of the body. For a robot with
    mimic joints the tree's torque is projected on the independent joints, tau = J' tau_tree.
    Source: Newton-Euler recursion, linear in pi (Atkeson, An, Hollerbach 1986).
    """

    name: str = "rigid_body"
    traits = Traits(Kind.BODIES)
    words = TermWords(
        symbols=(
            Symbol("m", "m", "", "mass"),
            *(Symbol(f"mc{k}", "mc", k, f"first moment of mass along {k}") for k in "xyz"),
            *(Symbol(f"I{k}", "I", k, f"inertia {k} about the joint frame") for k in ("xx", "xy", "yy")),
            *(Symbol(f"I{k}", "I", k, f"inertia {k} about the joint frame") for k in ("xz", "yz", "zz")),
        )
    )

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """Ten columns a body."""
        return _columns(robot, self.name)

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """The kernel's panels, projected when there are mimic joints."""
        q, dq, ddq = robot.tree_motion(samples.q, samples.dq, samples.ddq)
        panels = torque_regressor(robot.tree, q, dq, ddq, columns=wanted)
        return _project(robot, panels) if robot.has_mimic else panels


@filtered_regressor.register(RigidBody)
def _(
    term: RigidBody,
    robot: RobotModel,
    samples: Samples,
    wanted: Bool,
    further: Sequence[Float],
    parallel: ParallelFilter,
    joints: Bool | None = None,
) -> Panels:
    """The kernel's panels, which it filters as it writes them down when there are no mimic joints."""
    found = None
    if not robot.has_mimic:
        found = parallel.torque_panels(robot.tree, samples, wanted, further, joints)
    return found or filtered_regressor.dispatch(object)(
        term, robot, samples, wanted, further, parallel, joints
    )


@exported_parts.register(RigidBody)
def _(term: RigidBody, robot: RobotModel, theta: Float) -> tuple[Part, ...] | None:
    """Nothing beside the bodies themselves."""
    return ()


@momentum_form.register(RigidBody)
def _(term: RigidBody, robot: RobotModel, samples: Samples, wanted: Bool) -> tuple[Panels, Panels]:
    """Generalised momentum P pi = M dq and R pi = -C' dq + g."""
    q, dq, _ = robot.tree_motion(samples.q, samples.dq, samples.ddq)
    P = momentum_regressor(robot.tree, q, dq, columns=wanted)
    R = momentum_rate_regressor(robot.tree, q, dq, columns=wanted)
    return (_project(robot, P), _project(robot, R)) if robot.has_mimic else (P, R)


@energy_form.register(RigidBody)
def _(term: RigidBody, robot: RobotModel, samples: Samples, wanted: Bool) -> tuple[Float, Panels]:
    """Kinetic and potential energy; nothing is lost."""
    q, dq, _ = robot.tree_motion(samples.q, samples.dq, samples.ddq)
    kinetic = kinetic_energy_regressor(robot.tree, q, dq, columns=wanted)
    potential = potential_energy_regressor(robot.tree, q, columns=wanted)
    return kinetic + potential, empty_panels(robot, samples)


@torque_of.register(RigidBody)
def _(term: RigidBody, robot: RobotModel, samples: Samples, theta: Float) -> Float:
    """The kernel's inverse dynamics, projected when there are mimic joints."""
    q, dq, ddq = robot.tree_motion(samples.q, samples.dq, samples.ddq)
    tree_torque = inverse_dynamics(robot.tree, theta, q, dq, ddq)
    return tree_torque @ robot.projection if robot.has_mimic else tree_torque


def _project(robot: RobotModel, tree_panels: Panels) -> Panels:
    columns, values = [], []
    T = tree_panels.values[0].shape[1]
    for joint in range(robot.n):
        bodies = np.flatnonzero(robot.projection[:, joint])
        union = np.unique(np.concatenate([tree_panels.columns[i] for i in bodies]))
        total = np.zeros((len(union), T))
        for i in bodies:
            total[np.searchsorted(union, tree_panels.columns[i])] += (
                robot.projection[i, joint] * tree_panels.values[i]
            )
        columns.append(union)
        values.append(total)
    return Panels(columns=tuple(columns), values=tuple(values))


@lru_cache(maxsize=32)
def _columns(robot: RobotModel, term: str) -> tuple[Column, ...]:
    # Asked for with every batch of samples. A body that is declared to have no mass has no parameters to be found.
    absent = ~np.any(robot.inertia_prior, axis=1)
    return tuple(
        Column(
            name=f"{symbol}{body + 1}",
            unit=unit,
            term=term,
            owner=body,
            prior=float(robot.inertia_prior[body, k]),
            lower=0.0 if symbol in _NON_NEGATIVE or absent[body] else -np.inf,
            upper=0.0 if absent[body] else np.inf,
            of=Of.BODY,
        )
        for body in range(robot.n_bodies)
        for k, (symbol, unit) in enumerate(zip(INERTIAL_SYMBOLS, INERTIAL_UNITS, strict=True))
    )


def torque_slopes(robot: RobotModel, inertia: Float, q: Float, dq: Float, ddq: Float) -> Float:
    """Derivatives (3, T, n, n) of the bodies' torque: by q, dq, ddq; sample; joint that moves; joint of torque.

    inertia: (nb, 10).    q, dq, ddq: (T, n).
    """
    J = torque_jacobian(robot.tree, inertia, *robot.tree_motion(q, dq, ddq))
    P = robot.projection
    return np.einsum("xj,ktxy,yi->ktji", P, J, P, optimize=True) if robot.has_mimic else np.array(J)
