"""Checks of the inputs of a floating base: misaligned or delayed IMU, and wrong contact flags."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.diagnostics import Diagnostics
from dynid.base.records import dataclass
from dynid.robot.model import RobotModel
from dynid.rows.floating import CONTACT, FIRST, UP, Contact, contact_jacobian
from dynid.rows.wrench import virtual_motion
from dynid.signals.samples import Samples

# Misalignment of an IMU above mounting tolerances, rad, and delay that causes 10 % error of accelerations at 10 Hz, s.
TURNED, LATE = np.radians(10.0), 0.0015
# Largest delay of the search, s.
LATEST = 0.1
# Three points on the ground determine the motion of the base. The angular velocities of IMU and legs are compared if
# there are at least FEWEST samples with correlation ALIKE.
POINTS, FEWEST, ALIKE = 3, 200, 0.8
# Share of the samples in which a flag may contradict the force: touch-down takes a few percent of a step.
DISAGREE = 0.1


def angular_velocity_of_feet(
    robot: RobotModel, contacts: tuple[Contact, ...], samples: Samples
) -> tuple[Int, Float]:
    """Angular velocity of the base link from the joints, while enough feet are on the ground.

    Points on the ground do not move: J_base (v, w) + J_joints dq = 0.

    Parameters
    ----------
    robot : RobotModel
        The floating robot.
    contacts : tuple of Contact
        Its contacts.
    samples : Samples
        Its samples.

    Returns
    -------
    tuple of ndarray, shape (K,) and (K, 3), rad/s
        Indices of samples, and angular velocities in the axes of the base link.

    """
    contact = np.asarray(samples.extra[CONTACT]) > 0.5
    size = np.array([6 if each.moment else 3 for each in contacts])
    index = np.flatnonzero(samples.keep & (contact @ size >= 3 * POINTS))
    if not len(index):
        return index, np.zeros((0, 3))
    J = contact_jacobian(robot, contacts, samples.q[index], samples.extra[UP][index])
    J = J * np.repeat(contact[index], size, axis=1)[:, :, None]
    velocity = np.einsum("tcn,tn->tc", J[:, :, 6:], samples.dq[index, 6:])
    twist = -np.einsum("tbc,tc->tb", np.linalg.pinv(J[:, :, :6]), velocity)
    return index, twist[:, [5, 4, 3]]


@dataclass(frozen=True, eq=False)
class _Agreement:
    """Agreement of the angular velocities of IMU and legs at the best delay.

    Attributes
    ----------
    count : int
        Number of samples.
    late : float
        Delay of the IMU, s; nan if the correlation has no peak.
    rest : float
        Delay that would cause the same error as the remaining difference, s.
    turn : ndarray, shape (3, 3)
        Rotation from the axes of the IMU to the axes of the legs.
    straight, turned : float
        Correlation without and with this rotation.

    """

    count: int
    late: float
    rest: float
    turn: Float
    straight: float
    turned: float

    @property
    def known(self) -> bool:
        return self.count >= FEWEST

    @property
    def angle(self) -> float:
        """Angle of the rotation, rad."""
        return float(np.arccos(np.clip(0.5 * (np.trace(self.turn) - 1.0), -1.0, 1.0)))


_UNKNOWN = _Agreement(0, np.nan, np.inf, np.eye(3), 0.0, 0.0)


def _agreement(robot: RobotModel, contacts: tuple[Contact, ...], batches: Iterable[Samples]) -> _Agreement:
    products, energy, change, count, rate = dict[int, Float](), np.zeros(2), 0.0, 0, 1.0
    for samples in batches:
        index, legs = angular_velocity_of_feet(robot, contacts, samples)
        rate = samples.rate
        gyro, acceleration = _angular(samples.dq), _angular(samples.ddq)
        reach = int(LATEST * rate)
        inside = (index >= reach) & (index < len(samples) - reach)
        index, legs = index[inside], legs[inside]
        count += len(index)
        energy += [np.sum(gyro[index] ** 2), np.sum(legs**2)]
        change += float(np.sum(acceleration[index] ** 2))
        for lag in range(-reach, reach + 1):
            products[lag] = products.get(lag, np.zeros((3, 3))) + gyro[index + lag].T @ legs
    if count < FEWEST or not (energy > 0).all() or not change > 0:
        return _UNKNOWN
    lags = np.array(sorted(products))
    # The sum of singular values does not depend on the orientation of the IMU.
    sums = np.array([np.linalg.svd(products[lag], compute_uv=False).sum() for lag in lags])
    best, late = int(np.argmax(sums)), np.nan
    if 0 < best < len(lags) - 1:
        left, top, right = sums[best - 1 : best + 2]
        late = float((lags[best] + 0.5 * (left - right) / (left - 2.0 * top + right)) / rate)
    C, size = products[int(lags[best])], float(np.sqrt(energy.prod()))
    U, s, V = np.linalg.svd(C)
    handed = np.array([1.0, 1.0, np.sign(np.linalg.det(U @ V))])
    turned = float(s @ handed) / size
    # A delay d changes a signal w by d dw/dt.
    rest = float(np.sqrt(max(1.0 - turned**2, 0.0) * energy[0] / change))
    return _Agreement(count, late, rest, (U * handed) @ V, float(np.trace(C)) / size, turned)


def _angular(values: Float) -> Float:
    # Order the last three joints of the base, which rotate about z, y and x, as x, y and z.
    return np.asarray(values[:, [5, 4, 3]])


def turned_samples(robot: RobotModel, samples: Samples, turn: Float, place: Float) -> Samples:
    """Rotate the axes of the IMU: each of its vectors x becomes x' turn.

    Parameters
    ----------
    robot : RobotModel
        The floating robot.
    samples : Samples
        Its samples.
    turn : ndarray, shape (3, 3)
        Rotation from the correct axes to the assumed axes.
    place : ndarray, shape (3,), m
        Place of the IMU in the frame of the base link.

    Returns
    -------
    Samples

    """
    gravity = robot.gravity @ robot.T_parent_joint[0, :3, :3]
    omega = _angular(samples.dq)
    still = np.zeros_like(omega)
    # Subtract the part of the angular acceleration that depends only on the rates of the base joints.
    alpha = _angular(samples.ddq) - _angular(virtual_motion(omega, still, still)[1])
    felt = samples.ddq[:, :3] - gravity + _of_arm(omega, alpha, place)
    omega, alpha = omega @ turn, alpha @ turn
    specific = felt @ turn - _of_arm(omega, alpha, place)
    dq, ddq = virtual_motion(omega, alpha, specific + gravity)
    return replace(
        samples,
        dq=np.hstack([dq, samples.dq[:, FIRST:]]),
        ddq=np.hstack([ddq, samples.ddq[:, FIRST:]]),
        extra={**samples.extra, UP: np.asarray(samples.extra[UP]) @ turn},
    )


def _of_arm(omega: Float, alpha: Float, place: Float) -> Float:
    arm = np.broadcast_to(place, omega.shape)
    return np.asarray(np.cross(alpha, arm) + np.cross(omega, np.cross(omega, arm)))


def check_floating(
    robot: RobotModel,
    contacts: tuple[Contact, ...],
    batches: Sequence[Samples],
    place: Float,
    pressed: Callable[[Samples], Bool] | None,
    diagnostics: Diagnostics,
) -> None:
    """Warn of a misaligned or delayed IMU, and of swapped or missing contact flags.

    A wrong input makes other inputs look wrong. So the check first reports the cause whose correction gives the best
    agreement between the angular velocities of IMU and legs, and others only if they remain in the corrected samples.

    Parameters
    ----------
    robot : RobotModel
        The floating robot.
    contacts : tuple of Contact
        Feet, then supports.
    batches : sequence of Samples
        Its samples.
    place : ndarray, shape (3,), m
        Place of the IMU in the frame of the base link.
    pressed : callable, optional
        Returns which feet (T, feet) carry a load according to torques and accelerations; None if contacts are not
        logged.
    diagnostics : Diagnostics
        Collects the warnings.

    """
    angle = 0.0
    agreement = _agreement(robot, contacts, batches)
    # Each round removes one cause: a misaligned IMU or wrong flags.
    for _ in range(2):
        flags = Diagnostics()
        corrected = batches if pressed is None else _check_flags(contacts, batches, pressed, flags)
        of_flags = _agreement(robot, contacts, corrected) if len(flags) else _UNKNOWN
        is_turned = agreement.known and agreement.turned > ALIKE and agreement.angle > TURNED and not angle
        if is_turned and not (of_flags.known and of_flags.straight > agreement.turned):
            angle = agreement.angle
            batches = [turned_samples(robot, samples, agreement.turn, place) for samples in batches]
            agreement = _agreement(robot, contacts, batches)
            diagnostics.warn(
                "imu-turned",
                f"the IMU is rotated by {np.degrees(angle):.3g} deg relative to its link: its angular velocity has "
                "another direction than the one computed from the legs on the ground; correct the link or the columns "
                "under [log.imu]",
            )
            continue
        diagnostics.extend(flags)
        if len(flags):
            agreement, pressed = of_flags, None
            batches = corrected
            continue
        break
    if not agreement.known:
        return
    # Slipping feet look like a small delay, but this delay explains little of the difference.
    if abs(agreement.late) > max(LATE, agreement.rest):
        diagnostics.warn(
            "imu-late",
            f"the IMU {'lags' if agreement.late > 0 else 'leads'} the motion of the legs on the ground by "
            f"{1e3 * abs(agreement.late):.2g} ms, which makes the base's acceleration inaccurate; correct its clock, "
            "or shift its columns",
        )
    if agreement.turned < ALIKE:
        diagnostics.warn(
            "contact-moves",
            f"feet in contact with the ground move: the angular velocities of legs and IMU agree only to "
            f"{100 * agreement.turned:.2g} %; check the order of the feet, flags of contact and the IMU",
        )


def _check_flags(
    contacts: tuple[Contact, ...],
    batches: Sequence[Samples],
    pressed: Callable[[Samples], Bool],
    diagnostics: Diagnostics,
) -> list[Samples]:
    # Warns of wrong flags, and returns the samples with flags set for the feet that carry a load.
    loads = [pressed(samples).astype(np.float64) for samples in batches]
    feet = loads[0].shape[1] if loads else 0
    logged = [np.asarray(samples.extra[CONTACT])[samples.keep, :feet] for samples in batches]
    if loads:
        kept = [load[samples.keep] for load, samples in zip(loads, batches, strict=True)]
        links = tuple(contact.link for contact in contacts[:feet])
        check_contacts(links, np.concatenate(logged), np.concatenate(kept), diagnostics)
    corrected = []
    for load, samples in zip(loads, batches, strict=True):
        contact = np.hstack([load, np.asarray(samples.extra[CONTACT])[:, feet:]])
        corrected.append(replace(samples, extra={**samples.extra, CONTACT: contact}))
    return corrected


def check_contacts(feet: tuple[str, ...], logged: Float, pressed: Float, diagnostics: Diagnostics) -> None:
    """Warn of contact flags that contradict the contact forces from torques and accelerations.

    Parameters
    ----------
    feet : tuple of str
        Names of the feet.
    logged, pressed : ndarray, shape (T, k)
        Contact as logged, and as the robot file predicts it; 0 or 1.
    diagnostics : Diagnostics
        Collects the warnings.

    """
    from scipy.optimize import linear_sum_assignment

    if not len(logged) or len(feet) < 2:
        return
    differ = np.mean(np.abs(logged[:, :, None] - pressed[:, None, :]), axis=0)
    row, column = linear_sum_assignment(differ)
    if np.trace(differ) > 2.0 * differ[row, column].sum() + DISAGREE:
        pairs = [f"{feet[a]} is {feet[b]}" for a, b in zip(row, column, strict=True) if a != b]
        diagnostics.warn(
            "feet-swapped",
            f"contact flags fit other feet ({', '.join(pairs)}): swap their columns under [log.contact]",
        )
        return
    for k, foot in enumerate(feet):
        missed = float(np.mean(pressed[:, k] * (1.0 - logged[:, k])))
        if missed > DISAGREE:
            diagnostics.warn(
                "contact-missed",
                f"'{foot}' carries a load in {100 * missed:.2g} % of the log although its contact flag is off: "
                'check its sensor, or set columns = "found" under [log.contact]',
            )
