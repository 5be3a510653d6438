"""An estimate brought to real bodies: kept, told of, or given up where the log speaks against it."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import SolverError
from dynid.estimate.estimator import Estimate, Estimator, Regression
from dynid.estimate.feasible import FeasibleFit
from dynid.feasible.bodies import body_columns
from dynid.robot.model import RobotModel
from dynid.spatial.inertia import eigenvalues, is_physical

# Rounding of parameters that lie on the border of what is physical.
BORDER = 1e-10
# Real bodies may fit a group of equations this much worse than the estimate that they come from.
MUCH_WORSE = 1.2
# Joint parameters that are below zero on no robot.
NOT_NEGATIVE = {
    "rotor_inertia": "rotor inertia",
    "viscous": "viscous friction",
    "coulomb": "coulomb friction",
    "presliding": "coulomb friction",
}


def unconstrained(estimator: Estimator) -> Estimator:
    """The method whose answer is brought to real bodies; any other method itself."""
    return estimator.unconstrained if isinstance(estimator, FeasibleFit) else estimator


def made_real(
    wanted: Estimator, regression: Regression, free: Estimate, asked: bool, diagnostics: Diagnostics
) -> tuple[Estimate, Estimator]:
    """The estimate among real bodies, where they are wanted, and the estimator that it came from.

    free: the estimate without constraints.    asked: whether the user named the method; what nobody asked for is given
    up where it fits much worse, what was asked for is kept with a warning.
    Raises SolverError if no real bodies are found that were asked for.
    """
    if not isinstance(wanted, FeasibleFit):
        return free, wanted
    try:
        real = wanted.around(regression, free)
    except SolverError as error:
        excuse(error, asked, diagnostics)
        return free, unconstrained(wanted)
    worse = np.asarray(real.sigma) / np.asarray(free.sigma)
    if worse.max() <= MUCH_WORSE:
        return real, wanted
    missed = (
        f"miss '{real.group_names[int(np.argmax(worse))]}' {worse.max():.2g} times as far as the estimate"
    )
    if asked:
        diagnostics.warn(
            "constraints-cost",
            f"bodies as they were asked for {missed} without constraints: {_asked_for(wanted)} contradict the log, or "
            "impossible inertias stood for effects that the model lacks. Loosen them, or add what is missing",
        )
        return real, wanted
    diagnostics.warn(
        "not-made-real",
        f"bodies that can exist {missed}, which is kept: impossible inertias stand for effects that the model lacks. "
        "Add what is missing, or set method = 'feasible' to have real bodies all the same",
    )
    return free, unconstrained(wanted)


def body_fault(name: str, pi: Float) -> str:
    """A sentence that tells why ten numbers belong to no body."""
    values = ", ".join(f"{value:.3g}" for value in eigenvalues(pi))
    return f"body '{name}': mass {pi[0]:.4g} kg, pseudo-inertia eigenvalues {values}"


def unphysical(robot: RobotModel, estimate: Estimate) -> tuple[str, ...]:
    """What of an estimate no real robot has, a sentence each: bodies, rotors and friction that no description can hold.

    These are the reasons for which an export is refused.
    """
    theta = estimate.parameters
    bodies = [
        body_fault(robot.body_names[estimate.columns[ten[0]].owner], theta[ten])
        for ten in body_columns(estimate.columns)
        if not is_physical(theta[ten], BORDER)
    ]
    joints = [
        f"joint '{robot.joint_names[column.owner]}': {NOT_NEGATIVE[column.term]} {value:.4g}"
        for column, value in zip(estimate.columns, theta, strict=True)
        if column.term in NOT_NEGATIVE and value < 0
    ]
    return (*bodies, *joints)


def excuse(error: SolverError, asked: bool, diagnostics: Diagnostics) -> None:
    """Warns of real bodies that were not found; raises the error if they were asked for."""
    if asked:
        raise error
    # What nobody asked for must not cost the run.
    diagnostics.warn(
        "not-made-real",
        f"no real bodies were found near the estimate ({error.found}), which may hold bodies that cannot exist: "
        "see its pseudo-inertias in the report, or give limits and a prior under [estimate]",
    )


def _asked_for(wanted: FeasibleFit) -> str:
    known = []
    if wanted.total_mass is not None:
        known.append("total_mass = [{:.4g}, {:.4g}]".format(*wanted.total_mass))
    known += [f"limits of {len(wanted.limits)} bodies"] if wanted.limits else []
    return " and ".join([*known, f"possible inertias, drawn to the prior (strength = {wanted.strength})"])
