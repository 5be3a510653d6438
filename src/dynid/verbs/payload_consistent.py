"""The physically consistent load nearest to an estimate of its ten parameters."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import SolverError
from dynid.feasible.constraints import PhysicalBodies
from dynid.feasible.problem import Distance, feasible_parameters
from dynid.spatial.inertia import from_com
from dynid.terms.rigid_body import INERTIAL_SYMBOLS
from dynid.terms.term import Column, Of
from dynid.verbs.payload_fit import LoadEstimate

# Radius of gyration over the distance of the centre, of the body that unexcited directions are drawn to.
SMALL = 0.3
# How much that body weighs: at 1 masses of benchmarks/payload.py come out 2.6 % too small, at 0.1 not.
PULL = 0.1
# Least eigenvalue of the load's pseudo-inertia, kg m^2 and kg.
MARGIN = 1e-8
# Directions of the covariance that are determined so much better than the worst count no more than this.
SHARPEST = 1e-7


def consistent_load(estimate: LoadEstimate) -> Float:
    """The consistent body (10,) nearest to an estimate in the metric of its covariance.

    min (pi - found)' C^-1 (pi - found) + PULL d(pi, small), pseudo-inertia >= MARGIN; d: the entropic distance to a
    small body at the found centre, which decides what the log says nothing of.
    Raises SolverError if the solver gives no checked answer.
    """
    found, C = estimate.parameters, estimate.covariance
    mass = float(max(found[0], np.sqrt(C[0, 0]), 1e-3))
    centre = found[1:4] / mass
    # A column's size keeps units apart.
    size = np.sqrt(np.diag(C))
    values, vectors = np.linalg.eigh(C / np.outer(size, size))
    whiten = (vectors / np.sqrt(np.maximum(values, SHARPEST * values[-1]))).T / size
    small = max(SMALL * float(np.linalg.norm(centre)), 0.01)
    length = max(float(np.linalg.norm(centre)), 0.05)
    spread = mass * length ** np.array([0.0, *(1.0,) * 3, *(2.0,) * 6])
    columns = tuple(Column(f"{symbol}1", "", "payload", 0, of=Of.BODY) for symbol in INERTIAL_SYMBOLS)
    prior = from_com(mass, centre, mass * small**2 * np.eye(3))
    try:
        answer = feasible_parameters(
            whiten, whiten @ found, columns, [PhysicalBodies(MARGIN)], prior, spread, PULL, Distance.ENTROPIC
        )
    except SolverError as error:
        raise SolverError(
            error.identifier,
            found=f"no consistent load near the fit's: {error.found}",
            expected=error.expected,
            do="check units and mapping of both logs, and record a longer motion with the load",
        ) from error
    return np.asarray(answer.parameters)
