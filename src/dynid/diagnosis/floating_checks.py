"""Wrong inputs of a floating base: an IMU that is turned or late, and contacts that are wrong."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.diagnostics import Diagnostics
from dynid.robot.model import RobotModel
from dynid.rows.floating import CONTACT, UP, Contact, contact_jacobian
from dynid.signals.samples import Samples

# Rotation of an IMU that no mounting explains, and delay that spoils accelerations at 10 Hz by a tenth.
TURNED, LATE = np.radians(10.0), 0.0015
# s: greatest delay that is looked for.
LATEST = 0.1
# Fewest points on the ground whose motion fixes that of the base, fewest samples, and least correlation of the two
# angular velocities that is believed.
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


def check_floating(
    robot: RobotModel, contacts: tuple[Contact, ...], batches: Iterable[Samples], diagnostics: Diagnostics
) -> None:
    """Warn of an IMU whose angular velocity is turned or late against that of the legs while the robot stands."""
    C, lags, energy, count = np.zeros((3, 3)), dict[int, Float](), np.zeros(2), 0
    rate = 1.0
    for samples in batches:
        index, legs = angular_velocity_of_feet(robot, contacts, samples)
        rate = samples.rate
        gyro = samples.dq[:, [5, 4, 3]]
        inside = (index >= LATEST * rate) & (index < len(samples) - LATEST * rate)
        index, legs = index[inside], legs[inside]
        count += len(index)
        C += gyro[index].T @ legs
        energy += [np.sum(gyro[index] ** 2), np.sum(legs**2)]
        reach = int(LATEST * rate)
        for lag in range(-reach, reach + 1):
            lags[lag] = lags.get(lag, np.zeros((3, 3))) + gyro[index + lag].T @ legs
    if count < FEWEST or not (energy > 0).all():
        return
    U, s, V = np.linalg.svd(C)
    handed = np.array([1.0, 1.0, np.sign(np.linalg.det(U @ V))])
    R = (U * handed) @ V
    alike = float(s @ handed) / float(np.sqrt(energy.prod()))
    angle = float(np.arccos(np.clip(0.5 * (np.trace(R) - 1.0), -1.0, 1.0)))
    if alike > ALIKE and angle > TURNED:
        diagnostics.warn(
            "imu-turned",
            f"the IMU is turned by {np.degrees(angle):.3g} deg against its link: legs on the ground show another "
            "direction of the angular velocity; correct the link or the columns under [log.imu]",
        )
    keys = np.array(sorted(lags))
    # The sum of singular values does not depend on how the IMU is turned.
    values = np.array([np.linalg.svd(lags[key], compute_uv=False).sum() for key in keys])
    best = int(np.argmax(values))
    if 0 < best < len(keys) - 1:
        left, top, right = values[best - 1 : best + 2]
        late = (keys[best] + 0.5 * (left - right) / (left - 2.0 * top + right)) / rate
        if abs(late) > LATE:
            diagnostics.warn(
                "imu-late",
                f"the IMU is {1e3 * late:.2g} ms late against the legs on the ground, which spoils the base's "
                "acceleration; correct its clock, or shift its columns",
            )
    if alike < ALIKE:
        diagnostics.warn(
            "contact-moves",
            f"feet that should stand move: the angular velocities of legs and IMU agree to {100 * alike:.2g} % only; "
            "check the order of the feet, flags of contact and the IMU",
        )


def check_contacts(feet: tuple[str, ...], logged: Float, pressed: Float, diagnostics: Diagnostics) -> None:
    """Warn of flags of contact that contradict the forces that torques and accelerations need.

    Parameters
    ----------
    feet : tuple of str
        Names of the feet.
    logged, pressed : ndarray, shape (T, k)
        Contact as logged, and as the robot of the file needs it; 0 or 1.
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
