"""Gains of position controllers that nobody declared, by the torque that the description's bodies need along a log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import InputError
from dynid.base.records import dataclass
from dynid.base.scipy_functions import nnls
from dynid.identification.command_lag import grid, reading, some
from dynid.log.read import Log
from dynid.robot.model import RobotModel
from dynid.robot.servo import Servo
from dynid.signals.samples import Samples
from dynid.terms.friction import WIDTH, direction
from dynid.terms.nominal import Nominal
from dynid.terms.torque_delay import earlier

# A gain is determined by a joint whose bodies' torque explains this share of what friction, rotor and damping leave of
# its errors: below it, what the description lacks decides instead.
LEAST_EXPLAINED = 0.25
# Joints whose gains are listed one by one in a message.
LONGEST_LIST = 7


def with_gains(robot: RobotModel, log: Log, servo: Servo, diagnostics: Diagnostics) -> Servo:
    """Controllers whose unknown gains carry the description's bodies along the log.

    Joint by joint, q_des - q = (bodies' torque + rotor + friction + offset) / kp - (kd / kp) (dq_des - dq), in which no
    quotient is negative. Joints that do not determine theirs take the median of those that do. Without a commanded
    velocity kd is part of the viscous friction, and stays.
    """
    names = robot.joint_names
    unknown = ~np.isfinite(servo.kp)
    who = ", ".join(name for name, one in zip(names, unknown, strict=True) if one)
    if not np.isfinite(robot.inertia_prior).all():
        raise InputError(
            "no-gains",
            found=f"commands of {who} in place of a measured torque, without the gains of the position controllers "
            "and with a description without inertias",
            expected="kp, and kd if there is damping; or bodies, whose torque along the log gives gains a scale",
            do="give them as kp = ..., kd = ... under [drive] of the experiment, or as --kp and --kd",
        )
    unit = replace(servo, kp=np.ones(robot.n), kd=np.zeros(robot.n), effort_limit=np.full(robot.n, np.inf))
    parts = [some(reading(robot, log, unit))]
    if log.mapping.command_velocity:
        parts.append(some(reading(robot, log, replace(unit, kp=np.zeros(robot.n), kd=np.ones(robot.n)))))
    readings = list(zip(*parts, strict=True))
    kp, kd = np.array(servo.kp), np.array(servo.kd)
    own = {j: _gains(robot, readings, j) for j in np.flatnonzero(unknown).tolist()}
    sure = [j for j, gains in own.items() if gains.explained >= LEAST_EXPLAINED]
    if not sure:
        nearest = max(own.values(), key=lambda gains: gains.explained)
        raise InputError(
            "no-gains",
            found=f"commands of {who}, with which the torque of the description's bodies has little to do (at most "
            f"{100 * nearest.explained:.2g} % of what friction leaves of a joint's error is explained)",
            expected="kp of these joints, or motion that their bodies' torque follows",
            do="give kp = ... (and kd = ...) under [drive] of the experiment, or --kp; dynid init reads them from a "
            "log that holds the commanded torque, too",
        )
    for j, gains in own.items():
        source = [gains] if j in sure else [own[k] for k in sure]
        kp[j] = np.median([one.kp for one in source])
        kd[j] = np.median([one.kd for one in source]) if log.mapping.command_velocity else kd[j]
    if len(own) > LONGEST_LIST:
        chosen = kp[list(own)]
        words = [f"{chosen.min():.3g} to {chosen.max():.3g}"]
    else:
        words = [f"{names[j]} {kp[j]:.3g}" + (f" and {kd[j]:.2g}" if kd[j] else "") for j in own]
    like = [names[j] for j in own if j not in sure]
    taken = f" (not determined by {', '.join(like)}, which take those of the others)" if like else ""
    scale = "all inertias, friction and torques carry the scale of the description's masses"
    diagnostics.claim(
        "drive-gain",
        found=f"position controllers whose gains nobody declared; kp (and kd) that suit the description's bodies are "
        f"{', '.join(words)}{taken}: {scale}",
        expected="gains from the drives' settings",
        do="give kp and kd under [drive] of the experiment, or as --kp and --kd",
    )
    return replace(servo, kp=kp, kd=kd)


@dataclass(frozen=True)
class _Gains:
    # Of a joint, and the share of what friction, rotor and damping leave of its errors that its bodies explain.
    kp: float
    kd: float
    explained: float


def _gains(robot: RobotModel, readings: Sequence[tuple[Samples, ...]], joint: int) -> _Gains:
    """Gains of a joint at the lag that explains its errors best.

    readings: by stretch of the log, the same samples with the errors of position, and of velocity, as torque.
    """
    kept = [np.logical_and.reduce([one.keep for one in stretch]) for stretch in readings]
    columns = []
    for (samples, *_), keep in zip(readings, kept, strict=True):
        bodies = Nominal().rigid(robot, samples.q, samples.dq, samples.ddq)
        ones = np.ones_like(samples.q)
        forms = (bodies, samples.ddq, samples.dq, direction(samples, WIDTH), ones, -ones)
        columns.append(np.column_stack([form[keep, joint] for form in forms]))
    known = np.concatenate(columns)
    found = []
    for lag in grid(readings[0][0].rate):
        errors = np.concatenate(
            [
                np.column_stack([earlier(one.tau[:, [joint]], lag * one.rate)[keep, 0] for one in stretch])
                for stretch, keep in zip(readings, kept, strict=True)
            ]
        )
        R: Float = np.asarray(np.linalg.qr(np.column_stack([known, -errors[:, 1:], errors[:, 0]]), mode="r"))
        size = np.maximum(np.linalg.norm(R[:, :-1], axis=0), np.finfo(float).tiny)
        quotients, left = nnls(R[:, :-1] / size, R[:, -1])
        without = nnls((R[:, :-1] / size)[:, 1:], R[:, -1])[1]
        explained = 1.0 - (left / without) ** 2 if without > 0 and quotients[0] > 0 else 0.0
        found.append((left, explained, quotients / size))
    _, explained, quotients = min(found, key=lambda one: one[0])
    if not explained > 0:
        return _Gains(np.nan, np.nan, 0.0)
    kp = 1.0 / quotients[0]
    return _Gains(kp, float(kp * quotients[-1]) if len(readings[0]) > 1 else 0.0, float(explained))
