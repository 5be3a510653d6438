"""Loops of exported MJCF: cranks of motors with massless rods, closed by <connect>."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float
from dynid.base.records import dataclass
from dynid.exporters.expression import motors_of
from dynid.exporters.model import ExportModel
from dynid.robot.linkage import FourBar, groups_of
from dynid.robot.model import RobotModel
from dynid.robot.rods import Rods
from dynid.spatial.algebra import rotation_about

# MuJoCo needs a mass of each moving body. Rods have an armature, which keeps their equations well conditioned.
MASS, MOMENT, ARMATURE = 5e-10, 1e-12, 1e-7  # kg, kg m^2, kg m^2


@dataclass(frozen=True, eq=False)
class Crank:
    """A crank with its rod, in frames of the links' joints.

    Attributes
    ----------
    motor : int
        Index of the joint whose motor it is.
    carrier, other : int
        Bodies that carry the crank, -1 = the base, and that the rod moves.
    centre, axis, arm : ndarray, shape (3,)
        Point of the axis, axis, and arm at crank angle 0, in the frame of the carrier.
    rod : ndarray, shape (3,), m
        From the arm to the rod's other end, where the loop closes, in the frame of the carrier.
    end : ndarray, shape (3,), m
        Point of the other body.
    inertia, viscous, coulomb : float
        Of the motor.

    """

    motor: int
    carrier: int
    other: int
    centre: Float
    axis: Float
    arm: Float
    rod: Float
    end: Float
    inertia: float = 0.0
    viscous: float = 0.0
    coulomb: float = 0.0


def with_cranks(model: ExportModel) -> tuple[ExportModel, tuple[Crank, ...]]:
    """Split a model into a tree without what acts behind bars and rods, and cranks with it.

    Linkages of cylinders and tables stay as they are in formats without loops.
    """
    robot = model.robot
    cranks = {crank.motor: crank for crank in _cranks(robot)}
    if not cranks:
        return model, ()
    J = robot.drive.jacobian(robot.drive.reference[None])[0]
    rotor, viscous, coulomb = (np.array(values) for values in (model.rotor, model.viscous, model.coulomb))
    motors, _ = motors_of(model.mixed)
    mixed = list(model.mixed)
    for i, crank in cranks.items():
        moved = np.flatnonzero(J[i])
        if len(moved) == 1:
            j, ratio = int(moved[0]), float(J[i, moved[0]])
            cranks[i] = replace(
                crank,
                inertia=float(rotor[j]) / ratio**2,
                viscous=float(viscous[j]) / ratio**2,
                coulomb=float(coulomb[j]) / abs(ratio),
            )
            rotor[j] = viscous[j] = coulomb[j] = 0.0
            continue
        for motor in motors:
            if np.array_equal(motor.weights, J[i]):
                cranks[i] = replace(
                    crank, inertia=motor.inertia, viscous=motor.viscous, coulomb=motor.coulomb
                )
                mixed = [part for part in mixed if not np.array_equal(part.weights, motor.weights)]
    names = {f"'{robot.joint_names[i]}'" for i in cranks}
    left = tuple(what for what in model.left_out if not any(what.endswith(f"of {name}") for name in names))
    tree = replace(model, rotor=rotor, viscous=viscous, coulomb=coulomb, mixed=tuple(mixed), left_out=left)
    return tree, tuple(cranks.values())


def _cranks(robot: RobotModel) -> list[Crank]:
    # Gear ratios between motor and crank are part of the exported inertia and friction, which need ratios of 1.
    N = robot.drive.transmission
    plain = [i for i in range(robot.n) if np.array_equal(N[i], np.eye(robot.n)[i])]
    found: list[Crank] = []
    for joints, linkage in groups_of(robot.drive.linkages):
        if not set(joints) <= set(plain):
            continue
        if isinstance(linkage, FourBar):
            found.append(_of_bars(robot, joints[0], linkage))
        elif (
            isinstance(linkage, Rods)
            and not linkage.sliding.any()
            and all(rod.link and rod.to for rod in linkage.rods)
        ):
            found += _of_rods(robot, joints, linkage)
    return found


def _of_bars(robot: RobotModel, joint: int, bars: FourBar) -> Crank:
    body = int(robot.independent_bodies[joint])
    T, axis = robot.T_parent_joint[body], robot.axis[body]
    # The ground line may have any direction across the axis: the map of angles is the same.
    across = np.cross(axis, np.eye(3)[int(np.argmin(np.abs(axis)))])
    line = across / np.linalg.norm(across)
    at_reference = float(bars.crank_angle(bars.reference)[0])
    centre = -bars.ground * line
    arm = bars.crank * rotation_about(axis, at_reference - bars.at) @ line
    tip = centre + bars.crank * rotation_about(axis, at_reference) @ line
    end = bars.rocker * rotation_about(axis, bars.zero) @ line
    reached = bars.rocker * rotation_about(axis, bars.zero + bars.at) @ line
    R = T[:3, :3]
    return Crank(
        joint,
        int(robot.parent[body]),
        body,
        R @ centre + T[:3, 3],
        R @ axis,
        R @ arm,
        R @ (reached - tip),
        end,
    )


def _of_rods(robot: RobotModel, joints: list[int], linkage: Rods) -> list[Crank]:
    at = linkage.reference[None]
    phi = linkage.evaluate(at)[0][0]
    found = []
    for joint, rod, angle in zip(joints, linkage.rods, phi, strict=True):
        carrier, frame = robot.link_frame(rod.link)
        other, placed = robot.link_frame(rod.to)
        axis, centre, arm = np.array(rod.axis), np.array(rod.centre), np.array(rod.arm)
        tip = centre + rotation_about(axis, float(angle)) @ arm
        reached = rod.end_point(at)[0][0]
        R = frame[:3, :3]
        found.append(
            Crank(
                joint,
                carrier,
                other,
                R @ centre + frame[:3, 3],
                R @ axis,
                R @ arm,
                R @ (reached - tip),
                placed[:3, :3] @ np.array(rod.end) + placed[:3, 3],
            )
        )
    return found
