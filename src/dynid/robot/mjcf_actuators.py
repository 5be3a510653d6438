"""Position controllers among the actuators of an MJCF: their gains and the range of their force."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dynid.robot.servo import Servo


def servo_of(mujoco: Any, model: Any, joints: Sequence[int]) -> Servo | None:
    """The controllers of some MuJoCo joints, tau = kp (q_des - q) - kv dq within forcerange; None = there are none.

    <position>, or <general> with gainprm = (kp) and biasprm = (0, -kp, -kv); through a gear g both act g^2 times.
    A joint without one, or with several, keeps unknown gains.
    """
    n = len(joints)
    kp, kd, limit, count = np.full(n, np.nan), np.zeros(n), np.full(n, np.inf), np.zeros(n, dtype=int)
    for i in range(model.nu):
        joint, gear = int(model.actuator_trnid[i, 0]), float(model.actuator_gear[i, 0])
        if joint not in joints or not _is_position(mujoco, model, i):
            continue
        j = list(joints).index(joint)
        count[j] += 1
        kp[j] = gear**2 * model.actuator_gainprm[i, 0]
        kd[j] = -(gear**2) * model.actuator_biasprm[i, 2]
        if model.actuator_forcelimited[i]:
            limit[j] = abs(gear) * float(np.abs(model.actuator_forcerange[i]).max())
    unclear = count != 1
    kp[unclear], kd[unclear], limit[unclear] = np.nan, 0.0, np.inf
    if unclear.all():
        return None
    return Servo(kp, kd, limit, np.zeros(n))


def _is_position(mujoco: Any, model: Any, i: int) -> bool:
    joint = model.actuator_trntype[i] == mujoco.mjtTrn.mjTRN_JOINT
    fixed = model.actuator_gaintype[i] == mujoco.mjtGain.mjGAIN_FIXED
    affine = model.actuator_biastype[i] == mujoco.mjtBias.mjBIAS_AFFINE
    gain, bias = float(model.actuator_gainprm[i, 0]), model.actuator_biasprm[i]
    law = gain > 0 and bias[0] == 0 and np.isclose(bias[1], -gain) and bias[2] <= 0
    return bool(joint and fixed and affine and law and model.actuator_gear[i, 0] != 0)
