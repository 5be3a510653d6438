"""Friction that is loaded by the bodies that are estimated with it: Newton's method on both together."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.errors import SolverError
from dynid.base.records import dataclass
from dynid.estimate.estimator import Estimate
from dynid.kernel import Panels
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.term import Column, Of, Side, Term, Terms

# Settled when no parameter moves by more than this many of its standard deviations, or, where a log is exact, by more
# than this share of the largest one. Newton's method takes four to ten fits.
STEP, ROUNDING, ROUNDS = 1e-2, 1e-9, 40


def with_loads(terms: Terms, robot: RobotModel, fit: Callable[[Terms], Estimate]) -> Terms:
    """The terms with the bodies that they are loaded by: those that fit best together with the load's share.

    tau = Y pi + f |Y pi| s is linearised about (pi, f): (1 + f s sign(Y pi)) Y pi + (change of f) |Y pi| s.
    fit: of a linear model.    Raises SolverError if the bodies do not settle.
    """
    if not any(term.needs_bodies for term in terms):
        return terms
    first = fit(Terms(tuple(term for term in terms if not term.needs_bodies)))
    bodies = _bodies(first, robot)
    names = [c.name for term in terms if term.needs_bodies for c in term.columns(robot)]
    share = dict.fromkeys(names, 0.0)
    before = np.zeros(0)
    for _ in range(ROUNDS):
        loaded = Terms(tuple(term.with_bodies(bodies) for term in terms))
        estimate = fit(_tangent(terms, loaded, share, robot))
        found = dict(zip(estimate.names, estimate.value.tolist(), strict=True))
        share = {name: value + found.get(name, 0.0) for name, value in share.items()}
        now = np.array([share.get(name, value) for name, value in found.items()])
        bodies = _bodies(estimate, robot)
        room = np.maximum(STEP * estimate.std, ROUNDING * np.abs(now).max())
        if len(before) == len(now) and (np.abs(now - before) <= room).all():
            return Terms(tuple(term.with_bodies(bodies) for term in terms))
        before = now
    raise SolverError(
        "load-friction",
        found=f"bodies that still move after {ROUNDS} fits together with the friction that they load",
        expected="bodies, and shares of their load, that settle",
        do="give the bodies as inertia = [...] of load_friction, or in the description with load = 'prior'",
    )


@dataclass(frozen=True)
class LoadedBodies(Term):
    """A term of bodies, each joint's torque multiplied by 1 + the slope of what it loads.

    loads: terms that know their bodies, with the shares about which they are linear.
    """

    of: Term
    loads: tuple[tuple[Term, tuple[float, ...]], ...]
    name: str = "rigid_body"

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """Those of the bodies."""
        return self.of.columns(robot)

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """The bodies' lines, joint by joint times the factor."""
        return self._times(1.0 + self._slope(robot, samples, (Side.MOTOR, Side.LINK)), robot, samples, wanted)

    def motor_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """What the bodies load at the motors."""
        return self._times(self._slope(robot, samples, (Side.MOTOR,)), robot, samples, wanted)

    def _slope(self, robot: RobotModel, samples: Samples, sides: tuple[Side, ...]) -> Float:
        found = np.zeros_like(samples.dq)
        for term, share in self.loads:
            if term.side in sides:
                found = found + term.load_slope(robot, term.seen(samples), np.array(share))
        return found

    def _times(self, factor: Float, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        panels = self.of.torque_regressor(robot, samples, wanted)
        return Panels(panels.columns, tuple(lines * factor[:, j] for j, lines in enumerate(panels.values)))


def _tangent(terms: Terms, loaded: Terms, share: dict[str, float], robot: RobotModel) -> Terms:
    loads = tuple(
        (now, tuple(share[c.name] for c in term.columns(robot)))
        for term, now in zip(terms, loaded, strict=True)
        if term.needs_bodies
    )
    return Terms(tuple(LoadedBodies(term, loads) if term.of_bodies else term for term in loaded))


def _bodies(estimate: Estimate, robot: RobotModel) -> tuple[float, ...]:
    inertia = np.zeros(10 * robot.n_bodies)
    bodies = [i for i, c in enumerate(estimate.columns) if c.of is Of.BODY]
    inertia[: len(bodies)] = estimate.parameters[bodies]
    return tuple(float(x) for x in inertia)
