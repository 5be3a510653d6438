"""Scores: torque error on held-out motion, replay in MuJoCo, links, payload and intervals.

Fixed before any method ran; a change of this file makes all rows of a campaign stale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np
from scipy.signal import butter, sosfiltfilt

from dynid.base import Bool, Float
from dynid_bench.protocol import Motion, States

ORDER = 4  # of the Butterworth filter, which runs forwards and backwards
REST = 0.02  # rad/s (m/s); a sample counts as motion where some joint is faster
FASTEST = 500.0  # Hz; held-out motion is thinned to at most this rate
WINDOW, REPLAY_STEP = 0.2, 5e-4  # s of motion under measured torque from a measured state; s
STATES = 200  # of the inertia matrix
LOST = 10.0  # rad (m): position error that counts for a robot that diverges
# Share of the sum of moments of inertia that is added to each: links on the border of those that exist are no fault.
ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class Case:
    """Held-out motion as methods get it, and the torque that they are scored on.

    states : uniform and filtered, without torque.    tau : (T, n), filtered.    kept : samples between the edges of
    the filter.    moving : samples in motion.    sections : the filter.
    """

    states: States
    tau: Float
    kept: slice
    moving: Bool
    sections: Float

    def training(self) -> States:
        """The motion with its torque, without the edges of the filter."""
        states, kept = self.states, self.kept
        return States(states.t[kept], states.q[kept], states.dq[kept], states.ddq[kept], self.tau[kept])

    def filtered(self, tau: Float) -> Float:
        """Predicted torque, filtered as the measured one."""
        return np.asarray(sosfiltfilt(self.sections, tau, axis=0))


def case_of(motion: Motion, cutoff: float) -> Case:
    """Prepare a held-out motion: uniform time, a zero-phase Butterworth filter, differences.

    Parameters
    ----------
    motion : Motion
        As logged.
    cutoff : float, Hz
        Cutoff frequency.

    Returns
    -------
    Case

    """
    step = float(np.median(np.diff(motion.t)))
    t = np.arange(motion.t[0], motion.t[-1], step)
    sections = butter(ORDER, min(cutoff * step, 0.45), fs=1.0, output="sos")

    def smooth(values: Float) -> Float:
        uniform = np.column_stack([np.interp(t, motion.t, line) for line in values.T])
        return np.asarray(sosfiltfilt(sections, uniform, axis=0))

    q, tau = smooth(motion.q), smooth(motion.tau)
    dq = np.gradient(q, step, axis=0) if motion.dq is None else smooth(motion.dq)
    ddq = np.gradient(dq, step, axis=0)
    every = max(1, int(1.0 / (FASTEST * step)))
    thin = slice(None, None, every)
    edge = int(np.ceil(1.0 / (cutoff * step * every)))
    states = States(t[thin], q[thin], dq[thin], ddq[thin], np.zeros((0, q.shape[1])))
    return Case(
        states,
        tau[thin],
        slice(edge, len(states.t) - edge),
        (np.abs(dq[thin]) >= REST).any(axis=1),
        butter(ORDER, min(cutoff * step * every, 0.45), fs=1.0, output="sos"),
    )


def torque_errors(cases: Sequence[Case], torques: Sequence[Float]) -> dict[str, object]:
    """Relative torque errors over several motions.

    Returns
    -------
    dict
        moving and all: norm(tau - tau_hat) / norm(tau) over all joints, in motion and over all samples; joints: per
        joint in motion, None for a joint without torque; nothing else.

    """
    measured, errors, moving = [], [], []
    for case, predicted in zip(cases, torques, strict=True):
        if np.shape(predicted) != case.tau.shape:
            raise ValueError(f"torque of shape {np.shape(predicted)}; expected {case.tau.shape}")
        if not np.isfinite(predicted).all():
            raise ValueError("torque that is not finite")
        measured.append(case.tau[case.kept])
        errors.append(case.filtered(predicted)[case.kept] - case.tau[case.kept])
        moving.append(case.moving[case.kept])
    tau, error, moves = np.concatenate(measured), np.concatenate(errors), np.concatenate(moving)
    return {
        "moving": relative(error[moves], tau[moves]),
        "all": relative(error, tau),
        "joints": [relative(error[moves, j], tau[moves, j]) for j in range(tau.shape[1])],
    }


def relative(error: Float, tau: Float) -> float | None:
    """Norm of the error as a share of that of the torque; None without torque."""
    size = float(np.linalg.norm(tau))
    return float(np.linalg.norm(error)) / size if size > 0 else None


def model_file(path: Path) -> mujoco.MjModel:
    """A model as MuJoCo reads it; raises ValueError for links that cannot exist, which MuJoCo refuses."""
    spec = mujoco.MjSpec.from_file(str(path))
    spec.compiler.balanceinertia = False
    for body in spec.bodies[1:]:
        full = np.asarray(body.fullinertia)
        if np.isfinite(full).all():
            full[:3] += ROUNDING * full[:3].sum()
            body.fullinertia = full
        else:
            body.inertia = body.inertia + ROUNDING * np.sum(body.inertia)
    spec.option.disableflags = int(mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_LIMIT)
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    return spec.compile()


def places_of(model: mujoco.MjModel, joints: Sequence[str]) -> Sequence[int]:
    """Degrees of freedom of the joints, in their order; raises ValueError for a missing joint."""
    index = [mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, name) for name in joints]
    if min(index) < 0 or model.nv != len(joints):
        raise ValueError("a model with other joints than the robot")
    return [int(model.jnt_dofadr[i]) for i in index]


def replay_error(model: mujoco.MjModel, joints: Sequence[str], case: Case, motion: Motion) -> float:
    """R.m.s. position error at the ends of short windows under measured torque, rad (m).

    Parameters
    ----------
    model : MjModel
        The identified robot.
    joints : sequence of str
        Joints, in the order of the columns.
    case : Case
        Filtered motion: the state at the start of each window, and the position at its end.
    motion : Motion
        Logged torque.

    Returns
    -------
    float

    """
    dofs = places_of(model, joints)
    model.opt.timestep = REPLAY_STEP
    data = mujoco.MjData(model)
    states, count = case.states, round(WINDOW / REPLAY_STEP)
    length = int(WINDOW / float(states.t[1] - states.t[0]))
    starts = range(case.kept.start, case.kept.stop - length - 1, length)
    errors = []
    for start in starts:
        mujoco.mj_resetData(model, data)
        data.qpos[dofs], data.qvel[dofs] = states.q[start], states.dq[start]
        t = states.t[start] + REPLAY_STEP * np.arange(count)
        torque = np.column_stack([np.interp(t, motion.t, line) for line in motion.tau.T])
        for k in range(count):
            data.qfrc_applied[dofs] = torque[k]
            mujoco.mj_step(model, data)
        end = [np.interp(t[-1] + REPLAY_STEP, states.t, line) for line in states.q.T]
        error = np.nan_to_num(data.qpos[dofs] - np.array(end), nan=LOST, posinf=LOST, neginf=-LOST)
        errors.append(np.clip(error, -LOST, LOST))
    return float(np.sqrt(np.mean(np.square(errors)))) if errors else float("nan")


def inertia_error(model: mujoco.MjModel, truth: mujoco.MjModel, joints: Sequence[str]) -> float:
    """Relative error of the joint-space inertia matrix over random poses, whose rotors count."""
    rng, totals = np.random.default_rng(0), np.zeros(2)
    matrices = []
    poses = rng.uniform(-2.0, 2.0, (STATES, len(joints)))
    for robot in (model, truth):
        dofs, data = places_of(robot, joints), mujoco.MjData(robot)
        full, rows = np.zeros((robot.nv, robot.nv)), []
        for q in poses:
            data.qpos[dofs] = q
            mujoco.mj_forward(robot, data)
            mujoco.mj_fullM(robot, data, full)
            rows.append(full[np.ix_(dofs, dofs)].copy())
        matrices.append(np.array(rows))
    identified, true = matrices
    # Scaled by the true diagonal, so that a wrist counts as much as a shoulder.
    size = np.sqrt(np.einsum("kii->ki", true))
    weight = 1.0 / (size[:, :, None] * size[:, None, :])
    totals[0] = np.linalg.norm((identified - true) * weight)
    totals[1] = np.linalg.norm(true * weight)
    return float(totals[0] / totals[1])


def agreement(recordings: Sequence[Mapping[str, tuple[float, float]]]) -> tuple[float, float, int]:
    """How often estimates from separate recordings agree, and how wide their intervals are.

    Two estimates a and b with half widths u and v of 95 % agree if |a - b| <= sqrt(u^2 + v^2), which 95 % of pairs
    do if the intervals are right.

    Returns
    -------
    share : float
        Share of agreeing pairs, nan without pairs.
    width : float
        Median half width as a share of the estimate's size.
    pairs : int
        Number of pairs.

    """
    agreeing, widths = [], []
    for i, first in enumerate(recordings):
        for second in recordings[i + 1 :]:
            for name in sorted(set(first) & set(second)):
                (a, u), (b, v) = first[name], second[name]
                if not np.isfinite([a, u, b, v]).all():
                    continue
                agreeing.append(abs(a - b) <= np.hypot(u, v))
                if a or b:
                    widths.append(np.hypot(u, v) / np.sqrt(2) / (0.5 * (abs(a) + abs(b))))
    if not agreeing:
        return float("nan"), float("nan"), 0
    return float(np.mean(agreeing)), float(np.median(widths)), len(agreeing)
