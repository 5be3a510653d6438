"""Equations of a force/torque sensor: the wrench on everything that it carries, linear in inertial parameters."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.records import dataclass
from dynid.kernel import Tree, torque_regressor
from dynid.robot.model import RobotModel

# Massless joints at the sensor, whose torques are the wrench: prismatic along x, y, z, then revolute about z, y, x.
_AXES = np.eye(3)[[0, 1, 2, 2, 1, 0]]
_SLIDES = np.arange(6) < 3
AXES = ("fx", "fy", "fz", "tx", "ty", "tz")
# Number of the virtual joint of each component of the wrench.
_COMPONENTS = (0, 1, 2, 5, 4, 3)
# Samples per call of the kernel, which returns the rows of all joints: 2 MB for an arm of seven joints.
_BATCH = 512


@dataclass(frozen=True, eq=False)
class WrenchTree:
    """A robot's tree with six virtual joints at a sensor.

    Attributes
    ----------
    tree : Tree
        Bodies of the robot in their order, with six virtual ones before the first body that the sensor carries.
    at : int
        Number of the first virtual joint.
    carried : tuple of int
        Numbers of the robot's bodies that the sensor carries, besides the parts fixed to it.

    """

    tree: Tree
    at: int
    carried: tuple[int, ...]

    @staticmethod
    def of(robot: RobotModel, link: str) -> WrenchTree:
        """Virtual joints at the frame of a link; they carry all bodies that move relative to this link.

        Raises InputError for an unknown link.
        """
        body, frame = robot.link_frame(link)
        tree = robot.tree
        carried = tuple(i for i in range(tree.n) if body < 0 or (body in tree.paths[i] and i != body))
        at = body + 1
        sensor = np.linalg.inv(frame)
        placed = np.array(robot.T_parent_joint)
        parent = np.array(tree.parent)
        beyond = parent == body
        placed[beyond] = sensor @ placed[beyond]
        renumbered = np.where(parent >= at, parent + 6, parent)
        renumbered[beyond] = at + 5
        virtual = np.tile(np.eye(4), (6, 1, 1))
        virtual[0] = frame
        placed = np.insert(placed, at, virtual, axis=0)
        return WrenchTree(
            Tree(
                parent=np.insert(renumbered, at, [body, *range(at, at + 5)]),
                prismatic=np.insert(tree.prismatic, at, _SLIDES),
                axis=np.insert(tree.axis, at, _AXES, axis=0),
                rotation=placed[:, :3, :3],
                translation=placed[:, :3, 3],
                gravity=tree.gravity,
            ),
            at,
            carried,
        )

    def rows(self, q: Float, dq: Float, ddq: Float) -> Float:
        """Wrench (T, 6, 10 (1 + carried)) of the motion (T, nb) of the robot's tree joints; see `wrench_regressor`."""
        wanted = np.zeros((self.tree.n, 10), dtype=np.bool_)
        wanted[[self.at + 5, *(i if i < self.at else i + 6 for i in self.carried)]] = True
        motion = (np.insert(values, [self.at] * 6, 0.0, axis=1) for values in (q, dq, ddq))
        return _rows(self.tree, self.at, wanted.ravel(), *motion)


def wrench_regressor(robot: RobotModel, link: str, q: Float, dq: Float, ddq: Float) -> Float:
    """Wrench on the load of a sensor at a link, as a linear function of the load's inertial parameters.

    The sensor carries the parts that are fixed to it and all bodies that move relative to its link. A wrench is fx, fy,
    fz, tx, ty, tz in the axes of the link's frame, torques about its origin: the wrench that the robot exerts on the
    load, gravity included. A load at rest needs a force upwards.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    link : str
        Link at whose frame the sensor measures; the base for a sensor under the robot.
    q, dq, ddq : ndarray, shape (T, n_joints), rad or m and derivatives
        Motion of the joints.

    Returns
    -------
    ndarray, shape (T, 6, 10 (1 + k))
        Columns m, mcx, mcy, mcz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz of the parts fixed to the sensor, about its frame, then
        of the k bodies that it carries, about their joint frames.

    Raises
    ------
    InputError
        For an unknown link.

    """
    return WrenchTree.of(robot, link).rows(*robot.tree_motion(q, dq, ddq))


def load_regressor(omega: Float, alpha: Float, specific: Float) -> Float:
    """Wrench on a rigid load from the motion of its sensor, linear in the load's ten parameters about the sensor.

    Parameters
    ----------
    omega, alpha : ndarray, shape (T, 3), rad/s, rad/s^2
        Angular velocity and acceleration in the sensor's axes.
    specific : ndarray, shape (T, 3), m/s^2
        Acceleration of the sensor's origin minus gravity, in the sensor's axes.

    Returns
    -------
    ndarray, shape (T, 6, 10)

    """
    dq, ddq = virtual_motion(omega, alpha, specific)
    wanted = np.arange(60) >= 50
    return _rows(_FREE, 0, wanted, np.zeros_like(dq), dq, ddq)


def virtual_motion(omega: Float, alpha: Float, acceleration: Float) -> tuple[Float, Float]:
    """Rates and accelerations (T, 6) of six virtual joints at zero that move the body beyond them.

    Parameters
    ----------
    omega, alpha, acceleration : ndarray, shape (T, 3), rad/s, rad/s^2, m/s^2
        Angular velocity and acceleration of the body, and acceleration of its origin, in its axes.

    Returns
    -------
    tuple of ndarray, shape (T, 6)

    """
    dq, ddq = np.zeros((2, len(omega), 6))
    dq[:, 3:] = omega[:, ::-1]
    x, y, z = omega.T
    # At zero angles, the virtual joints' rates alone give this angular acceleration, since their axes turn each other.
    ddq[:, 3:] = (alpha - np.stack([-z * y, z * x, -y * x], axis=1))[:, ::-1]
    ddq[:, :3] = acceleration
    return dq, ddq


_FREE = Tree(
    parent=np.arange(6) - 1,
    prismatic=_SLIDES,
    axis=_AXES,
    rotation=np.tile(np.eye(3), (6, 1, 1)),
    translation=np.zeros((6, 3)),
    gravity=np.zeros(3),
)


def _rows(tree: Tree, at: int, wanted: Bool, q: Float, dq: Float, ddq: Float) -> Float:
    columns = np.flatnonzero(wanted)
    rows = np.zeros((len(q), 6, len(columns)))
    for first in range(0, len(q), _BATCH):
        part = slice(first, first + _BATCH)
        panels = torque_regressor(tree, q[part], dq[part], ddq[part], columns=wanted)
        for k, joint in enumerate(_COMPONENTS):
            place = np.searchsorted(columns, panels.columns[at + joint])
            rows[part, k, place] = panels.values[at + joint].T
    return rows
