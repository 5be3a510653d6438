"""An arm whose joints are jogged from a pendant, one after the other; its torque is pinocchio's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pinocchio as pin

from dynid.base import Float
from dynid.log import Log
from dynid.testing import Plant, plant

RATE = 125.0  # Hz
SPEED = 0.4  # rad/s
RAMP = 0.35  # s, to that speed and from it
SETTLES = 0.05  # s, within which friction of a joint at rest takes its value there
NOISE = 2e-3  # of a joint's usual torque
COUNTS = 2.0**16  # of its encoder a turn
MASSES_OFF = 0.1  # by which a description's masses are wrong


@dataclass(frozen=True, eq=False)
class Jogged:
    """A log.    t: (T,).    q, dq, ddq, tau: (T, n), without noise but in tau.    q_read: (T, n) of the encoders."""

    t: Float
    q: Float
    dq: Float
    ddq: Float
    tau: Float
    q_read: Float

    def log(self, one: Plant) -> Log:
        """As the robot writes it: positions and torque."""
        return Log.from_arrays(one.described, self.t, self.q_read, self.tau)


def arm(seed: int) -> tuple[Plant, pin.Model]:
    """A UR5 with friction and rotors drawn, and its real bodies, unlike those that are described."""
    rng = np.random.default_rng(seed)
    one = plant("ur5", rng)
    real = one.model.copy()
    for body in range(1, real.njoints):
        real.inertias[body] = pin.Inertia(
            real.inertias[body].mass * (1.0 + MASSES_OFF * rng.uniform(-1.0, 1.0)),
            real.inertias[body].lever,
            real.inertias[body].inertia,
        )
    return one, real


def jogged(one: Plant, real: pin.Model, order: list[int], seed: int, held: bool) -> Jogged:
    """Each joint of `order` goes to another angle at a steady speed, and stands for 1 to 4 s.

    held: whether friction keeps any part of its limit at rest, as where a drive holds its position; else none.
    """
    rng, n = np.random.default_rng(seed), one.described.n
    pose = rng.uniform(-0.8, 0.8, n) + np.array([0.0, -0.8, 0.8, 0.0, 0.0, 0.0])
    parts = [np.zeros((int(2.0 * RATE), n))]
    for j in order:
        way = rng.uniform(0.5, 1.2) * (1.0 if pose[j] < 0.0 else -1.0)
        speed = SPEED * rng.uniform(0.6, 1.0)
        lasts = abs(way) / speed + RAMP
        s = np.arange(int(lasts * RATE)) / RATE
        part = np.zeros((len(s), n))
        part[:, j] = np.sign(way) * speed * np.clip(np.minimum(s, lasts - s) / RAMP, 0.0, 1.0)
        pose[j] += way
        parts += [part, np.zeros((int(rng.uniform(1.0, 4.0) * RATE), n))]
    dq = np.concatenate(parts)
    # A drive rounds the corners of the ramps.
    window = np.hanning(13) / np.hanning(13).sum()
    dq = np.stack([np.convolve(line, window, "same") for line in dq.T], axis=1)
    q = pose + np.cumsum(dq, axis=0) / RATE
    q -= q[-1] - pose
    ddq = np.gradient(dq, 1.0 / RATE, axis=0)
    data = real.createData()
    tau = np.array([pin.rnea(real, data, *x) for x in zip(q, dq, ddq, strict=True)])
    tau += one.rotor * ddq + one.viscous * dq + one.coulomb * direction(dq, held, rng)
    tau += NOISE * one.scale * rng.normal(size=tau.shape)
    step = 2.0 * np.pi / COUNTS
    return Jogged(np.arange(len(q)) / RATE, q, dq, ddq, tau, np.round(q / step) * step)


def direction(dq: Float, held: bool, rng: np.random.Generator) -> Float:
    """What dry friction is of its limit (T, n): the velocity's sign, and at rest any part of it, or nothing."""
    found = np.tanh(dq / 2e-3)
    moves = np.abs(dq) > 1e-6
    for j in range(dq.shape[1]) if held else ():
        starts = np.flatnonzero(np.diff(moves[:, j].astype(int)) != 0) + 1
        for a, b in zip([0, *starts], [*starts, len(dq)], strict=True):
            if not moves[a, j]:
                rests = rng.uniform(-1.0, 1.0)
                last = 0.0 if a == 0 else found[a - 1, j]
                fades = np.exp(-np.arange(b - a) / (SETTLES * RATE))
                found[a:b, j] = rests + (last - rests) * fades
    return found


def plain_least_squares(real: pin.Model, made: Jogged, other: Jogged) -> Float:
    """(n,) share of the torque of another log that plain least squares misses, fitted to the joints in motion.

    Pinocchio's regressor, offset, viscous and Coulomb friction and rotor by joint; of perfect motion.
    """
    scale = None
    fits = []
    for one in (made, other):
        n = one.q.shape[1]
        data = real.createData()
        Y = np.zeros((len(one.t), n, 14 * n))
        for k in range(len(one.t)):
            Y[k, :, : 10 * n] = pin.computeJointTorqueRegressor(real, data, one.q[k], one.dq[k], one.ddq[k])
            for j in range(n):
                own = 1.0, one.dq[k, j], np.sign(one.dq[k, j]), one.ddq[k, j]
                Y[k, j, 10 * n + 4 * j : 10 * n + 4 * j + 4] = own
        fits.append((Y, np.abs(one.dq) > 0.02))
    (Y, moves), (Y2, moves2) = fits
    scale = 1.0 / made.tau.std(axis=0)
    X, y = (Y * scale[None, :, None])[moves], (made.tau * scale)[moves]
    length = np.linalg.norm(X, axis=0)
    length[length < 1e-9] = np.inf
    theta = np.linalg.lstsq(X / length, y, rcond=1e-5)[0] / length
    error = np.where(moves2, Y2 @ theta - other.tau, 0.0)
    return np.sqrt((error**2).sum(axis=0) / (np.where(moves2, other.tau, 0.0) ** 2).sum(axis=0))
