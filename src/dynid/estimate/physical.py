"""An estimate brought to physically consistent bodies: kept, or given up where unseen data speak against it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import SolverError
from dynid.estimate.estimator import Estimate, Estimator, Regression
from dynid.estimate.feasible import FeasibleFit
from dynid.factor.folds import can_hold_out
from dynid.feasible.bodies import body_columns, thinness
from dynid.feasible.problem import Feasible
from dynid.robot.model import RobotModel
from dynid.spatial.inertia import eigenvalues, is_physical
from dynid.terms.spring import is_spring_stiffness

# Consistent bodies may fit a group of equations, or predict unseen blocks, this much worse than the unconstrained fit.
MUCH_WORSE = 1.2
# Strength of a prior that pulls no more.
NO_PULL = 1e-3
# Least over greatest second moment of a body that only the condition of consistency keeps apart from an impossible one:
# a rod a hundred times as long as thick has 1e-4, links have 1e-2 and more.
EDGE = 1e-4
# Rounding of parameters that lie on the border of what is physical.
BORDER = 1e-10
# Joint parameters that are below zero on no robot.
NOT_NEGATIVE = {
    "rotor_inertia": "rotor inertia",
    "viscous": "viscous friction",
    "coulomb": "coulomb friction",
    "presliding": "coulomb friction",
}


def unconstrained(estimator: Estimator) -> Estimator:
    """The method whose answer is brought to physically consistent bodies; any other method itself."""
    return estimator.unconstrained if isinstance(estimator, FeasibleFit) else estimator


def project_to_physical(
    wanted: Estimator,
    regression: Regression,
    free: Estimate,
    asked: bool,
    diagnostics: Diagnostics,
    cause: Callable[[FeasibleFit], str] = lambda fit: "",
    stands_in: Callable[[Estimate], bool] = lambda real: True,
) -> tuple[Estimate, Estimator]:
    """The physically consistent estimate, where one is wanted, and the estimator that it came from, strength fixed.

    free: the estimate without constraints.    asked: whether the user named the method. What nobody asked for is given
    up where it predicts left-out blocks much worse; what was asked for is kept with a warning. A misfit is put down to
    the prior's pull where it goes away without, and to the constraints in force where it does not.
    cause: what makes the consistent fit of a strength miss more, in words; "" = not known.
    stands_in: whether `free` may take the place of a consistent estimate that predicts worse.
    Raises SolverError if no consistent bodies are found that were asked for.
    """
    if not isinstance(wanted, FeasibleFit):
        return free, wanted
    try:
        fit, reason = wanted.resolved(regression, free)
        real, found = fit.solution(regression, free, reason)
    except SolverError as error:
        warn_or_raise(error, asked, diagnostics)
        return free, unconstrained(wanted)
    if not much_worse(real, free):
        return real, fit
    loose = _without_pull(fit, regression, free)
    if loose is not None and not much_worse(loose, free):
        # A strength that unseen blocks chose bears no blame: what it misses more in training it predicts better.
        if not isinstance(wanted.strength, str):
            diagnostics.warn("constraints-cost", _pull_text(fit, real, free))
        return real, fit
    unseen, of_torque = _unseen_ratios(fit, regression, free)
    why = cause(fit) if asked or not unseen <= 1.0 else ""
    if why:
        diagnostics.warn(LIKELY_CAUSE, why)
    text = _cost_text(fit, real, found, free, unseen)
    if asked:
        diagnostics.warn(
            "constraints-cost", f"{text}. Loosen what was asked for" + ("" if why else f", or {_ADD}")
        )
        return real, fit
    if unseen > MUCH_WORSE and of_torque > 1.0 and stands_in(real):
        diagnostics.warn(
            "not-consistent",
            f"{text}. The estimate without constraints is kept and scored, of which only combinations of parameters "
            "have a meaning; exports hold the consistent bodies" + ("" if why else f"; {_ADD}"),
        )
        return _beside(free, real, regression), unconstrained(wanted)
    if unseen > 1.0:
        reason = (
            "the estimate without constraints has a mass matrix that is not positive definite, and what this "
            "motion says of the rest they explain well"
            if of_torque > 1.0
            else "of the torque of all joints together the estimate without constraints misses "
            f"{1.0 / of_torque:.3g} times as much there"
        )
        kept = f". They are kept all the same: {reason}"
        diagnostics.warn(
            "consistency-costs", text + (kept if unseen > MUCH_WORSE else "") + ("" if why else f": {_ADD}")
        )
    return real, fit


# The warning that names what keeps consistent bodies from predicting as well.
LIKELY_CAUSE = "likely-cause"
_ADD = (
    "look for what the model lacks or the description has wrong (a rotor, a hand or load, a drive gain, a lean of the "
    "base)"
)


def body_fault(name: str, pi: Float) -> str:
    """A sentence that says why ten numbers belong to no body."""
    values = ", ".join(f"{value:.3g}" for value in eigenvalues(pi))
    return f"body '{name}': mass {pi[0]:.4g} kg, pseudo-inertia eigenvalues {values}"


def unphysical(robot: RobotModel, estimate: Estimate) -> tuple[str, ...]:
    """What of an estimate no real robot has, a sentence each: bodies, rotors, friction and springs of joints.

    These are the reasons for which an export is refused.
    """
    theta = estimate.parameters
    bodies = [
        body_fault(robot.body_names[estimate.columns[ten[0]].owner], theta[ten])
        for ten in body_columns(estimate.columns)
        if not is_physical(theta[ten], BORDER)
    ]
    joints = [
        f"joint '{robot.joint_names[column.owner]}': {NOT_NEGATIVE.get(column.term, 'stiffness')} {value:.4g}"
        for column, value in zip(estimate.columns, theta, strict=True)
        if (column.term in NOT_NEGATIVE or is_spring_stiffness(column)) and value < 0
    ]
    return (*bodies, *joints)


def warn_or_raise(error: SolverError, asked: bool, diagnostics: Diagnostics) -> None:
    """Warns of consistent bodies that were not found; raises the error if they were asked for."""
    if asked:
        raise error
    # What nobody asked for must not cost the run.
    diagnostics.warn(
        "not-consistent",
        f"the solver found no physically consistent bodies ({error.found}), which says nothing of the robot: the "
        "estimate without constraints is kept, of which only combinations of parameters have a meaning. Give limits or "
        "a prior under [estimate]",
    )


def much_worse(real: Estimate, free: Estimate) -> bool:
    """Whether an estimate fits some group of equations much worse than the one without constraints."""
    return _worst(real, free)[0] > MUCH_WORSE


def _worst(real: Estimate, free: Estimate) -> tuple[float, str]:
    # By how much the residuals of a group grow at most, and of which.
    worse = np.asarray(real.sigma) / np.asarray(free.sigma)
    return float(worse.max()), real.group_names[int(np.argmax(worse))]


def _without_pull(fit: FeasibleFit, regression: Regression, free: Estimate) -> Estimate | None:
    if not float(fit.strength) > NO_PULL:
        return None
    try:
        return replace(fit, strength=NO_PULL).solution(regression, free)[0]
    except SolverError:
        return None


def _unseen_ratios(fit: FeasibleFit, regression: Regression, free: Estimate) -> tuple[float, float]:
    """How far off left-out blocks are predicted, over the same without constraints; nan = unknown.

    With all groups of equations at their weights, and of their torque in N m (N), of which light joints have little.
    """
    if fit.inner is not None or not can_hold_out(regression.factors):
        return float("nan"), float("nan")
    errors = fit.unseen(regression, free.weights)
    try:
        consistent, plain = errors(float(fit.strength)).sum(axis=0), errors(None).sum(axis=0)
    except SolverError:
        return float("nan"), float("nan")
    weights = np.asarray(free.weights)
    return float(np.sqrt(weights @ consistent / (weights @ plain))), float(
        np.sqrt(consistent.sum() / plain.sum())
    )


def _beside(free: Estimate, real: Estimate, regression: Regression) -> Estimate:
    # The unconstrained estimate with its free directions where the consistent bodies have them.
    lifted = free.base.lift(free.value, real.parameters, regression.spread)
    return replace(free, parameters=lifted, consistent=real.parameters)


def _pull_text(fit: FeasibleFit, real: Estimate, free: Estimate) -> str:
    ratio, group = _worst(real, free)
    return (
        f"the pull to the description's inertias (strength = {fit.strength:g}) makes the fit miss '{group}' "
        f"{ratio:.2g} times as far as without constraints; consistent bodies without it do not. Lower strength, or set "
        "'held-out'"
    )


def _cost_text(fit: FeasibleFit, real: Estimate, found: Feasible, free: Estimate, unseen: float) -> str:
    ratio, group = _worst(real, free)
    text = f"physically consistent bodies miss '{group}' {ratio:.2g} times as far as the estimate without constraints"
    if np.isfinite(unseen):
        text += f" and predict left-out blocks {unseen:.3g} times as far off"
    thin = thinness(real.columns, real.parameters) < EDGE
    bodies = sorted({real.columns[ten[0]].owner + 1 for ten in body_columns(real.columns)[thin]})
    edge = (
        [f"consistency of bod{'y' if len(bodies) == 1 else 'ies'} {', '.join(map(str, bodies))}"]
        if bodies
        else []
    )
    force = edge + [name for name in found.active if not name.startswith("pseudo-inertia")]
    return text + (f"; what holds them back: {', '.join(force)}" if force else "") + _asked_for(fit)


def _asked_for(fit: FeasibleFit) -> str:
    known = []
    if fit.total_mass is not None:
        known.append("total_mass = [{:.4g}, {:.4g}]".format(*fit.total_mass))
    known += [f"limits of {len(fit.limits)} bodies"] if fit.limits else []
    return f" (asked for: {' and '.join(known)})" if known else ""
