"""Loops of MJCF closed by <connect>: a motor's crank or cylinder and the rod from it to another body."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import Place
from dynid.base.records import dataclass
from dynid.robot.rods import RodEntry
from dynid.spatial.algebra import rotation_about

_WORLD = "world"


@dataclass(frozen=True, eq=False)
class Loop:
    """A constraint that closes a loop.

    Parameters
    ----------
    tag : str
        "connect" or "weld".
    ends : tuple of two str
        Names of its bodies or sites.
    anchor : tuple of float, m
        Anchor in the frame of the first body; () for sites.
    affected : tuple of str
        Joints whose torque its force affects.
    place : Place
        Of the element.

    """

    tag: str
    ends: tuple[str, str]
    anchor: tuple[float, ...]
    affected: tuple[str, ...]
    place: Place


@dataclass(frozen=True, eq=False)
class DrivenRod:
    """A rod between the crank, or the cylinder, of an actuated joint and another body.

    Parameters
    ----------
    motor : int
        MuJoCo's number of the actuated joint, which becomes the actuator of a linkage.
    carrier, other : int
        Bodies that carry the crank, and that the rod moves.
    crank, rod : tuple of int
        Bodies of crank and rod, which are no links of the tree; the crank counts as a part of its carrier.
    entry : RodEntry
        The rod; its motor is still that of MuJoCo.
    rotor : float, kg m^2 (kg)
        Inertia of crank and near half of the rod about the crank's axis; mass of the rod of a cylinder.
    ends : tuple of two ndarray, shape (3,), m
        Ends of the rod in the frames of `carrier` and `other`, where its halves are counted as masses.
    mass : float, kg
        Of the rod.

    """

    motor: int
    carrier: int
    other: int
    crank: tuple[int, ...]
    rod: tuple[int, ...]
    entry: RodEntry
    rotor: float
    ends: tuple[Float, Float]
    mass: float


def driven_rods(
    mujoco: Any, model: Any, loops: Sequence[Loop], body_names: Sequence[str], joint_names: Sequence[str]
) -> dict[Loop, DrivenRod]:
    """Rods among the loops of a model: an actuated crank with one hinge, and on it a passive rod, or a cylinder.

    Parameters
    ----------
    mujoco : module
        The module mujoco.
    model : MjModel
        The compiled model.
    loops : sequence of Loop
        Its loops.
    body_names, joint_names : sequence of str
        By MuJoCo's numbers.

    Returns
    -------
    dict of Loop to DrivenRod
        Loops without such a rod are left out.

    """
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    reader = _Reader(mujoco, model, data, body_names, joint_names)
    rods: dict[Loop, DrivenRod] = {}
    for loop in loops:
        if loop.tag != "connect" or (ends := reader.ends(loop)) is None:
            continue
        candidates = [rod for pair in (ends, ends[::-1]) if (rod := reader.rod(*pair)) is not None]
        if len(candidates) == 1:
            rods[loop] = candidates[0]
    return rods


class _Reader:
    def __init__(
        self, mujoco: Any, model: Any, data: Any, body_names: Sequence[str], joint_names: Sequence[str]
    ) -> None:
        self.mujoco, self.model, self.data = mujoco, model, data
        self.body_names, self.joint_names = body_names, joint_names
        on_joints = model.actuator_trntype == mujoco.mjtTrn.mjTRN_JOINT
        self.actuated = set(model.actuator_trnid[on_joints, 0].tolist())

    def ends(self, loop: Loop) -> tuple[tuple[int, Float], tuple[int, Float]] | None:
        """Bodies and points in their frames that a constraint holds together; None if a name is unknown."""
        m, kinds = self.model, self.mujoco.mjtObj
        if loop.anchor:
            if loop.ends[0] not in self.body_names:
                return None
            # As in MuJoCo, the anchor is a point of both bodies in the posture of the file.
            first = self.body_names.index(loop.ends[0])
            second = self.body_names.index(loop.ends[1]) if loop.ends[1] in self.body_names else 0
            point = self._world(first, np.array(loop.anchor))
            return (first, np.array(loop.anchor)), (second, self._local(second, point))
        sites = [self.mujoco.mj_name2id(m, kinds.mjOBJ_SITE, name) for name in loop.ends]
        if min(sites) < 0:
            return None
        first_end, second_end = ((int(m.site_bodyid[site]), np.array(m.site_pos[site])) for site in sites)
        return first_end, second_end

    def rod(self, near: tuple[int, Float], far: tuple[int, Float]) -> DrivenRod | None:
        """The rod that ends at the first of two points held together; None if that body is none."""
        m, kinds = self.model, self.mujoco.mjtJoint
        (body, tip), (other, end) = near, far
        rod = self._moving(body)
        if rod == 0 or self._children(rod):
            return None
        crank = self._moving(int(m.body_parentid[rod]))
        if crank == 0:
            return None
        rod_joints, crank_joints = self._joints(rod), self._joints(crank)
        cranks, rods = tuple(self._welded(crank)), tuple(self._welded(rod))
        carrier = int(m.body_parentid[crank])
        if other in (*cranks, *rods) or self._children(crank) != [rod]:
            return None
        slides = [joint for joint in rod_joints if m.jnt_type[joint] == kinds.mjJNT_SLIDE]
        is_cylinder = len(slides) == 1 == len(rod_joints) and slides[0] in self.actuated
        if is_cylinder:
            if self.actuated.intersection(crank_joints):
                return None
            motor, centre = slides[0], self._anchor(crank_joints[0])
            length = float(np.linalg.norm(self._world(body, tip) - centre)) - float(
                m.qpos0[m.jnt_qposadr[motor]]
            )
            entry = self._entry(motor, carrier, centre, other, end, None, np.zeros(3), length)
            rotor, start = float(m.body_mass[rod]), centre
        else:
            if len(crank_joints) != 1 or m.jnt_type[crank_joints[0]] != kinds.mjJNT_HINGE or slides:
                return None
            motor = crank_joints[0]
            if motor not in self.actuated or self.actuated.intersection(rod_joints):
                return None
            centre, start = self._anchor(motor), self._anchor(rod_joints[0])
            axis = self.data.xaxis[motor]
            # Crank angle 0 is joint position 0, from which the posture of the file may differ.
            turned = rotation_about(axis, -float(m.qpos0[m.jnt_qposadr[motor]]))
            arm = turned @ (start - centre)
            length = float(np.linalg.norm(self._world(body, tip) - start))
            entry = self._entry(motor, carrier, centre, other, end, axis, arm, length)
            reach = np.linalg.norm(np.cross(axis, arm))
            rotor = sum(self._about(part, centre, axis) for part in cranks)
            rotor += 0.5 * float(m.body_subtreemass[rod]) * float(reach**2)
        mass = float(m.body_subtreemass[rod])
        return DrivenRod(
            motor,
            carrier,
            other,
            cranks,
            rods,
            entry,
            rotor,
            (self._local(carrier, start), np.array(end)),
            mass,
        )

    def _entry(
        self,
        motor: int,
        carrier: int,
        centre: Float,
        other: int,
        end: Float,
        axis: Float | None,
        arm: Float,
        length: float,
    ) -> RodEntry:
        R = self.data.xmat[carrier].reshape(3, 3).T
        return RodEntry(
            motor=self.joint_names[motor],
            link=self._name(carrier),
            centre=_vector(self._local(carrier, centre)),
            to=self._name(other),
            end=_vector(end),
            axis=None if axis is None else _vector(R @ axis),
            arm=_vector(R @ arm),
            length=length,
        )

    def _name(self, body: int) -> str:
        return self.body_names[body] if body else "base"

    def _moving(self, body: int) -> int:
        # The body with joints to which a body is welded; 0 = the world.
        while body and not self.model.body_jntnum[body]:
            body = int(self.model.body_parentid[body])
        return body

    def _welded(self, body: int) -> list[int]:
        # A body and all that is welded to it.
        m = self.model
        return [
            part
            for part in range(body, m.nbody)
            if m.body_weldid[part] == m.body_weldid[body] and self._moving(part) == body
        ]

    def _children(self, body: int) -> list[int]:
        # Bodies with joints that a body carries.
        m = self.model
        return [
            child
            for child in range(body + 1, m.nbody)
            if m.body_jntnum[child] and self._moving(int(m.body_parentid[child])) == body
        ]

    def _joints(self, body: int) -> list[int]:
        first = int(self.model.body_jntadr[body])
        return list(range(first, first + int(self.model.body_jntnum[body])))

    def _anchor(self, joint: int) -> Float:
        return np.array(self.data.xanchor[joint])

    def _world(self, body: int, point: Float) -> Float:
        return np.asarray(self.data.xpos[body] + self.data.xmat[body].reshape(3, 3) @ point)

    def _local(self, body: int, point: Float) -> Float:
        return np.asarray(self.data.xmat[body].reshape(3, 3).T @ (point - self.data.xpos[body]))

    def _about(self, body: int, centre: Float, axis: Float) -> float:
        # Moment of inertia of a body about an axis in the world.
        m, d = self.model, self.data
        along = d.ximat[body].reshape(3, 3).T @ axis
        distance = np.cross(axis, d.xipos[body] - centre)
        return float(along @ (m.body_inertia[body] * along) + m.body_mass[body] * distance @ distance)


def _vector(values: Float) -> tuple[float, float, float]:
    return float(values[0]), float(values[1]), float(values[2])
