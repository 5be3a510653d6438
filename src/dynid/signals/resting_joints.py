"""Whether efforts are the torque of what joints carry: of those that stood still, and of hands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.records import dataclass
from dynid.kernel import torque_regressor
from dynid.log.absent import hand_joints
from dynid.log.read import Log
from dynid.robot.branches import carriers
from dynid.robot.locking import own_motors
from dynid.robot.model import RobotModel
from dynid.signals.coherence import SMOOTHED_SIGN, Signals
from dynid.signals.differentiate import first_difference, second_difference
from dynid.signals.filter import zero_phase_filter
from dynid.signals.first_look import first_look, signals_for_evidence, windows_of
from dynid.signals.resample import sensible_rate
from dynid.signals.samples import Samples

# Below this frequency, Hz, on so many samples a period, gravity and the coupling of joints show.
CUTOFF, OVERSAMPLING = 5.0, 4.0
ENDS = 0.5  # s at both ends of a stretch, where the filter swings
BLOCKS = 10  # of time, of which every other one is held out
LEAST_SAMPLES = 60
RIDGE = 1e-9  # on columns of length one
# Share of its effort's variance that the bodies have to explain of a joint that a servo holds.
EXPLAINED = 0.9
# The same of a hand's joint that moves: below it no model of its torque is usable, and few grippers' efforts are one.
GRIPPING = 0.5


def unexplained_at_rest(log: Log) -> tuple[str, ...]:
    """Joints at rest whose effort the bodies do not explain that explain the moving joints' efforts.

    A servo that holds a joint delivers the torque of what it carries, which says as much of the bodies as that of a
    joint in motion. With a brake, or friction at rest, the motor's torque is any other, or none.
    """
    resting = np.array([name in log.resting for name in log.robot.joint_names])
    if not resting.any() or resting.all() or not log.mapping.effort:
        return ()
    trial = _trial_of(log)
    if trial is None:
        return ()
    # A joint without effort has zeros in place of one, which no model explains.
    silent = np.array([name in log.unmeasured for name in log.robot.joint_names])
    moving = np.flatnonzero(~resting & ~silent)
    if not len(moving):
        return ()
    return tuple(
        log.robot.joint_names[j]
        for j in np.flatnonzero(resting & ~silent & own_motors(log.robot))
        if trial.explained(moving, int(j)) < EXPLAINED
    )


def unexplained_hands(log: Log) -> tuple[str, ...]:
    """Joints of a hand that move under an effort that is not the torque of their motion.

    A gripper's force is what it grips with, or was told to. The hand's joints carry no others then, and an arm's
    have an effort.
    """
    robot, silent = log.robot, {*log.unmeasured, *log.resting}
    hands = hand_joints(robot)
    hand = np.array([name in hands for name in robot.joint_names])
    last = hand & own_motors(robot) & ~carriers(robot, ~hand)
    asked = [j for j in np.flatnonzero(last).tolist() if robot.joint_names[j] not in silent]
    if not asked or hand.all() or not log.mapping.effort:
        return ()
    trial = _trial_of(log)
    arm = np.flatnonzero(~hand & [name not in log.unmeasured for name in robot.joint_names])
    if trial is None or not len(arm):
        return ()
    return tuple(robot.joint_names[j] for j in asked if trial.explained(arm, j) < GRIPPING)


def _trial_of(log: Log) -> _Trial | None:
    steps, bases = zip(*(first_look(log, i) for i in range(len(log.trajectories))), strict=True)
    rate = sensible_rate(float(np.median(steps)))
    return _Trial.of(log.robot, windows_of(signals_for_evidence(log, rate, bases), rate), rate)


def unexplained_joints(robot: RobotModel, batches: Sequence[Samples], moving: Bool, resting: Bool) -> Bool:
    """The same of one trajectory's samples, (n,).    moving, resting: (n,) joints that do so in all of it."""
    found = np.zeros(robot.n, dtype=np.bool_)
    measured = np.ones(robot.n, dtype=np.bool_)
    for samples in batches:
        measured &= True if samples.measured is None else samples.measured
    if not batches or not (moving & measured).any():
        return found
    rate = batches[0].rate
    trial = _Trial.of(robot, windows_of([Signals(s.q.T, None, s.tau.T) for s in batches], rate), rate)
    if trial is not None:
        for j in np.flatnonzero(resting & measured & own_motors(robot)).tolist():
            found[j] = trial.explained(np.flatnonzero(moving & measured), j) < EXPLAINED
    return found


