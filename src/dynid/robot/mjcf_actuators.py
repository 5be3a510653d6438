"""Actuators of an MJCF: gains of position controllers, and what inputs and forces of motors are at the joints."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.robot.servo import Servo


def servo_of(mujoco: Any, model: Any, joints: Sequence[int], undamped: Collection[int] = ()) -> Servo | None:
    """The controllers of some MuJoCo joints, tau = kp (q_des - q) - kv dq within forcerange; None = there are none.

    <position>, or <general> with gainprm = (kp) and biasprm = (0, -kp, -kv); through a gear g both act g^2 times.
    A joint without one, or with several, keeps unknown gains.    undamped: actuators whose damping is not known.
    """
    n = len(joints)
    kp, kd, limit, count = np.full(n, np.nan), np.zeros(n), np.full(n, np.inf), np.zeros(n, dtype=int)
    unclear = np.zeros(n, dtype=np.bool_)
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
        unclear[j] = i in undamped  # a stiffness alone is no controller
    unclear |= count != 1
    kp[unclear], kd[unclear], limit[unclear] = np.nan, 0.0, np.inf
    if unclear.all():
        return None
    return Servo(kp, kd, limit, np.zeros(n))


def torque_gains(mujoco: Any, model: Any, joints: Sequence[int]) -> tuple[Float, Float]:
    """Torque of some MuJoCo joints per unit of their actuator's input (ctrl) and of its force (actuator_force), (n,).

    An actuator of gain k and gear g applies g k ctrl = g actuator_force. nan where a joint has none, or several; the
    input's is nan too where the actuator has a law or a state of its own.
    """
    n = len(joints)
    of_input, of_force, count = np.full(n, np.nan), np.full(n, np.nan), np.zeros(n, dtype=int)
    for i in range(model.nu):
        joint, gear = int(model.actuator_trnid[i, 0]), float(model.actuator_gear[i, 0])
        if joint not in joints or model.actuator_trntype[i] != mujoco.mjtTrn.mjTRN_JOINT:
            continue
        j = list(joints).index(joint)
        count[j] += 1
        of_force[j] = gear
        fixed = model.actuator_gaintype[i] == mujoco.mjtGain.mjGAIN_FIXED
        plain = fixed and model.actuator_biastype[i] == mujoco.mjtBias.mjBIAS_NONE
        if plain and model.actuator_dyntype[i] == mujoco.mjtDyn.mjDYN_NONE:
            of_input[j] = gear * float(model.actuator_gainprm[i, 0])
    of_input[count != 1], of_force[count != 1] = np.nan, np.nan
    return of_input, of_force


def _is_position(mujoco: Any, model: Any, i: int) -> bool:
    joint = model.actuator_trntype[i] == mujoco.mjtTrn.mjTRN_JOINT
    fixed = model.actuator_gaintype[i] == mujoco.mjtGain.mjGAIN_FIXED
    affine = model.actuator_biastype[i] == mujoco.mjtBias.mjBIAS_AFFINE
    gain, bias = float(model.actuator_gainprm[i, 0]), model.actuator_biasprm[i]
    law = gain > 0 and bias[0] == 0 and np.isclose(bias[1], -gain) and bias[2] <= 0
    return bool(joint and fixed and affine and law and model.actuator_gear[i, 0] != 0)
