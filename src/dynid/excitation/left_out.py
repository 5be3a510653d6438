"""What the search leaves out of a model, and what the finished motion is checked with all the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.records import dataclass
from dynid.kernel import Panels
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.term import Column, Term, Terms, empty_panels
from dynid.trajectories.trajectory import Trajectory

# Hz, of the motion that terms which differentiate along time are given: torque of a designed motion has less than 5 Hz,
# whose second derivative central differences miss by 1e-4 of it.
RATE = 1000.0
# Samples of a motion that are looked at together, and how many more beside them, at whose ends differences are
# one-sided.
STRETCH, BESIDE = 8000, 50


@dataclass(frozen=True)
class LeftOut(Term):
    """A term that differentiates along time, in a design: its parameters, without its torque.

    Samples of a design lie a tenth of a cycle apart, too far to differentiate on.
    """

    of: Term
    name: str = "left_out"

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """Those of the term."""
        return self.of.columns(robot)

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """Empty."""
        return empty_panels(robot, samples)


@dataclass(frozen=True)
class Whole:
    """The model that a motion was designed with, and what was left out of it."""

    terms: Terms

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the terms that were left out."""
        return tuple(term.of.name for term in self.terms if isinstance(term, LeftOut))

    @cached_property
    def checked(self) -> tuple[str, ...]:
        """Names of those that the finished motion is checked with: a delay of the log is not the robot's torque."""
        every = (term.of for term in self.terms if isinstance(term, LeftOut))
        return tuple(term.name for term in every if not term.of_log)

    @cached_property
    def model(self) -> Terms:
        """The terms with these put back."""
        back = (term.of if isinstance(term, LeftOut) and not term.of.of_log else term for term in self.terms)
        return Terms(tuple(back)) if self.checked else self.terms

    def added(self, robot: RobotModel, samples: Samples, theta: Float) -> Float:
        """Torque (T, n) of these terms alone, for values (p,) of all parameters."""
        total = np.zeros((len(samples), robot.n))
        for (term, own), back in zip(self.terms.with_values(robot, theta), self.model, strict=True):
            if back is not term and own.any():
                total += back.torque(robot, back.seen(samples), own)
        return total

    def parameters(self, robot: RobotModel) -> Bool:
        """Which parameters (p,) are of terms that were left out."""
        parts = [np.full(len(term.columns(robot)), isinstance(term, LeftOut)) for term in self.terms]
        return np.concatenate([np.zeros(0, dtype=np.bool_), *parts])


def stretches(trajectory: Trajectory, rate: float = RATE) -> Iterator[tuple[Samples, slice]]:
    """Samples of a motion at a rate, stretch by stretch, and which of each stretch are not in the one before or after.

    `Samples.t` is the motion's time.
    """
    count = int(np.floor(trajectory.duration * rate)) + 1
    for first in range(0, count, STRETCH):
        low, last = max(first - BESIDE, 0), min(first + STRETCH, count)
        t = np.arange(low, min(last + BESIDE, count)) / rate
        yield samples_at(t, *trajectory.motion(t)), slice(first - low, last - low)


def samples_at(t: Float, q: Float, dq: Float, ddq: Float) -> Samples:
    """Samples of a motion, (T, n) each, at its times (T,) and their rate."""
    rate = (len(t) - 1) / float(t[-1] - t[0]) if len(t) > 1 else RATE
    return replace(Samples.from_motion(q, dq, ddq, rate=rate), t=t)
