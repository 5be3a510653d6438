"""Thresholds for external torque, by joint and speed, that free motion crosses at a stated rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dynid.base.arrays import Float, locked
from dynid.base.errors import UnfitDataError, UsageError

# Of the speeds of the free motion, at which thresholds have values of their own; between them they are interpolated.
_SHARES = (0.0, 0.25, 0.5, 0.75, 0.95)
# Of the size of residuals near a knot, which thresholds are proportional to: well above their middle, well within what
# a minute of motion shows often.
_LEVEL = 0.9
# Samples near a knot below which its size is not to be determined.
_LEAST = 50
# Alarms that a calibration has to have room for: below, the stated rate is beyond what its data can show.
_ROOM = 5.0


@dataclass(frozen=True, eq=False, repr=False)
class Thresholds:
    """|external torque| <= threshold_j(|dq_j|) for all joints, but for a share of the samples of free motion.

    A joint at rest is held by any friction up to that of its motion, so its threshold is no lower than that.

    rate: that share.    speeds: (n, k) rad/s (m/s), rising.    values: (n, k) N m (N), linear between, level beyond.
    dry: (n,) N m (N), least threshold at speeds up to slow, (n,) rad/s (m/s).
    cutoff: Hz, of the observer that they hold for.    samples: how many of free motion they come from.
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
        """Which joints are pushed harder than free motion explains, of the shape of dq."""
        return np.asarray(np.abs(external) > self.at(dq))

    def __repr__(self) -> str:
        rest, fast = (
            ", ".join(f"{x:.3g}" for x in self.at(v)) for v in (np.zeros(len(self.slow)), self.speeds[:, -1])
        )
        return (
            f"Thresholds that {100 * self.rate:.3g} % of {self.samples} samples of free motion cross, N m (N): "
            f"joints at rest {rest}; fast {fast}"
        )

    @staticmethod
    def of_free_motion(
        parts: Sequence[tuple[Float, Float]], rate: float, cutoff: float, dry: Float, slow: Float
    ) -> Thresholds:
        """From what an observer finds where nothing touches the robot: (external torque, speed) of parts, (T, n) each.

        The size of the residuals by joint and speed gives the thresholds their form, and the share of samples at which
        any joint crosses them sets one common factor. Parts are predicted by the form of the other parts alone, so that
        what suits only the part at hand does not count.
        Raises UsageError for a rate not between 0 and 1, UnfitDataError for too few samples to show it.
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
                do="give more free motion, or take a higher rate",
            )
        whole = np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
        form = _form(*whole)
        excess = []
        for k, (external, dq) in enumerate(parts):
            others = _form(*_but(parts, k)) if len(parts) > 1 else form
            share = np.abs(external) / _between(np.abs(dq), *others)
            held = (np.abs(dq) <= slow) & (np.abs(external) <= dry)
            excess.append(np.where(held, 0.0, share).max(axis=1))
        factor = float(np.quantile(np.concatenate(excess), 1.0 - rate, method="higher"))
        return Thresholds(rate, form[0], factor * form[1], dry, slow, cutoff, count)


def _but(parts: Sequence[tuple[Float, Float]], k: int) -> tuple[Float, Float]:
    others = [part for i, part in enumerate(parts) if i != k]
    return np.concatenate([one[0] for one in others]), np.concatenate([one[1] for one in others])


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
    """Lines through the values of each joint at its knots, at speeds (..., n)."""
    columns = [np.interp(speed[..., j], x, y) for j, (x, y) in enumerate(zip(speeds, values, strict=True))]
    return np.stack(columns, axis=-1)
