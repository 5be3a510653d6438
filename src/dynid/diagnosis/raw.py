"""The beginning of a log's torque as it was measured, for what filters take away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.records import dataclass

if TYPE_CHECKING:  # pages of findings are written without the readers of logs
    from dynid.log.read import Log

SECONDS = 30.0
SHORTEST = 256


@dataclass(frozen=True, eq=False)
class RawTorque:
    """Measured torque before any filter.    rate: Hz.    parts: uniform stretches, each (T_i, n)."""

    rate: float
    parts: tuple[Float, ...]


def first_torque(log: Log, seconds: float = SECONDS) -> RawTorque | None:
    """About the first seconds of a log's torque; None for a log without torque or without a uniform stretch."""
    parts: list[Float] = []
    steps: list[float] = []
    left = seconds
    for trajectory in log.trajectories:
        for chunk in log.chunks(trajectory):
            if chunk.tau is None:
                return None
            inside = chunk.t <= chunk.t[0] + left
            found = _uniform(chunk.t[inside], chunk.tau[inside])
            parts += [part for _, part in found]
            steps += [step for step, _ in found]
            left -= sum(step * len(part) for step, part in found)
            if left <= 0:
                break
        if left <= 0:
            break
    if not parts:
        return None
    step = steps[int(np.argmax([len(part) for part in parts]))]
    alike = [part for part, one in zip(parts, steps, strict=True) if abs(one / step - 1.0) < 0.05]
    return RawTorque(1.0 / step, tuple(alike))


def _uniform(t: Float, tau: Float) -> list[tuple[float, Float]]:
    # Stretches of (time step, torque) without gaps, repeated rows and missing values.
    dt = np.diff(t)
    step = float(np.median(dt)) if len(dt) else 0.0
    if step <= 0:
        return []
    missing: Bool = np.asarray(~np.isfinite(tau).all(axis=1))
    broken = (np.abs(dt / step - 1.0) > 0.5) | missing[1:] | missing[:-1]
    cuts = np.flatnonzero(broken) + 1
    parts = [tau[a:b] for a, b in zip([0, *cuts], [*cuts, len(t)], strict=True)]
    return [(step, part) for part in parts if len(part) >= SHORTEST]
