"""External torque from the generalised momentum, without acceleration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dynid.base.arrays import Float, locked
from dynid.base.errors import UnfitDataError, UsageError

# Hz: a push by hand lasts some tenths of a second, and a lag of 32 ms is short compared with that.
CUTOFF = 5.0
# A step longer than this number of usual steps is a gap, over which nothing is known.
GAP = 5.0


class Mechanics(Protocol):
    """What the observer needs of a model, for one state (n,) or many (T, n)."""

    def momentum(self, q: Float, dq: Float) -> Float:
        """M dq."""
        ...

    def momentum_rate(self, q: Float, dq: Float, tau: Float) -> Float:
        """Rate of the momentum under drive torque only."""
        ...


class MomentumObserver:
    """External torque sample by sample: r' = gain (dp/dt - tau - C' dq + g + friction - r), gain = 2 pi cutoff.

    r is the external torque on the joints, positive as q, behind a first-order low pass. The solution over a step is
    exact for any step: r <- e^(-gain dt) r + (1 - e^(-gain dt)) (change of p / dt - mean rate).

    Parameters
    ----------
    model : Mechanics
        Model.
    cutoff : float, Hz
        Cutoff frequency.

    Raises
    ------
    UsageError
        For a cutoff that is not positive.

    References
    ----------
    De Luca, Albu-Schaeffer, Haddadin and Hirzinger 2006.

    """

    def __init__(self, model: Mechanics, cutoff: float = CUTOFF) -> None:
        """See the class."""
        if not (np.isfinite(cutoff) and cutoff > 0):
            raise UsageError("observer-cutoff", found=f"cutoff = {cutoff} Hz", expected="a frequency > 0")
        self.model, self.gain = model, 2.0 * np.pi * cutoff
        self.reset()

    def reset(self) -> None:
        """Forget earlier samples, as after a gap."""
        self._before: tuple[Float, Float] | None = None
        self._external: Float | None = None

    def update(self, dt: float, q: Float, dq: Float, tau: Float) -> Float:
        """External torque after a sample; zero after the first one.

        Parameters
        ----------
        dt : float, s
            Time since the last sample.
        q, dq, tau : ndarray, shape (n,), SI units
            State, and drive torque on the joint side.

        Returns
        -------
        ndarray, shape (n,), N m (N)
            External torque.

        """
        p, rate = self.model.momentum(q, dq), self.model.momentum_rate(q, dq, tau)
        external = self._external
        if external is None or self._before is None:
            external = np.zeros_like(p)
        elif dt > 0:
            share = np.exp(-self.gain * dt)
            momentum, rate_before = self._before
            external = share * external + (1.0 - share) * ((p - momentum) / dt - 0.5 * (rate + rate_before))
        self._before, self._external = (p, rate), external
        return external


def external_torque(
    model: Mechanics, t: Float, q: Float, dq: Float, tau: Float, cutoff: float = CUTOFF
) -> Float:
    """External torque along a record; it restarts after a gap of five usual steps.

    Parameters
    ----------
    model : Mechanics
        Model.
    t : ndarray, shape (T,), s
        Increasing times.
    q, dq, tau : ndarray, shape (T, n), SI units
        Motion, and drive torque on the joint side.
    cutoff : float, Hz
        Cutoff frequency.

    Returns
    -------
    ndarray, shape (T, n), N m (N)
        External torque.

    Raises
    ------
    UsageError
        If shapes disagree, or times do not increase.

    """
    t, q, dq, tau = (np.asarray(x, dtype=np.float64) for x in (t, q, dq, tau))
    if q.ndim != 2 or t.shape != (len(q),) or dq.shape != q.shape or tau.shape != q.shape:
        raise UsageError(
            "array-shape",
            found=f"t {t.shape}, q {q.shape}, dq {dq.shape}, tau {tau.shape}",
            expected="t (T,), and q, dq, tau (T, n)",
        )
    steps = np.diff(t)
    if not (steps > 0).all():
        raise UsageError(
            "observer-time", found="times that do not increase", expected="strictly increasing times"
        )
    if len(t) < 2:
        return np.zeros_like(q)
    gain = MomentumObserver(model, cutoff).gain
    p, rate = model.momentum(q, dq), model.momentum_rate(q, dq, tau)
    share = np.exp(-gain * steps)[:, None]
    driven = (1.0 - share) * (np.diff(p, axis=0) / steps[:, None] - 0.5 * (rate[1:] + rate[:-1]))
    gap = steps > GAP * float(np.median(steps))
    share[gap], driven[gap] = 0.0, 0.0
    external = np.zeros_like(q)
    for k in range(len(steps)):
        external[k + 1] = share[k] * external[k] + driven[k]
    return external


# Thresholds of external torque that free motion exceeds at a given rate.

# Quantiles of speed at which thresholds have knots; they are interpolated between.
_SHARES = (0.0, 0.25, 0.5, 0.75, 0.95)
# Quantile of residuals near a knot that thresholds are proportional to: high, yet frequent in a minute of motion.
_LEVEL = 0.9
# Samples near a knot below which its quantile is not estimated.
_LEAST = 50
# Least number of alarms in a calibration; fewer cannot show the rate.
_ROOM = 5.0


@dataclass(frozen=True, eq=False, repr=False)
class Thresholds:
    """Thresholds |external torque| <= threshold_j(|dq_j|) that all but a share of free motion fulfils.

    Friction on a joint at rest may take any value up to that in motion, so its threshold is no lower.

    Attributes
    ----------
    rate : float
        Share of samples of free motion that exceed the thresholds.
    speeds : ndarray, shape (n, k), rad/s (m/s)
        Increasing speeds.
    values : ndarray, shape (n, k), N m (N)
        Thresholds, linear between the speeds and constant beyond.
    dry : ndarray, shape (n,), N m (N)
        Least threshold at speeds up to `slow`.
    slow : ndarray, shape (n,), rad/s (m/s)
        Speed below which a joint may be at rest.
    cutoff : float, Hz
        Cutoff frequency of the observer.
    samples : int
        Number of samples of free motion.

    """

    rate: float
    speeds: Float
    values: Float
    dry: Float
    slow: Float
    cutoff: float
    samples: int

    def __post_init__(self) -> None:
        shape = np.shape(self.speeds)
        for name in ("speeds", "values"):
            object.__setattr__(self, name, locked(getattr(self, name), shape, name))
        for name in ("dry", "slow"):
            object.__setattr__(self, name, locked(getattr(self, name), shape[:1], name))

    def at(self, dq: Float) -> Float:
        """Thresholds at joint speeds, of the shape of dq, (n,) or (T, n)."""
        speed = np.abs(np.asarray(dq, dtype=np.float64))
        return np.maximum(
            _between(speed, self.speeds, self.values), np.where(speed <= self.slow, self.dry, 0.0)
        )

    def crossed(self, external: Float, dq: Float) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Joints whose external torque exceeds the threshold, of the shape of dq."""
        return np.asarray(np.abs(external) > self.at(dq))

    def __repr__(self) -> str:
        rest, fast = (
            ", ".join(f"{x:.3g}" for x in self.at(v)) for v in (np.zeros(len(self.slow)), self.speeds[:, -1])
        )
        return (
            f"Thresholds that {100 * self.rate:.3g} % of {self.samples} samples of free motion exceed, N m (N): "
            f"at rest {rest}; fast {fast}"
        )

    @staticmethod
    def of_free_motion(
        parts: Sequence[tuple[Float, Float]], rate: float, cutoff: float, dry: Float, slow: Float
    ) -> Thresholds:
        """Thresholds from the external torque of motion without contact.

        The size of the residuals by joint and speed gives the shape of the thresholds; the share of samples in which
        any joint exceeds them sets one common factor. Each part is compared with the shape from the other parts.

        Parameters
        ----------
        parts : sequence of tuple of two ndarray, shape (T, n)
            External torque and speed of each part.
        rate : float
            Share of samples that may exceed the thresholds, between 0 and 1.
        cutoff : float, Hz
            Cutoff frequency of the observer.
        dry, slow : ndarray, shape (n,)
            Least threshold at rest, and speed below which a joint may be at rest.

        Returns
        -------
        Thresholds
            Thresholds.

        Raises
        ------
        UsageError
            For a rate not between 0 and 1.
        UnfitDataError
            For too few samples.

        """
        if not 0.0 < rate < 1.0:
            raise UsageError(
                "false-alarm-rate", found=f"a rate of {rate}", expected="a share between 0 and 1"
            )
        count = sum(len(part[0]) for part in parts)
        if rate * count < _ROOM or count < _LEAST:
            raise UnfitDataError(
                "too-little-free-motion",
                found=f"{count} samples for a false-alarm rate of {rate:g}",
                expected=f"{max(_ROOM / rate, _LEAST):.0f} samples or more",
                do="record more free motion, or choose a higher rate",
            )
        whole = np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
        form = _form(*whole)
        excess = []
        for k, (external, dq) in enumerate(parts):
            others = _form(*_all_except(parts, k)) if len(parts) > 1 else form
            share = np.abs(external) / _between(np.abs(dq), *others)
            explained = (np.abs(dq) <= slow) & (np.abs(external) <= dry)
            excess.append(np.where(explained, 0.0, share).max(axis=1))
        factor = float(np.quantile(np.concatenate(excess), 1.0 - rate, method="higher"))
        return Thresholds(rate, form[0], factor * form[1], dry, slow, cutoff, count)


