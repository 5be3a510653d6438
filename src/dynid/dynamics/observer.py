"""Torque from outside, found by the generalised momentum, without acceleration."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import UsageError

# Hz. A push of a hand lasts some tenths of a second; a lag of 32 ms is short beside that.
CUTOFF = 5.0
# A step of more than so many usual ones is a gap, over which nothing is known.
GAP = 5.0


class Mechanics(Protocol):
    """What the observer asks of a model, for one state (n,) or many (T, n)."""

    def momentum(self, q: Float, dq: Float) -> Float:
        """M dq."""
        ...

    def momentum_rate(self, q: Float, dq: Float, tau: Float) -> Float:
        """Its rate under the drives' torque alone."""
        ...


class MomentumObserver:
    """External torque sample by sample: r' = gain (dp/dt - tau - C' dq + g + friction - r), gain = 2 pi cutoff.

    r is the torque from outside on the joints, positive as q is, behind a low-pass of first order, whose solution over
    a step is exact for any step length: r <- e^(-gain dt) r + (1 - e^(-gain dt)) (change of p / dt - mean rate).
    Source: De Luca, Albu-Schaeffer, Haddadin and Hirzinger 2006.
    """

    def __init__(self, model: Mechanics, cutoff: float = CUTOFF) -> None:
        """cutoff: Hz.    Raises UsageError for one that is not positive."""
        if not (np.isfinite(cutoff) and cutoff > 0):
            raise UsageError("observer-cutoff", found=f"cutoff = {cutoff} Hz", expected="a frequency > 0")
        self.model, self.gain = model, 2.0 * np.pi * cutoff
        self.reset()

    def reset(self) -> None:
        """Forgets what was before, as after a gap."""
        self._before: tuple[Float, Float] | None = None
        self._external: Float | None = None

    def update(self, dt: float, q: Float, dq: Float, tau: Float) -> Float:
        """External torque (n,), N m (N), after a sample; zero after the first one.

        dt: s since the sample before.    q, dq: (n,).    tau: (n,) of the drives, on the joints' side.
        """
        p, rate = self.model.momentum(q, dq), self.model.momentum_rate(q, dq, tau)
        found = self._external
        if found is None or self._before is None:
            found = np.zeros_like(p)
        elif dt > 0:
            share = np.exp(-self.gain * dt)
            momentum, rate_before = self._before
            found = share * found + (1.0 - share) * ((p - momentum) / dt - 0.5 * (rate + rate_before))
        self._before, self._external = (p, rate), found
        return found


def external_torque(
    model: Mechanics, t: Float, q: Float, dq: Float, tau: Float, cutoff: float = CUTOFF
) -> Float:
    """What an observer finds along a record, (T, n); it begins anew behind a gap of five usual steps.

    t: (T,) s, rising.    q, dq, tau: (T, n).
    Raises UsageError for shapes that disagree, or time that does not rise.
    """
    t, q, dq, tau = (np.asarray(x, dtype=np.float64) for x in (t, q, dq, tau))
    if q.ndim != 2 or t.shape != (len(q),) or dq.shape != q.shape or tau.shape != q.shape:
        raise UsageError(
            "array-shape",
            found=f"t {t.shape}, q {q.shape}, dq {dq.shape}, tau {tau.shape}",
            expected="(T,) and three times (T, n)",
        )
    steps = np.diff(t)
    if not (steps > 0).all():
        raise UsageError(
            "observer-time", found="time that does not rise", expected="each sample after the other"
        )
    if len(t) < 2:
        return np.zeros_like(q)
    gain = MomentumObserver(model, cutoff).gain
    p, rate = model.momentum(q, dq), model.momentum_rate(q, dq, tau)
    share = np.exp(-gain * steps)[:, None]
    driven = (1.0 - share) * (np.diff(p, axis=0) / steps[:, None] - 0.5 * (rate[1:] + rate[:-1]))
    gap = steps > GAP * float(np.median(steps))
    share[gap], driven[gap] = 0.0, 0.0
    found = np.zeros_like(q)
    for k in range(len(steps)):
        found[k + 1] = share[k] * found[k] + driven[k]
    return found