@dataclass(frozen=True, eq=False)
class _Trial:
    """Columns of the bodies (n, T, k) and of each joint's own friction, rotor and offset (n, T, m), effort (n, T).

    held: (T,) half of the blocks of time.
    """

    bodies: Float
    own: Float
    effort: Float
    held: Bool

    @staticmethod
    def of(robot: RobotModel, parts: Sequence[Signals], rate: float) -> _Trial | None:
        cutoff = min(CUTOFF, 0.2 * rate)
        low, edge = zero_phase_filter(cutoff, 4, rate), int(ENDS * rate)
        cut = slice(edge, -edge, max(1, int(rate / (OVERSAMPLING * cutoff))))
        found: list[tuple[Float, ...]] = []
        for part in parts:
            if part.tau is None or part.q.shape[1] <= 2 * edge:
                continue
            q = low(part.q)
            lines = q, first_difference(q, rate), second_difference(q, rate), low(part.tau)
            found.append(tuple(one[:, cut].T for one in lines))
        T = sum(len(one[0]) for one in found)
        if T < LEAST_SAMPLES:
            return None
        q, dq, ddq, tau = (np.concatenate(lines) for lines in zip(*found, strict=True))
        Y = torque_regressor(robot.tree, *robot.tree_motion(q, dq, ddq)).dense(10 * robot.n_bodies)
        bend = np.maximum(SMOOTHED_SIGN * np.sqrt(np.mean(dq**2, axis=0)), 1e-9)
        own = np.stack([np.ones_like(dq), dq, np.tanh(dq / bend), ddq])
        return _Trial(
            np.einsum("bn,tbk->ntk", robot.projection, Y),
            own.transpose(2, 1, 0),
            tau.T,
            (np.arange(T) * BLOCKS // T) % 2 == 1,
        )

    def explained(self, moving: Int, j: int) -> float:
        """Share of a joint's effort on held-out blocks that bodies explain which are fitted to it and those moving."""
        spread = self.effort.std(axis=1)
        if not spread[j] > 0.0:  # an effort that never changes is no measurement
            return 0.0
        joints = np.append(moving[spread[moving] > 0.0], j)
        # A fit without error must not weigh its joint infinitely.
        size = np.maximum(np.sqrt(self._missed(joints, spread[joints])), np.finfo(float).eps * spread[joints])
        return float(1.0 - self._missed(joints, size)[-1] / spread[j] ** 2)

    def _missed(self, joints: Int, size: Float) -> Float:
        # Mean square errors on held-out blocks, (k,), of one set of bodies for joints of weights 1 / size.
        k, count, m = len(joints), self.bodies.shape[2], self.own.shape[2]
        rows = np.zeros((k, len(self.held), count + m * k))
        rows[:, :, :count] = self.bodies[joints]
        for i, joint in enumerate(joints):
            rows[i, :, count + m * i : count + m * (i + 1)] = self.own[joint]
        rows /= size[:, None, None]
        y = self.effort[joints] / size[:, None]
        length = np.sqrt((rows**2).sum(axis=(0, 1)))
        rows = rows[:, :, length > 0] / length[length > 0]
        error = np.zeros(k)
        for held in (self.held, ~self.held):
            X = rows[:, ~held].reshape(-1, rows.shape[2])
            gram = X.T @ X + RIDGE * np.eye(rows.shape[2])
            theta = np.linalg.solve(gram, X.T @ y[:, ~held].ravel())
            error += ((y[:, held] - rows[:, held] @ theta) ** 2).sum(axis=1)
        return np.asarray(error * size**2 / len(self.held))
