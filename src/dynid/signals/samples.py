"""Samples: uniformly sampled, filtered motion and torque of one segment, ready for the regressor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any

import numpy as np

from dynid.base.arrays import Bool, Float, locked_bool, shared
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.signals.turning_points import Past

# Reason of samples that are left out since every joint stands.
REST = "rest"
# Of equations of joints that stand while others move, or have just come to rest or leave it.
STANDING = "joints that friction holds"
POSE_RATE = 1e-9  # Hz, of poses at rest: thirty years apart, so that no difference along time is of any size
ALONG_TIME = ("t", "q", "dq", "ddq", "tau", "keep", "theta", "dtheta", "ddtheta", "temperature", "gate")


@dataclass(frozen=True, eq=False)
class Samples:
    """T consecutive samples of one uniform segment, SI units.

    t: (T,) s.    q, dq, ddq, tau: (T, n).    theta, dtheta, ddtheta: (T, n) reflected motor motion, None = one encoder.
    gate: (T, n) which joint moves fast enough for its equation to count, None = all.
    measured: (n,) joints whose effort was measured, None = all; tau of the others is zero, and their gates are shut.
    temperature: (T, n) or None.    extra: further channels by name, each (T,) or (T, n).
    keep: (T,) which samples count: the rest is overlap with neighbouring chunks, filter edges, masked or gated samples;
        they are there so that a further filter along time has something to run over.
    left_out: (T,) by reason, samples that are sound and do not count all the same; none of them in keep.
    rate: Hz.    segment: number of the segment in the whole log.    trajectory: its name.
    past: where the motion before the first sample turned round; None = unknown.
    first: index of the first sample counted from the start of the segment (fixes the phase of a later decimation).
    span: seconds that each sample stands for where samples were thinned out; 0 = instants.
    """

    t: Float
    q: Float
    dq: Float
    ddq: Float
    tau: Float
    keep: Bool
    rate: float
    segment: int
    trajectory: str
    first: int = 0
    theta: Float | None = None
    dtheta: Float | None = None
    ddtheta: Float | None = None
    temperature: Float | None = None
    extra: Mapping[str, Float] = field(default_factory=dict)
    gate: Bool | None = None
    left_out: Mapping[str, Bool] = field(default_factory=dict)
    past: Past | None = None
    span: float = 0.0
    measured: Bool | None = None

    def __post_init__(self) -> None:
        T, n = np.shape(self.q)
        object.__setattr__(self, "t", shared(self.t, (T,), "t"))
        object.__setattr__(self, "keep", locked_bool(self.keep, (T,), "keep"))
        for name in ("q", "dq", "ddq", "tau"):
            object.__setattr__(self, name, shared(getattr(self, name), (T, n), name))
        for name in ("theta", "dtheta", "ddtheta", "temperature"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, shared(getattr(self, name), (T, n), name))
        for name, values in self.extra.items():
            if len(values) != T:
                raise UsageError(
                    "samples-extra",
                    found=f"channel '{name}' of {len(values)} samples",
                    expected=f"{T} samples",
                )

    def __len__(self) -> int:
        return len(self.t)

    def part(self, start: int, stop: int) -> Samples:
        """Samples start..stop of the batch, as a batch of their own; what was before them is not known."""
        own = slice(start, stop)

        def cut(values: Float | None) -> Float | None:
            return None if values is None else values[own]

        return replace(
            self,
            t=self.t[own],
            q=self.q[own],
            dq=self.dq[own],
            ddq=self.ddq[own],
            tau=self.tau[own],
            keep=self.keep[own],
            theta=cut(self.theta),
            dtheta=cut(self.dtheta),
            ddtheta=cut(self.ddtheta),
            temperature=cut(self.temperature),
            gate=None if self.gate is None else self.gate[own],
            left_out={reason: mask[own] for reason, mask in self.left_out.items()},
            extra={name: values[own] for name, values in self.extra.items()},
            first=self.first + start,
            past=None,
        )

    @property
    def n(self) -> int:
        """Number of joints."""
        return int(self.q.shape[1])

    @property
    def with_left_out(self) -> Samples:
        """The same samples, those that were left out counted as well."""
        if not any(mask.any() for mask in self.left_out.values()):
            return self
        return replace(self, keep=np.any([self.keep, *self.left_out.values()], axis=0), left_out={})

    @property
    def motor(self) -> Samples:
        """The same samples with the motors' reflected motion in place of the links'; themselves with one encoder.

        Raises UsageError if the motor's position came without its derivatives.
        """
        # What keeps itself is freed only by a search for cycles, which comes late for large arrays.
        return self if self.theta is None else self._of_motors

    @cached_property
    def _of_motors(self) -> Samples:
        if self.theta is None or self.dtheta is None or self.ddtheta is None:
            raise UsageError(
                "samples-motor", found="theta without dtheta and ddtheta", expected="all three or none"
            )
        return replace(
            self, q=self.theta, dq=self.dtheta, ddq=self.ddtheta, theta=None, dtheta=None, ddtheta=None
        )

    @staticmethod
    def from_motion(
        q: Float, dq: Float, ddq: Float, tau: Float | None = None, rate: float = 1000.0
    ) -> Samples:
        """Samples from given motion, every one kept: for simulated data, random states and tests."""
        T = len(q)
        zero = np.zeros_like(q) if tau is None else tau
        return Samples(
            t=np.arange(T) / rate,
            q=q,
            dq=dq,
            ddq=ddq,
            tau=zero,
            keep=np.ones(T, dtype=np.bool_),
            rate=rate,
            segment=0,
            trajectory="",
        )


def poses_at_rest(q: Float, tau: Float | None = None, extra: Mapping[str, Float] | None = None) -> Samples:
    """Samples of poses (T, n) at rest, each by itself: so far apart that nothing changes with time between them."""
    zero = np.zeros_like(q)
    return replace(Samples.from_motion(q, zero, zero, tau, POSE_RATE), extra=dict(extra or {}))


def joined_samples(batches: Sequence[Samples]) -> Samples:
    """Samples of several batches with the same channels, one after the other, for what looks at each by itself.

    They count as one segment without a past, in which time may leap.
    """
    first = batches[0]

    def whole(name: str) -> Float | None:
        if getattr(first, name) is None:
            return None
        return np.concatenate([getattr(one, name) for one in batches])

    def each(name: str) -> dict[str, Any]:
        return {
            key: np.concatenate([getattr(one, name)[key] for one in batches]) for key in getattr(first, name)
        }

    along: dict[str, Any] = {name: whole(name) for name in ALONG_TIME}
    return replace(first, **along, extra=each("extra"), left_out=each("left_out"), past=None)
