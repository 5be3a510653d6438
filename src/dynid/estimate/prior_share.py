"""How much of each estimated value a prior decides, by its curvature beside that of the data."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float
from dynid.estimate.estimator import Regression
from dynid.estimate.prior import Directions, inertia_known, mass_rows, prior_pull, rotors_known
from dynid.feasible.bodies import body_columns, plausible
from dynid.feasible.problem import Distance
from dynid.spatial.inertia import pseudo_inertia


def prior_curvature(
    regression: Regression, R: Float, strength: float, distance: Distance, mass_share: float = 0.0
) -> Float:
    """H (p, p), how the prior holds the parameters over their spread: x' H x / 2 for x = (theta - prior) / spread.

    The curvature of the distance at the prior times the pull on each parameter: 1, and for the bodies of the entropic
    and geodesic distance that of tr((P0^-1 dP)^2) / 2; beside it that of the weights on free directions and masses.
    R: (b, b) triangle of the equations.
    """
    columns, spread = regression.columns, regression.spread
    known, bodies = inertia_known(columns), body_columns(columns)
    weight = prior_pull(known, strength)
    centre = plausible(columns, regression.guess, spread)
    count = regression.factors.count
    held = Directions.of(R @ regression.base.B, spread).rows(count, strength)
    held = np.concatenate([held, mass_rows(bodies, known, centre, mass_share * count)])
    curvature = np.diag(weight) + (held * spread).T @ (held * spread)
    if distance is not Distance.EUCLIDEAN:
        for ten in bodies:
            parts = np.linalg.solve(
                pseudo_inertia(centre[ten]), [pseudo_inertia(unit) for unit in np.eye(10)]
            )
            of_body = 0.5 * np.einsum("kab,lba->kl", parts, parts) * np.outer(spread[ten], spread[ten])
            curvature[np.ix_(ten, ten)] += weight[ten[0]] * (of_body - np.eye(10))
        rotors = rotors_known(columns)
        of_rotors = 0.5 * (spread / np.where(centre == 0, np.inf, centre))[rotors] ** 2
        curvature[rotors, rotors] += weight[rotors] * (of_rotors - 1.0)
    return np.asarray(curvature)


def prior_share(
    regression: Regression, R: Float, strength: float, distance: Distance, mass_share: float = 0.0
) -> Float:
    """How much of each base parameter a prior decides, (b,): the diagonal of (R'R + Q)^-1 Q, without constraints.

    Q = (B H^-1 B')^-1 with H of `prior_curvature`.    R: (b, b) triangle of the equations.
    """
    base, spread = regression.base, regression.spread
    inverse = np.linalg.inv(prior_curvature(regression, R, strength, distance, mass_share))
    inverse = inverse * np.outer(spread, spread)
    free = base.B @ inverse @ base.B.T
    size = np.sqrt(np.diag(free))
    pull = np.linalg.inv(free / np.outer(size, size))
    both = (R * size).T @ (R * size) + pull
    return np.asarray(np.clip(np.diag(np.linalg.solve(both, pull)), 0.0, 1.0))
