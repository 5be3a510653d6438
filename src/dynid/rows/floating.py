"""Equations of a robot whose base floats: forces and moments on the base, and torques, without the contact forces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.records import dataclass
from dynid.kernel import Tree
from dynid.robot.model import RobotModel
from dynid.rows.rows import Equations
from dynid.rows.torque import TorqueRows
from dynid.rows.wrench import virtual_motion
from dynid.signals.samples import Samples
from dynid.spatial.algebra import skew
from dynid.terms.term import Terms

# Channels of the samples: whether each contact may push, (T, k), and the direction against gravity in the axes of the
# base link, (T, 3).
CONTACT, UP = "contact", "up"
# Number of the first joint of the robot itself, and of the base link.
FIRST, BASE = 6, 5
# Relative size of singular values below which forces of contacts have the same effect.
SAME_EFFECT = 1e-8
# Samples whose projections are computed together, so that they stay in the processor's cache.
_BATCH = 256


@dataclass(frozen=True)
class Contact:
    """Where something outside may push on a link: a foot, a hook, a clamp.

    Attributes
    ----------
    link : str
        Name of the link.
    body : int
        Body of the floating robot that carries it.
    point : tuple of float, m
        Centre of the foot in the joint frame of this body.
    radius : float, m
        A ball about the centre: the ground pushes at its lowest point.
    moment : bool
        Whether a moment is transferred, too, as by a flat foot.
    measured : bool
        Whether its vertical force is measured and contained in the torques, so that only the others are unknown.

    """

    link: str
    body: int
    point: tuple[float, float, float]
    radius: float = 0.0
    moment: bool = False
    measured: bool = False

    @property
    def rows(self) -> int:
        """Number of unknown forces and moments."""
        return 6 if self.moment else 3


def placements(tree: Tree, q: Float) -> tuple[Float, Float]:
    """Orientation (T, nb, 3, 3) and origin (T, nb, 3) of the joint frames in the base frame."""
    T = len(q)
    R, p = np.zeros((T, tree.n, 3, 3)), np.zeros((T, tree.n, 3))
    for i in range(tree.n):
        parent = int(tree.parent[i])
        turned = np.broadcast_to(tree.rotation[i], (T, 3, 3))
        at = np.broadcast_to(tree.translation[i], (T, 3))
        if parent >= 0:
            turned, at = R[:, parent] @ turned, p[:, parent] + R[:, parent] @ tree.translation[i]
        if tree.prismatic[i]:
            R[:, i], p[:, i] = turned, at + q[:, i, None] * (turned @ tree.axis[i])
            continue
        K = skew(tree.axis[i])
        angle = q[:, i, None, None]
        R[:, i], p[:, i] = turned @ (np.eye(3) + np.sin(angle) * K + (1.0 - np.cos(angle)) * (K @ K)), at
    return R, p


def contact_jacobian(robot: RobotModel, contacts: tuple[Contact, ...], q: Float, up: Float) -> Float:
    """Jacobian of all contacts: velocities of their points, and angular velocities of those with a moment.

    Parameters
    ----------
    robot : RobotModel
        The floating robot.
    contacts : tuple of Contact
        Its contacts.
    q : ndarray, shape (T, n), rad (m)
        Positions, zero for the base.
    up : ndarray, shape (T, 3)
        Unit vector against gravity, in the axes of the base link.

    Returns
    -------
    ndarray, shape (T, rows, n)
        In the axes of the world; rows of one contact after the other.

    """
    tree = robot.tree
    moved = robot.tree_motion(q, q, q)[0]
    R, p = placements(tree, moved)
    vertical = vertical_in_world(robot, up)
    parts = []
    for contact in contacts:
        at = p[:, contact.body] + R[:, contact.body] @ np.array(contact.point) - contact.radius * vertical
        J = np.zeros((len(q), contact.rows, tree.n))
        for i in tree.paths[contact.body]:
            axis = R[:, i] @ tree.axis[i]
            J[:, :3, i] = axis if tree.prismatic[i] else np.cross(axis, at - p[:, i])
            if contact.moment and not tree.prismatic[i]:
                J[:, 3:, i] = axis
        parts.append(J @ robot.projection if robot.has_mimic else J)
    return np.concatenate(parts, axis=1) if parts else np.zeros((len(q), 0, robot.n))


def vertical_in_world(robot: RobotModel, up: Float) -> Float:
    """Unit vectors (T, 3) against gravity in the axes of `contact_jacobian`, from those of the base link."""
    return up @ robot.T_parent_joint[0, :3, :3].T


def unknown_forces(robot: RobotModel, contacts: tuple[Contact, ...], J: Float, up: Float) -> Float:
    """The Jacobian of `contact_jacobian` without the vertical forces that are measured: their rows have no effect."""
    J, first = J.copy(), 0
    vertical = vertical_in_world(robot, up)
    for contact in contacts:
        if contact.measured:
            along = np.einsum("ti,tin->tn", vertical, J[:, first : first + 3])
            J[:, first : first + 3] -= vertical[:, :, None] * along[:, None]
        first += contact.rows
    return J


def free_of_forces(J: Float, sigma: Float) -> Float:
    """Projection of torques whose result does not depend on forces f in tau + J' f.

    P = S (I - A^+ A) / S with A = J / S and S = diag(sigma): what is left over of torques with these errors after the
    most probable forces. It equals I - J' (J J')^-1 J where all sigma are equal.

    Parameters
    ----------
    J : ndarray, shape (T, rows, n)
        Jacobians.
    sigma : ndarray, shape (n,)
        Standard deviations of the torques.

    Returns
    -------
    ndarray, shape (T, n, n)

    """
    scaled = J / sigma
    inverse = np.linalg.pinv(scaled @ scaled.transpose(0, 2, 1), rcond=SAME_EFFECT, hermitian=True)
    hat = scaled.transpose(0, 2, 1) @ inverse @ scaled
    return np.asarray((np.eye(J.shape[2]) - hat) * sigma[:, None] / sigma)


@dataclass(frozen=True)
class FloatingRows:
    """Projected equations P (tau - Y theta) = 0, grouped by joint, in which no contact force occurs.

    tau is zero for the base, besides measured forces of contacts. Contacts that may push are those of the sample's
    contact set. The equation of a joint without a measured torque is left out, and so is this torque in the others.

    Parameters
    ----------
    contacts : tuple of Contact
        Feet, then hooks and clamps.
    sigma : mapping of tuple of bool to tuple of float, N, N m
        Standard deviation of the errors of each row by contact set; other sets have those of `usual`.
    usual : tuple of float, N, N m
        Standard deviations for all other contact sets; () = 1.
    weighted : bool
        Whether a row is scaled so that its errors are as great in each contact set, for a fit; else it is a torque.

    References
    ----------
    Aghili 2005 (projected inverse dynamics).

    """

    contacts: tuple[Contact, ...]
    sigma: Mapping[tuple[bool, ...], tuple[float, ...]] = field(default_factory=dict)
    usual: tuple[float, ...] = ()
    weighted: bool = False
    name: str = "floating"

    def groups(self, robot: RobotModel) -> tuple[str, ...]:
        """Names of the joints, those of the base first."""
        return robot.joint_names

    def deviations(self, robot: RobotModel, contacts: Bool) -> Float:
        """Standard deviations (n,) for a contact set (k,)."""
        key = tuple(contacts.tolist())
        return np.array(self.sigma.get(key, self.usual or (1.0,) * robot.n))

    def projections(self, robot: RobotModel, samples: Samples) -> Float:
        """P (T, n, n) of samples, with the scale of `weighted`."""
        contact = np.asarray(samples.extra[CONTACT]).reshape(len(samples), -1) > 0.5
        up = samples.extra[UP]
        J = unknown_forces(robot, self.contacts, contact_jacobian(robot, self.contacts, samples.q, up), up)
        owner = np.repeat(np.arange(len(self.contacts)), [each.rows for each in self.contacts])
        silent = (
            np.zeros(0, dtype=np.int64) if samples.measured is None else np.flatnonzero(~samples.measured)
        )
        torques = np.broadcast_to(np.eye(robot.n)[silent], (len(samples), len(silent), robot.n))
        P = np.zeros((len(samples), robot.n, robot.n))
        usual = np.array(self.usual or (1.0,) * robot.n)
        sets, number = contact_sets(contact)
        for k, pushing in enumerate(sets):
            index = np.flatnonzero(number == k)
            sigma = self.deviations(robot, pushing)
            P[index] = free_of_forces(
                np.concatenate([J[index][:, pushing[owner]], torques[index]], axis=1), sigma
            )
            if self.weighted:
                P[index] *= (usual / sigma)[:, None]
        return P

    def projected(self, robot: RobotModel, samples: Samples, torque: Float) -> Float:
        """P tau of torques (T, n)."""
        return np.asarray(np.einsum("tij,tj->ti", self.projections(robot, samples), torque))

    def equations(self, robot: RobotModel, terms: Terms, samples: Samples, wanted: Bool) -> Equations:
        """One panel per joint, with all columns."""
        joints = TorqueRows().equations(robot, terms, samples, wanted)
        columns = np.unique(np.concatenate(joints.columns))
        places = [np.append(np.searchsorted(columns, of_joint), len(columns)) for of_joint in joints.columns]
        panels = np.zeros((robot.n, len(columns) + 1, len(samples)))
        for first in range(0, len(samples), _BATCH):
            part = slice(first, first + _BATCH)
            P = self.projections(robot, samples.part(part.start, min(part.stop, len(samples))))
            whole = np.zeros((robot.n, len(columns) + 1, len(P)))
            for j, place in enumerate(places):
                whole[j, place] = joints.panels[j][:, part]
            panels[:, :, part] = np.matmul(P, whole.transpose(2, 0, 1)).transpose(1, 2, 0)
        return Equations((columns,) * robot.n, tuple(panels))


def contact_sets(contact: Bool) -> tuple[Bool, Int]:
    """Distinct contact sets (s, k) of samples (T, k), and the number of that of each sample (T,)."""
    if not contact.shape[1]:
        return np.zeros((1, 0), dtype=np.bool_), np.zeros(len(contact), dtype=np.int64)
    sets, number = np.unique(contact, axis=0, return_inverse=True)
    return sets, np.asarray(number).ravel()


def floating_samples(
    robot: RobotModel, samples: Samples, omega: Float, alpha: Float, specific: Float, up: Float, contact: Bool
) -> Samples:
    """Samples of the floating robot, with the motion of its base.

    The base needs no position, orientation or velocity: with all six positions at zero, the specific force contains
    gravity.

    Parameters
    ----------
    robot : RobotModel
        The floating robot.
    samples : Samples
        Samples of its joints without the base.
    omega, alpha : ndarray, shape (T, 3), rad/s, rad/s^2
        Angular velocity and acceleration of the base link, in its axes.
    specific : ndarray, shape (T, 3), m/s^2
        Acceleration of its origin minus gravity, in its axes.
    up : ndarray, shape (T, 3)
        Unit vector against gravity, in its axes.
    contact : ndarray of bool, shape (T, k)
        Contacts that may push.

    Returns
    -------
    Samples

    """
    dq, ddq = virtual_motion(omega, alpha, specific + robot.gravity @ robot.T_parent_joint[0, :3, :3])
    zero = np.zeros_like(dq)
    gate = (
        None
        if samples.gate is None
        else np.hstack([np.ones((len(zero), FIRST), dtype=np.bool_), samples.gate])
    )
    return replace(
        samples,
        q=np.hstack([zero, samples.q]),
        dq=np.hstack([dq, samples.dq]),
        ddq=np.hstack([ddq, samples.ddq]),
        tau=np.hstack([zero, samples.tau]),
        gate=gate,
        measured=None
        if samples.measured is None
        else np.append(np.ones(FIRST, dtype=np.bool_), samples.measured),
        temperature=None
        if samples.temperature is None
        else np.hstack([np.full_like(zero, np.nan), samples.temperature]),
        extra={**samples.extra, CONTACT: contact.astype(np.float64), UP: up},
        past=None,
    )
