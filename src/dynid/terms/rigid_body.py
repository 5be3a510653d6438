"""Rigid links: ten inertial parameters per link."""

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
from dynid.terms.exports import Column, Kind, Of, Part, Symbol, Traits, empty_panels, mapped_panels
from dynid.terms.forms import energy_form, exported_parts, filtered_regressor, momentum_form, torque_of
from dynid.terms.residual_tests import TermWords
from dynid.terms.term import Term

# Inertial parameters in the order of the kernel, their units, and those with a lower bound of zero.
INERTIAL_SYMBOLS = ("m", "mcx", "mcy", "mcz", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz")
INERTIAL_UNITS = ("kg", *("kg m",) * 3, *("kg m^2",) * 6)
_NON_NEGATIVE = {"m", "Ixx", "Iyy", "Izz"}


@dataclass(frozen=True)
class RigidBody(Term):
    """Torque of the rigid links, gravity included: tau = Y(q, dq, ddq) pi, ten parameters per link.

    The order is m, mcx, mcy, mcz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz, about the joint frame of the link. With mimic joints
    the torque is projected on the independent joints, tau = J' tau_tree.

    References
    ----------
    Newton-Euler recursion, linear in pi (Atkeson, An, Hollerbach 1986).

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
        """Ten columns per link."""
        return _columns(robot, self.name)

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """Regressor of the kernel, projected if there are mimic joints."""
        q, dq, ddq = robot.tree_motion(samples.q, samples.dq, samples.ddq)
        panels = torque_regressor(robot.tree, q, dq, ddq, columns=wanted)
        return mapped_panels(panels, robot.projection) if robot.has_mimic else panels


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
    """Filter the regressor while the kernel computes it, which is faster; not possible with mimic joints."""
    panels = None
    if not robot.has_mimic:
        panels = parallel.torque_panels(robot.tree, samples, wanted, further, joints)
    return panels or filtered_regressor.dispatch(object)(
        term, robot, samples, wanted, further, parallel, joints
    )


@exported_parts.register(RigidBody)
def _(term: RigidBody, robot: RobotModel, theta: Float) -> tuple[Part, ...] | None:
    """Nothing: exporters write the links themselves."""
    return ()


@momentum_form.register(RigidBody)
def _(term: RigidBody, robot: RobotModel, samples: Samples, wanted: Bool) -> tuple[Panels, Panels]:
    """Generalised momentum P pi = M dq, and R pi = -C' dq + g."""
    q, dq, _ = robot.tree_motion(samples.q, samples.dq, samples.ddq)
    P = momentum_regressor(robot.tree, q, dq, columns=wanted)
    R = momentum_rate_regressor(robot.tree, q, dq, columns=wanted)
    return (
        (mapped_panels(P, robot.projection), mapped_panels(R, robot.projection))
        if robot.has_mimic
        else (P, R)
    )


@energy_form.register(RigidBody)
def _(term: RigidBody, robot: RobotModel, samples: Samples, wanted: Bool) -> tuple[Float, Panels]:
    """Kinetic and potential energy; no torque does work."""
    q, dq, _ = robot.tree_motion(samples.q, samples.dq, samples.ddq)
    kinetic = kinetic_energy_regressor(robot.tree, q, dq, columns=wanted)
    potential = potential_energy_regressor(robot.tree, q, columns=wanted)
    return kinetic + potential, empty_panels(robot, samples)


@torque_of.register(RigidBody)
def _(term: RigidBody, robot: RobotModel, samples: Samples, theta: Float) -> Float:
    """Inverse dynamics of the kernel, projected if there are mimic joints."""
    q, dq, ddq = robot.tree_motion(samples.q, samples.dq, samples.ddq)
    tree_torque = inverse_dynamics(robot.tree, theta, q, dq, ddq)
    return tree_torque @ robot.projection if robot.has_mimic else tree_torque


@lru_cache(maxsize=32)
def _columns(robot: RobotModel, term: str) -> tuple[Column, ...]:
    # Cached because every batch of samples asks for them. A link that is declared massless has no parameters.
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
    """Derivatives of the torque of the links with respect to the motion.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    inertia : ndarray, shape (nb, 10)
        Inertial parameters.
    q, dq, ddq : ndarray, shape (T, n)
        Motion of the joints.

    Returns
    -------
    ndarray, shape (3, T, n, n)
        [k, t, j, i] = d tau_i / d x_j at sample t, with x = q, dq, ddq for k = 0, 1, 2.

    """
    J = torque_jacobian(robot.tree, inertia, *robot.tree_motion(q, dq, ddq))
    P = robot.projection
    return np.einsum("xj,ktxy,yi->ktji", P, J, P, optimize=True) if robot.has_mimic else np.array(J)
