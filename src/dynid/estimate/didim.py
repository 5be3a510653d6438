"""DIDIM: the regressor along simulated motion, so that noise of the encoders does not get into it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import SolverError
from dynid.base.records import dataclass
from dynid.estimate.estimator import Estimate, Regression, Status
from dynid.estimate.least_squares import WLS, completed, solve
from dynid.estimate.simulated import ClosedLoopFit, tried
from dynid.estimate.source import factors_of_pieces
from dynid.signals.samples import Samples

HALVINGS = 4
Made = TypeVar("Made")


@dataclass(frozen=True)
class Iteration:
    """Where an iteration of simulations ended.

    value: (b,).    moved: its last move in standard deviations.    rounds: made.    stopped: what ended it early.
    """

    value: Float
    moved: float
    rounds: int
    converged: bool
    stopped: str = ""

    def text(self, what: str) -> str:
        """In words, with what to try next."""
        text = f"{what}, {self.rounds} simulations"
        if self.stopped:
            return f"{text}; no smaller step can be simulated either: {self.stopped}"
        if not self.converged:
            text += (
                f"; the estimate still moves by {self.moved:.2g} standard deviations a simulation: "
                "raise bandwidth or rounds"
            )
        return text


@dataclass(frozen=True)
class DIDIM(ClosedLoopFit):
    """Direct and inverse dynamic identification models: tau = W(q_s, dq_s, ddq_s) beta along simulated motion.

    The model is simulated with the latest beta under u = tau + kp (q - q_s) + kd (dq - dq_s), weighted least squares
    gives the next beta, until it stays. The first one comes from smoothed motion.

    kp, kd: gains of the robot's own linear position controller, one number or one a joint (N m/rad, N m s/rad); None =
    a virtual feedback of `bandwidth` Hz, None = four times the motion's own reach, 2 to 15 Hz.
    rounds: greatest number of simulations.    tolerance: move of the estimate, in standard deviations, that ends it.
    With elastic joints the motors' deflection from their links is the measured one: a simulated spring bends as far as
    the torque asks whatever its stiffness, so that torque along simulated deflections would agree with every stiffness.
    Source: Gautier, Janot and Vandanjon 2013; with springs Gautier, Jubien, Janot and Robet 2013.
    """

    name: str = "didim"

    def fit(self, regression: Regression) -> Estimate:
        """Alternates between simulation and weighted least squares.

        Raises UsageError where there are factors alone, SolverError if nothing near the data can be simulated.
        """
        simulation, start, feedback = self.opened(regression, self.name)

        def fitted(value: Float) -> tuple[Estimate, Regression]:
            simulated = simulation.simulated(value, feedback)
            pairs = zip(simulated, simulation.measured, strict=True)
            source = simulation.source.with_batches(
                [deflected(one, own, simulation.second) for one, own in pairs]
            )
            factors = factors_of_pieces(regression, source.pieces(simulation.wanted))
            made = replace(regression, factors=factors, source=source)
            return WLS(intervals=self.intervals).fit(made), made

        def following(value: Float) -> tuple[Float, Float, tuple[Estimate, Regression]]:
            found = fitted(value)
            return found[0].value, solve(found[1], found[0].weights)[1], found

        iteration, (estimate, made) = iterated(
            following, simulation.simulable.nearest, start, self.rounds, self.tolerance
        )
        weights = estimate.weights
        found = completed(
            self,
            regression,
            iteration.value,
            solve(made, weights)[1],
            weights,
            estimate.sigma,
            1.0,
            None,
            Status(iteration.converged, iteration.text(f"{simulation.bandwidth:.2g} Hz feedback")),
            made.factors.scaled(weights),
        )
        return found


def deflected(simulated: Samples, measured: Samples, second: tuple[int, ...]) -> Samples:
    """Simulated samples whose motors are ahead of their links by as much as measured, for the joints in `second`."""
    if not second or simulated.theta is None or measured.theta is None:
        return simulated
    own, theta = list(second), np.array(simulated.theta)
    theta[:, own] = (simulated.q + measured.theta - measured.q)[:, own]
    return replace(simulated, theta=theta)


def iterated(
    following: Callable[[Float], tuple[Float, Float, Made]],
    nearest: Callable[[Float, Float], Float],
    start: Float,
    rounds: int,
    tolerance: float,
) -> tuple[Iteration, Made]:
    """Repeats value -> next value until it moves by less than the tolerance, in standard deviations.

    following: value (b,) to simulate -> the next one, the triangle R (b, b) of weighted equations it came from, and
    what was made on the way; it may raise SolverError: then the step before is halved.
    nearest: value and R -> the nearest value that can be simulated.    start: can be.
    Returns where it ended and what was made last.
    """
    value, (new, R, made) = start, following(start)
    for number in range(1, rounds + 1):
        moved = float(np.linalg.norm(R @ (new - value)) / np.sqrt(len(value)))
        if moved < tolerance:
            return Iteration(new, moved, number, True), made
        if number == rounds:
            return Iteration(new, moved, number, False), made
        step, error = new - value, None
        for halving in range(HALVINGS):
            try:
                target = value + step / 2**halving
                following_one = following(nearest(target, R))
            except SolverError as failure:
                error = failure
                continue
            value, (new, R, made) = target, following_one
            break
        else:
            stopped = "" if error is None else tried(error)
            return Iteration(new, moved, number, False, stopped), made
    raise ValueError("rounds must be at least 1")