def _all_except(parts: Sequence[tuple[Float, Float]], k: int) -> tuple[Float, Float]:
    others = [part for i, part in enumerate(parts) if i != k]
    return np.concatenate([other[0] for other in others]), np.concatenate([other[1] for other in others])


def _form(external: Float, dq: Float) -> tuple[Float, Float]:
    """Knots of speed and sizes of residuals there, (n, k) each."""
    n, speed, size = dq.shape[1], np.abs(dq), np.abs(external)
    speeds, values = np.zeros((n, len(_SHARES))), np.zeros((n, len(_SHARES)))
    for j in range(n):
        knots = np.maximum.accumulate(np.quantile(speed[:, j], _SHARES))
        speeds[j] = knots + 1e-12 * np.arange(len(knots))
        overall = float(np.quantile(size[:, j], _LEVEL))
        edges = np.concatenate([[-1.0], 0.5 * (knots[1:] + knots[:-1]), [np.inf]])
        for k in range(len(knots)):
            near = size[(speed[:, j] > edges[k]) & (speed[:, j] <= edges[k + 1]), j]
            values[j, k] = np.quantile(near, _LEVEL) if len(near) >= _LEAST else overall
        values[j] = np.maximum(values[j], np.finfo(np.float64).tiny)
    return speeds, values


def _between(speed: Float, speeds: Float, values: Float) -> Float:
    """Linear interpolation of each joint's values at its knots, at speeds (..., n)."""
    columns = [np.interp(speed[..., j], x, y) for j, (x, y) in enumerate(zip(speeds, values, strict=True))]
    return np.stack(columns, axis=-1)
