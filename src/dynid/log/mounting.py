"""A robot that stands another way than its description says: on a wall, hanging, or described upside down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.records import dataclass
from dynid.kernel import gravity_torque
from dynid.robot.model import RobotModel

# Degrees from which on a mount is meant: masses that are off by half turn the direction by up to some 15. Less is a
# lean, which is looked for in what a model leaves.
TURNED = 30.0
# Directions that are as near to an axis of the base are that axis: mounts are square.
SQUARE = 5.0
# Gravity's torque on a joint counts from this share of the largest, and of what inertia makes of the motion: by ratios
# a camera's gimbal counts as an arm does.
SHARE, OF_INERTIAL = 0.2, 0.02
# Of what inertia and friction leave, the share that gravity explains at least, in any direction. Of that the found
# direction leaves at most this share, and of what the declared one leaves with a factor of its own for each joint.
GRAVITY, LEFT = 0.5, 0.3
# Masses of a description are right to this factor.
MASSES = 2.0
# rad/s: below it friction changes its sign smoothly.
SIGN_WIDTH = 0.02


@dataclass(frozen=True, eq=False)
class Mounting:
    """Gravity in the base frame, (3,) m/s^2, as torque shows it, and its angle to the declared one in degrees."""

    gravity: Float
    degrees: float


def hangs_turned(
    robot: RobotModel, gravity: Float, inertial: Float, dq: Float, tau: Float, opposed: Sequence[int]
) -> Mounting | None:
    """Gravity from the other side, where joints `opposed` to it resist their motion; None = their signs are turned.

    gravity, inertial, dq, tau: (S, n).    One joint alone may have its centre of mass on the other side.
    """
    if len(opposed) < 2:
        return None
    resist = sum(
        _with_the_motion(_others(inertial[:, j], dq[:, j]), gravity[:, j, None], tau[:, j], -np.ones(1))
        for j in opposed
    )
    return Mounting(-robot.gravity, 180.0) if resist > 0 else None


def find_mounting(
    robot: RobotModel, q: Float, dq: Float, inertial: Float, tau: Float, balanced: Bool | None = None
) -> Mounting | None:
    """The direction of gravity that measured torque (S, n) shows with the description's masses; None = as declared.

    q: (S, nb) of the tree.    dq, inertial: (S, n) velocity, and torque of the described bodies without gravity.
    Torques of the wrong sign look like gravity from the other side: then inertia and friction are turned as well.
    """
    size = float(np.linalg.norm(robot.gravity))
    if size == 0:
        return None
    along = np.stack(
        [
            gravity_torque(replace(robot.tree, gravity=size * axis), robot.inertia_prior, q)
            @ robot.projection
            for axis in np.eye(3)
        ],
        axis=2,
    )
    swing = np.linalg.norm(along.std(axis=0), axis=1)
    heavy = weighs(swing, inertial)
    if balanced is not None:
        heavy &= ~balanced
    columns, rest, others = [], [], []
    for j in np.flatnonzero(heavy):
        other = _others(inertial[:, j], dq[:, j])
        Q, _ = np.linalg.qr(other)
        X, y = (values - Q @ (Q.T @ values) for values in (along[:, j], tau[:, j]))
        # Joints count alike, be they at the foot or at the hand.
        columns.append(X / swing[j])
        rest.append(y / swing[j])
        others.append((other, along[:, j], tau[:, j]))
    if not columns:
        return None
    direction = np.linalg.lstsq(np.concatenate(columns), np.concatenate(rest), rcond=1e-6)[0]
    length = float(np.linalg.norm(direction))
    if not 1.0 / MASSES < length < MASSES:
        return None
    cosine = float(np.clip(direction @ robot.gravity / (length * size), -1.0, 1.0))
    degrees = float(np.degrees(np.arccos(cosine)))
    pairs = list(zip(columns, rest, strict=True))
    whole = sum(float((y**2).sum()) for _, y in pairs)
    # Nothing that gravity could do explains more than a direction of its own for each joint.
    free = sum(float(((y - X @ np.linalg.lstsq(X, y, rcond=1e-6)[0]) ** 2).sum()) for X, y in pairs)
    left = sum(float(((y - X @ direction) ** 2).sum()) for X, y in pairs) - free
    declared = sum(_left_by(X @ robot.gravity / size, y) for X, y in pairs) - free
    if degrees < TURNED or whole - free < GRAVITY * whole or left > LEFT * min(whole - free, declared):
        return None
    if sum(_with_the_motion(*one, direction) for one in others) <= 0:
        return None
    return Mounting(square(direction / length) * size, degrees)


def _others(inertial: Float, dq: Float) -> Float:
    """What a joint's torque (S,) holds besides gravity's: inertia, viscous and dry friction, an offset, (S, 4)."""
    return np.column_stack([inertial, dq, np.tanh(dq / SIGN_WIDTH), np.ones(len(dq))])


def weighs(swing: Float, inertial: Float) -> Bool:
    """Joints (n,) whose gravity torque, of standard deviation `swing` (n,), counts beside their inertial one (S, n)."""
    return np.asarray((swing > SHARE * swing.max(initial=0.0)) & (swing > OF_INERTIAL * inertial.std(axis=0)))


def _left_by(x: Float, y: Float) -> float:
    """What a column leaves of y with a factor that is not negative."""
    factor = max(float(x @ y), 0.0) / max(float(x @ x), 1e-300)
    return float(((y - factor * x) ** 2).sum())


def _with_the_motion(other: Float, along: Float, tau: Float, direction: Float) -> float:
    """Squared torque of inertia and friction, negative where they drive a joint's motion in place of resisting it."""
    coefficients = np.linalg.lstsq(other, tau - along @ direction, rcond=1e-9)[0]
    inertia, friction = other[:, 0] * coefficients[0], other[:, 1:3] @ coefficients[1:3]
    return float(np.sign(coefficients[0]) * inertia.var() + np.sign(friction @ other[:, 1]) * friction.var())


def square(direction: Float) -> Float:
    """A unit vector (3,), or the axis of the base that is within SQUARE degrees of it."""
    k = int(np.argmax(np.abs(direction)))
    if np.degrees(np.arccos(min(abs(float(direction[k])), 1.0))) > SQUARE:
        return direction
    return np.asarray(np.sign(direction[k]) * np.eye(3)[k])
