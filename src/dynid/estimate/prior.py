"""Plausible deviation of parameters from their priors, and the weight of these priors."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.records import dataclass
from dynid.estimate.estimator import Regression, Source
from dynid.factor.base import BaseMap, data_base, influence
from dynid.factor.factor import Factors
from dynid.feasible.bodies import GYRATION, body_columns, is_described, plausible
from dynid.feasible.constraints import CentreCone
from dynid.feasible.problem import GRID, Distance
from dynid.robot.model import RobotModel
from dynid.spatial.inertia import from_com, pseudo_inertia
from dynid.terms.exports import Column, MotionBasis, Of
from dynid.terms.rigid_body import INERTIAL_SYMBOLS
from dynid.terms.term import CATALOGUE, Term, Terms

# Weight of parameters without a prior, pulled to a plausible value: a deviation by one spread, the size of the whole
# torque, costs the variance of one equation. Much less leaves links of hundreds of kilograms in weakly determined
# directions; much more is noticeable on short logs.
FAINT = 1.0
# Weight of directions with little information, as a share of all equations, for every strength of the prior: moving by
# one spread costs as much as squared residuals that grow by this share. Without it links may weigh twice as much; ten
# times as much costs 1 to 2 % of held-out error.
FREE_SHARE = 3e-4
# Weight of a guessed mass relative to a known one: it prevents links of hundreds of kilograms, yet does not make light
# wrists as heavy as shoulders.
GUESSED = 0.1

_DEGREE = {
    symbol: (0 if symbol == "m" else 1 if symbol.startswith("mc") else 2) for symbol in INERTIAL_SYMBOLS
}


def parameter_spread(robot: RobotModel, columns: tuple[Column, ...], influence: Float) -> Float:
    """Characteristic size of every parameter.

    For a link: m0, m0 L, m0 L^2 with its prior mass m0 and the typical link length L of the robot. Without any prior
    mass, m0 sqrt(links) is the mass that makes up the whole torque at the distance L, for the link that needs most:
    torques of n links add like independent ones. For a rotor: the size of its prior. For other parameters, and where
    that is unknown or zero: the value that makes up the whole torque, and no less than the size of the prior.

    Parameters
    ----------
    robot : RobotModel
        Robot.
    columns : tuple of Column
        Columns of the model.
    influence : ndarray, shape (p,)
        Root mean square of each column relative to that of the torque it acts on; nan = not measured.

    Returns
    -------
    ndarray, shape (p,)
        Sizes.

    """
    mass = robot.inertia_prior[:, 0]
    known = mass[np.isfinite(mass) & (mass > 0)]
    length = typical_length(robot)
    degrees = np.array([length ** _degree(column) for column in columns])
    bodies = np.array([column.of is Of.BODY for column in columns])
    with np.errstate(divide="ignore", invalid="ignore"):
        whole = 1.0 / influence
    needed = _mass_for_whole_torque(columns, whole / degrees)
    share = needed / np.sqrt(robot.n_bodies) if needed > 0 else 1.0
    typical = float(median(known)) if len(known) else share
    mass = np.where(np.isfinite(mass) & (mass > 0), mass, typical)
    spread = np.ones(len(columns))
    for j, column in enumerate(columns):
        if bodies[j]:
            spread[j] = mass[column.owner] * degrees[j]
        elif np.isfinite(column.prior) and column.prior != 0:
            trust_prior = _is_inertial(column) or not np.isfinite(whole[j])
            spread[j] = abs(column.prior) if trust_prior else max(abs(column.prior), whole[j])
        elif np.isfinite(whole[j]):
            spread[j] = whole[j]
    return spread


def inertia_known(columns: tuple[Column, ...]) -> Bool:
    """Parameters (p,) of a link or rotor whose inertia the prior (URDF) gives."""
    unknown = {column.owner for column in columns if column.of is Of.BODY and np.isnan(column.prior)}
    return np.array(
        [
            column.owner not in unknown and not column.absent
            if column.of is Of.BODY
            else _is_inertial(column) and np.isfinite(column.prior) and column.prior != 0
            for column in columns
        ]
    )


def rotors_known(columns: tuple[Column, ...]) -> Int:
    """Indices of the rotor inertias that the prior (URDF) gives."""
    known = inertia_known(columns)
    return np.array(
        [j for j, column in enumerate(columns) if known[j] and column.of is not Of.BODY and column.prior > 0],
        dtype=np.int64,
    )


def prior_pull(known: Bool, strength: float) -> Float:
    """Weight (p,) of the prior of each parameter: `strength` for known inertial parameters.

    All that the prior (URDF) does not give stays free: its weight is at most FAINT.    known: (p,) `inertia_known`.
    """
    return np.where(known, strength, min(strength, FAINT))


def link_priors(robot: RobotModel, columns: tuple[Column, ...], spread: Float) -> dict[str, Any]:
    """What a Regression holds of links beside the columns: `likely`, `guessed` and `extent`."""
    return {
        "likely": likely_bodies(robot, columns, spread),
        "guessed": likely_bodies(robot, columns, spread, described=False),
        "extent": link_extent(robot),
    }


def likely_bodies(
    robot: RobotModel, columns: tuple[Column, ...], spread: Float, described: bool = True
) -> Float:
    """Priors with likely values for links that the prior (URDF) does not give.

    Such a link has the typical mass of `spread`, its centre halfway to the joints that it carries, and the second
    moments of a rod up to there plus a ball with GYRATION of the typical length.

    Parameters
    ----------
    robot : RobotModel
        Robot.
    columns : tuple of Column
        Columns of the model.
    spread : ndarray, shape (p,)
        Sizes, see `parameter_spread`.
    described : bool
        Whether the priors of the columns are used; otherwise every link is guessed.

    Returns
    -------
    ndarray, shape (p,)
        Priors; nan where neither prior nor guess exists.

    """
    likely = np.array([column.prior for column in columns])
    for ten in body_columns(columns):
        if described and is_described(likely[ten]):
            continue
        children = robot.T_parent_joint[np.array(robot.parent) == columns[ten[0]].owner, :3, 3]
        end = children.mean(axis=0) if len(children) else np.zeros(3)
        mass = float(spread[ten[0]])
        ball = 0.5 * GYRATION**2 * float(spread[ten[4]]) / mass
        second = mass * (np.outer(end, end) / 12 + ball * np.eye(3))
        likely[ten] = from_com(mass, end / 2, np.trace(second) * np.eye(3) - second)
    return likely


@dataclass(frozen=True, eq=False)
class Directions:
    """Information of equations in every direction: A spread = U diag(s) V'.

    Attributes
    ----------
    known : ndarray, shape (p,)
        s^2.
    V : ndarray, shape (p, p)
        One line per direction.
    spread : ndarray, shape (p,)
        Sizes.

    """

    known: Float
    V: Float
    spread: Float

    @staticmethod
    def of(A: Float, spread: Float) -> Directions:
        """Directions of the rows A (r, p), in units of the standard deviation of an equation."""
        _, s, V = np.linalg.svd(A * spread, full_matrices=True)
        known = np.zeros(len(spread))
        known[: len(s)] = s**2
        return Directions(known, V, spread)

    def rows(self, equations: int, strength: float) -> Float:
        """Rows (p, p) that keep directions with little information at the prior.

        Direction v_i has the weight F / (1 + s_i^2 / F)^2, F = FREE_SHARE equations: F where the data say nothing, and
        a thousandth of the information where that is ten times F. strength: of the prior; one below those that held-out
        blocks choose from was set by the user, and is F.
        """
        F = FREE_SHARE * equations if strength >= min(GRID) else max(strength, np.finfo(np.float64).tiny)
        root = np.sqrt(F) / (1.0 + self.known / F)
        return np.asarray(root[:, None] * self.V / self.spread)


def mass_rows(bodies: Int, known: Bool, centre: Float, weight: float) -> Float:
    """Rows (nb, p) that keep masses at their priors: weight ((m - m0) / m0)^2 each, guessed ones times GUESSED.

    Parameters
    ----------
    bodies : ndarray of int, shape (nb, 10)
        Columns of each link.
    known : ndarray of bool, shape (p,)
        See `inertia_known`.
    centre : ndarray, shape (p,)
        Priors.
    weight : float
        Weight.

    """
    masses = bodies[:, 0]
    weights = weight * np.where(known[masses], 1.0, GUESSED)
    rows = np.zeros((len(masses), len(centre)))
    rows[np.arange(len(masses)), masses] = np.sqrt(weights) / centre[masses]
    return rows


def _mass_for_whole_torque(columns: tuple[Column, ...], whole: Float) -> float:
    # whole: (p,) kg that make up the whole torque at the typical length. First moments give it, by gravity; inertias
    # would need ten times as much in slow motion, and count only if there are no first moments.
    first = [column.of is Of.BODY and _degree(column) == 1 and np.isfinite(value)
             for column, value in zip(columns, whole, strict=True)]  # fmt: skip
    least: dict[int, float] = {}
    for column, value in zip(columns, whole, strict=True):
        counts = column.of is Of.BODY and np.isfinite(value) and (_degree(column) == 1 or not any(first))
        if counts:
            least[column.owner] = min(float(value), least.get(column.owner, np.inf))
    return max(least.values(), default=0.0)


def typical_length(robot: RobotModel) -> float:
    """Root mean square of the non-zero distances between neighbouring joint frames; 0.3 m if all are zero."""
    distance = np.linalg.norm(robot.T_parent_joint[:, :3, 3], axis=1)
    distance = distance[distance > 1e-6]
    return float(np.sqrt(np.mean(distance**2))) if len(distance) else 0.3


# Least extent of a link, in typical link lengths.
LEAST_EXTENT = 0.4


def link_extent(robot: RobotModel) -> Float:
    """Extent (n_bodies,) of every link, m: the distance to the farthest joint on it, at least LEAST_EXTENT."""
    extent = np.full(robot.n_bodies, LEAST_EXTENT * typical_length(robot))
    for child, parent in enumerate(robot.parent):
        if parent >= 0:
            extent[parent] = max(extent[parent], float(np.linalg.norm(robot.T_parent_joint[child, :3, 3])))
    return extent


def _degree(column: Column) -> int:
    return _DEGREE.get(column.name.rstrip("0123456789"), 0)


def _is_inertial(column: Column) -> bool:
    """Whether a parameter belongs to a link or rotor."""
    if column.of is Of.BODY:
        return True
    return CATALOGUE.get(column.term, Term).traits.basis is MotionBasis.ACCELERATION


# Share of each value that a prior decides, from its curvature and that of the data.


def prior_curvature(
    regression: Regression, R: Float, strength: float, distance: Distance, mass_share: float = 0.0
) -> Float:
    """Curvature H of the prior in parameters over their spread: x' H x / 2 for x = (theta - prior) / spread.

    It is the curvature of the distance at the prior times the weight of each parameter: 1, and tr((P0^-1 dP)^2) / 2 for
    links in the entropic and geodesic distance; plus the weights of free directions and masses.

    Parameters
    ----------
    regression : Regression
        Equations and priors.
    R : ndarray, shape (b, b)
        Triangle of the equations.
    strength : float
        Strength of the prior.
    distance : Distance
        Distance from the prior.
    mass_share : float
        Weight of prior masses, see FeasibleFit.

    Returns
    -------
    ndarray, shape (p, p)
        Curvature.

    """
    columns, spread = regression.columns, regression.spread
    known, bodies = inertia_known(columns), body_columns(columns)
    weight = prior_pull(known, strength)
    centre = plausible(columns, regression.guess, spread)
    count = regression.factors.count
    rows = Directions.of(R @ regression.base.B, spread).rows(count, strength)
    rows = np.concatenate([rows, mass_rows(bodies, known, centre, mass_share * count)])
    curvature = np.diag(weight) + (rows * spread).T @ (rows * spread)
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
    """Share of each base parameter that the prior decides, the diagonal of (R'R + Q)^-1 Q, without constraints.

    Q = (B H^-1 B')^-1 with H of `prior_curvature`.

    Parameters
    ----------
    regression : Regression
        Equations and priors.
    R : ndarray, shape (b, b)
        Triangle of the equations.
    strength : float
        Strength of the prior.
    distance : Distance
        Distance from the prior.
    mass_share : float
        Weight of prior masses, see FeasibleFit.

    Returns
    -------
    ndarray, shape (b,)
        Shares.

    """
    base, spread = regression.base, regression.spread
    inverse = np.linalg.inv(prior_curvature(regression, R, strength, distance, mass_share))
    inverse = inverse * np.outer(spread, spread)
    free = base.B @ inverse @ base.B.T
    size = np.sqrt(np.diag(free))
    pull = np.linalg.inv(free / np.outer(size, size))
    both = (R * size).T @ (R * size) + pull
    return np.asarray(np.clip(np.diag(np.linalg.solve(both, pull)), 0.0, 1.0))


# Plausible distance of a centre of mass from its prior.

# Reach of a centre of mass in typical link lengths, from a known prior and from a guess.
REACH_DESCRIBED = 1.0
REACH_GUESSED = 2.0
_AXES = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
_INSIDE = 1e-6


def centre_limits(
    columns: tuple[Column, ...], theta: Float, prior: Float, spread: Float, scale: float = 1.0
) -> Sequence[CentreCone]:
    """Constraints ||c - c0|| <= reach for every link whose centre of mass c lies farther from that of the prior, c0.

    Parameters
    ----------
    columns : tuple of Column
        Columns of the model.
    theta, prior : ndarray, shape (p,)
        Parameters, and priors with mass in every link.
    spread : ndarray, shape (p,)
        Sizes, see `parameter_spread`.
    scale : float
        reach is scale times REACH_DESCRIBED or REACH_GUESSED times the typical length, m.

    Returns
    -------
    sequence of CentreCone
        Constraints.

    """
    known, limits = inertia_known(columns), []
    for ten in body_columns(columns):
        length = float(np.sqrt(spread[ten[4]] / spread[ten[0]]))
        reach = scale * length * (REACH_DESCRIBED if known[ten[0]] else REACH_GUESSED)
        centre = prior[ten[1:4]] / prior[ten[0]]
        if np.linalg.norm(theta[ten[1:4]] - theta[ten[0]] * centre) > theta[ten[0]] * reach * (1 + _INSIDE):
            x, y, z = (-float(value) for value in centre)
            limits.append(CentreCone(columns[ten[0]].owner + 1, _AXES, (x, y, z), reach=reach))
    return limits


# Regression from the factors of a robot's equations.


def regression_of(
    robot: RobotModel, terms: Terms, structural: BaseMap, factors: Factors, source: Source | None = None
) -> Regression:
    """Regression of the factors of a robot's equations.

    Parameters
    ----------
    robot : RobotModel
        Robot.
    terms : Terms
        Terms of the model.
    structural : BaseMap
        Base parameters of the equations.
    factors : Factors
        Factors over their columns.
    source : Source, optional
        Single equations.

    Returns
    -------
    Regression
        Base parameters that the data determine, their factors, and the spread of the priors.

    """
    base = data_base(structural, factors)
    columns = terms.columns(robot)
    kept = factors if base.rank == structural.rank else factors.select(base.mask)
    spread = parameter_spread(robot, columns, influence(kept, base))
    return Regression(columns, base, kept, spread, source, **link_priors(robot, columns, spread))
