"""Wrong inputs of a floating base: an IMU that is turned or late, and contacts that are wrong."""

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

# Rotation of an IMU that no mounting explains, and delay that spoils accelerations at 10 Hz by a tenth.
TURNED, LATE = np.radians(10.0), 0.0015
# s: greatest delay that is looked for.
LATEST = 0.1
# Three points on the ground determine the motion of the base. The angular velocities of IMU and legs are compared if
# they have this many samples and at least this correlation.
POINTS, FEWEST, ALIKE = 3, 200, 0.8
# Share of the samples in which a flag may contradict the force: touch-down takes some per cent of a step.
DISAGREE = 0.1


def angular_velocity_of_feet(
    robot: RobotModel, contacts: tuple[Contact, ...], samples: Samples
) -> tuple[Int, Float]:
    """Angular velocity of the base link from joints alone, while enough feet stand.

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
        Numbers of samples, and angular velocities in the axes of the base link.

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
    """Angular velocities of IMU and legs on the ground, at the delay at which they agree best.

    count: samples.    late: delay of the IMU, s, nan without a peak.    rest: delay that would have as much effect as
    what remains without a delay, s.
    turn: rotation from the axes of the IMU to those of the legs.    straight, turned: correlations without and with it.
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
    # The sum of singular values does not depend on how the IMU is turned.
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
    # About x, y and z from the last three joints of the base, which turn about z, y and x.
    return np.asarray(values[:, [5, 4, 3]])


def turned_samples(robot: RobotModel, samples: Samples, turn: Float, place: Float) -> Samples:
    """Samples with the axes of the IMU turned: x' turn for each of its vectors x.

    Parameters
    ----------
    robot : RobotModel
        The floating robot.
    samples : Samples
        Its samples.
    turn : ndarray, shape (3, 3)
        Rotation from the right axes to those that were taken.
    place : ndarray, shape (3,), m
        Place of the IMU in the frame of the base link.

    Returns
    -------
    Samples

    """
    gravity = robot.gravity @ robot.T_parent_joint[0, :3, :3]
    omega = _angular(samples.dq)
    still = np.zeros_like(omega)
    # Accelerations of the joints of the base contain what their rates add to the angular acceleration.
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
    """Warn of an IMU that is turned or late, and of contacts that are swapped or missed.

    One wrong input makes others look wrong. So the cause is named whose correction makes the angular velocities of IMU
    and legs agree best, and others only if they remain in the corrected samples.

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
        Feet (T, feet) of samples that torques and accelerations need to carry a load; None = contacts are not logged.
    diagnostics : Diagnostics
        Collects the warnings.

    """
    angle = 0.0
    agreement = _agreement(robot, contacts, batches)
    # Each round removes one cause: a turned IMU, and wrong flags.
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
    # Feet that slip look like a small delay, which then explains little of the disagreement.
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
    # Warns of wrong flags, and returns the samples with the feet that carry a load as their contacts.
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
    """Warn of flags of contact that contradict the forces that torques and accelerations need.

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
            f"flags of contact fit other feet ({', '.join(pairs)}): exchange their columns under [log.contact]",
        )
        return
    for k, foot in enumerate(feet):
        missed = float(np.mean(pressed[:, k] * (1.0 - logged[:, k])))
        if missed > DISAGREE:
            diagnostics.warn(
                "contact-missed",
                f"'{foot}' carries a load in {100 * missed:.2g} % of the log in which its flag says that it does not: "
                'check its sensor, or set columns = "found" under [log.contact]',
            )
