"""Play between drives and the links whose positions they read: when it is crossed, and what stands for that in a run.

A link pushes its drive to one end of the play. Where its torque changes sign both part, and move freely until they
meet at the other end, without bouncing. With x and q the positions of drives and links, s = x - q, D and H(q) their
inertias,

    D x'' + f(x') = u(q) - c,    H q'' + h = c,

the point y = q + K s, K = (H + D)^-1 D, on which impacts do nothing, moves as robots without play do under the torque

    kp K s + kd K s' - fv (1 - K) s' + g(y) - g(q)

beside the controllers' own: they read q = y - K s, friction is the drives', and weight acts at q.
"""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import UnfitDataError
from dynid.base.records import dataclass
from dynid.robot.model import RobotModel
from dynid.robot.servo import Servo
from dynid.signals.samples import Samples
from dynid.terms.nominal import Nominal

# s: steps of drives in their play, which take some hundredths of a second to cross it; and of parts of a log that are
# followed side by side, with what comes before each, after which a drive has met an end.
STEP, PART, BEFORE = 1e-3, 2.0, 1.0
# Of the inertia that a drive sees: its own at least, and its link's, which is flung from end to end below that.
LEAST_OWN, LEAST_LINK = 0.02, 1e-4


@dataclass(frozen=True, eq=False)
class Added:
    """Torque (T, n) beside that of the controllers, at times t (T,)."""

    t: Float
    torque: Float

    def at(self, t: Float) -> Float:
        """The torque (..., n) at times (...)."""
        return np.stack([np.interp(t, self.t, column) for column in self.torque.T], axis=-1)


@dataclass(frozen=True, eq=False)
class Carried:
    """What drives carry along a motion, by the description's bodies.

    torque: (T, n) that links take from their drives.    inertia: (T, n, n) of the bodies about the joints.
    """

    robot: RobotModel
    samples: Samples
    torque: Float
    inertia: Float

    @staticmethod
    def of(robot: RobotModel, samples: Samples) -> Carried | None:
        """None where the description does not know its bodies."""
        still = np.zeros_like(samples.q)
        try:
            rest = Nominal().rigid(robot, samples.q, still, still)
        except UnfitDataError:
            return None
        inertia = np.empty((*rest.shape, robot.n))
        for j, unit in enumerate(np.eye(robot.n)):
            inertia[:, :, j] = Nominal().rigid(robot, samples.q, still, still + unit) - rest
        torque = Nominal().rigid(robot, samples.q, samples.dq, samples.ddq)
        return Carried(robot, samples, torque, inertia)

    def own(self, inertia: Float) -> Float:
        """(n,) inertia of the drives themselves, where they see `inertia` (n,) in all."""
        links = np.diagonal(self.inertia, axis1=1, axis2=2).mean(axis=0)
        return np.asarray(np.maximum(inertia - links, LEAST_OWN * inertia))

    def ahead(self, own: Float, play: Float) -> Added:
        """By how much drives are ahead of their links, in place of a torque, in `STEP`s.

        own: (n,) inertia of the drives.    play: (n,) rad, from end to end; a negative one turns the sign around.
        """
        t = np.arange(self.samples.t[0], self.samples.t[-1] + 0.5 * STEP, STEP)
        # A link in its play alone: those behind it and before it go along with their drives.
        whole = 1.0 / np.diagonal(np.linalg.inv(self.inertia + np.diag(own)), axis1=1, axis2=2)
        link = np.maximum(whole - own, LEAST_LINK * whole)
        push = Added(self.samples.t, self.torque * (1.0 / link + 1.0 / own)).at(t)
        length, before = round(PART / STEP), round(BEFORE / STEP)
        starts = np.arange(0, len(t), length)
        index = starts[:, None] + np.arange(-before, length)
        pushes = push[np.clip(index, 0, len(t) - 1)]
        half = 0.5 * np.abs(play)
        x, v = half * np.sign(pushes[:, 0]), np.zeros_like(pushes[:, 0])
        found = np.empty((length, *x.shape))
        for k in range(before + length):
            v = v + STEP * pushes[:, k]
            free = x + STEP * v
            x = np.minimum(np.maximum(free, -half), half)
            v = np.where(free == x, v, 0.0)
            if k >= before:
                found[k - before] = x
        joined = found.transpose(1, 0, 2).reshape(-1, len(half))[: len(t)]
        return Added(t, joined * np.sign(play))

    def felt(self, ahead: Added, own: Float, servo: Servo, viscous: Float) -> tuple[Added, Float]:
        """The torque that stands for the play in a run, and by how much (T, n) the run is ahead of the links.

        own, viscous: (n,) inertia and viscous friction of the drives.
        """
        t, samples = ahead.t, self.samples
        # Of the mean posture: others change it by little while a play is crossed.
        K = np.linalg.solve(self.inertia.mean(axis=0) + np.diag(own), np.diag(own))
        before = ahead.torque @ K.T
        torque = servo.kp * before + servo.kd * np.gradient(before, STEP, axis=0)
        torque -= viscous * np.gradient(ahead.torque - before, STEP, axis=0)
        shift, still = Added(t, before).at(samples.t), np.zeros_like(samples.q)
        weight = [Nominal().rigid(self.robot, q, still, still) for q in (samples.q + shift, samples.q)]
        return Added(t, torque + Added(samples.t, weight[0] - weight[1]).at(t)), shift
