"""Torque and motion of exported files in MuJoCo and in pinocchio, along the samples of a log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from dynid.base.arrays import Float
from dynid.exporters.mixed import motors_of
from dynid.exporters.mjcf import new_mjcf
from dynid.exporters.model import ExportModel
from dynid.exporters.names import unique, xml_name
from dynid.exporters.torque_replay_samples import LogPart, of_measured, relative_error
from dynid.exporters.urdf_new import new_urdf
from dynid.terms.exports import Mixed, MotionBasis, mixed_torque, smooth_sign, spring_torque

# Steps of integration, s, at most.
_STEP = 1e-3
# Elements of an MJCF that a replay does without.
_SEEN = (
    "geom",
    "asset",
    "contact",
    "sensor",
    "tendon",
    "keyframe",
    "actuator",
    "skin",
    "deformable",
    "site",
    "camera",
)


def in_mujoco(
    model: ExportModel, parts: Sequence[LogPart], windows: Sequence[tuple[int, int, int]], file: Path | None
) -> tuple[list[Float], Float]:
    """Torque (T, n) of each part by inverse dynamics, and the error (n,) of motion in windows under measured torque.

    windows: part, first and last sample.    file: MJCF in place of the model's own.
    """
    import mujoco

    text = (
        _without_shapes(file.read_bytes())
        if file is not None
        else new_mjcf(replace(model, robot=model.robot.with_servo(None))).decode()
    )
    theirs = mujoco.MjModel.from_xml_string(text)
    robot = model.robot
    data = mujoco.MjData(theirs)
    P = robot.projection
    flags = mujoco.mjtDisableBit
    # Torque comes from the log, not from the file's own actuators.
    theirs.opt.disableflags |= (
        int(flags.mjDSBL_CONTACT) | int(flags.mjDSBL_LIMIT) | int(flags.mjDSBL_ACTUATION)
    )
    driven = int(theirs.opt.disableflags)
    theirs.opt.disableflags = driven | int(flags.mjDSBL_CONSTRAINT)
    # Bodies are written depth first: joints stand where their names do.
    places = np.array([theirs.jnt_qposadr[j] for j in _order(mujoco, theirs, robot.tree_joint_names)])
    computed = []
    for part in parts:
        s = part.samples
        q, dq, ddq = robot.tree_motion(s.q, s.dq, s.ddq)
        tau = np.zeros_like(s.q)
        for k in range(len(s)):
            data.qpos[places], data.qvel[places], data.qacc[places] = q[k], dq[k], ddq[k]
            mujoco.mj_inverse(theirs, data)
            tau[k] = P.T @ data.qfrc_inverse[places]
        computed.append(tau + _dry(model, s.dq) + part.apart)
    theirs.opt.disableflags = driven
    off, moved = [], []
    for i, a, b in windows:
        s, tau = parts[i].samples, parts[i].tau - parts[i].apart
        count = max(1, round(1.0 / s.rate / _STEP))
        theirs.opt.timestep = 1.0 / s.rate / count
        mujoco.mj_resetData(theirs, data)
        q, dq, _ = robot.tree_motion(s.q[a : a + 1], s.dq[a : a + 1], s.ddq[a : a + 1])
        data.qpos[places], data.qvel[places] = q[0], dq[0]
        path = np.zeros((b - a, robot.n))
        for k in range(a, b):
            for m in range(count):
                share = (m + 0.5) / count
                data.qfrc_applied[places[robot.independent_bodies]] = (1.0 - share) * tau[k] + share * tau[
                    k + 1
                ]
                mujoco.mj_step(theirs, data)
            path[k - a] = data.qpos[places[robot.independent_bodies]]
        off.append(s.q[a + 1 : b + 1] - path)
        moved.append(s.q[a + 1 : b + 1] - s.q[a])
    return computed, of_measured(parts, relative_error(off, moved))


def in_pinocchio(
    model: ExportModel, parts: Sequence[LogPart], windows: Sequence[tuple[int, int, int]], file: Path | None
) -> tuple[list[Float], None]:
    """Torque (T, n) of each part by inverse dynamics; no motion.    file: URDF in place of the model's own."""
    import pinocchio as pin

    robot = model.robot
    theirs = pin.buildModelFromXML((file.read_bytes() if file is not None else new_urdf(model)).decode())
    theirs.gravity.linear = np.array(robot.gravity)
    data, P = theirs.createData(), robot.projection
    written = unique([xml_name(name) or "joint" for name in robot.tree_joint_names])
    joints = [theirs.joints[theirs.getJointId(name)] for name in written]
    computed = []
    full, v, a = np.zeros(theirs.nq), np.zeros(theirs.nv), np.zeros(theirs.nv)
    at = [joint.idx_v for joint in joints]
    for part in parts:
        s = part.samples
        q, dq, ddq = robot.tree_motion(s.q, s.dq, s.ddq)
        tau = np.zeros_like(s.q)
        for k in range(len(s)):
            for joint, x in zip(joints, q[k], strict=True):
                full[joint.idx_q : joint.idx_q + joint.nq] = x if joint.nq == 1 else (np.cos(x), np.sin(x))
            v[at], a[at] = dq[k], ddq[k]
            tau[k] = P.T @ pin.rnea(theirs, data, full, v, a)[at]
        turning = mixed_torque(_of_motors(model), (MotionBasis.ACCELERATION, MotionBasis.SPEED), s.dq, s.ddq)
        drives = model.rotor * s.ddq + model.viscous * s.dq + turning
        computed.append(tau + drives + _dry(model, s.dq) + spring_torque(model.springs, s.q) + part.apart)
    return computed, None


def _order(mujoco: Any, theirs: Any, names: Sequence[str]) -> list[int]:
    written = unique([xml_name(name) or "joint" for name in names])
    return [mujoco.mj_name2id(theirs, mujoco.mjtObj.mjOBJ_JOINT, name) for name in written]


def _dry(model: ExportModel, dq: Float) -> Float:
    # Of joints and of motors that move several, with the model's smoothed sign.
    signs = np.column_stack([smooth_sign(dq[:, j], float(w)) for j, w in enumerate(model.width)])
    return np.asarray(model.coulomb * signs + mixed_torque(_of_motors(model), (MotionBasis.SIGN,), dq, dq))


def _of_motors(model: ExportModel) -> list[Mixed]:
    left = {id(part) for part in motors_of(model.mixed)[1]}
    return [part for part in model.mixed if id(part) not in left]


def _without_shapes(text: bytes) -> str:
    # Of a file that dynid wrote: what is seen, touched or measured has no part in a replay, and its meshes would be
    # looked for beside the new file; a free base is held where the description puts it.
    root = ElementTree.fromstring(text)  # noqa: S314  # bytes of our own
    for parent in list(root.iter()):
        for child in list(parent):
            free = child.tag == "freejoint" or (child.tag == "joint" and child.get("type") == "free")
            if child.tag in _SEEN or free:
                parent.remove(child)
    return ElementTree.tostring(root, encoding="unicode")
