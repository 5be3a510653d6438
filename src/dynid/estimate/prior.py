"""How far a parameter may plausibly lie from its prior, and how much its prior counts."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

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

# Terms of which a description knows the inertia; its friction is a guess, if not a placeholder.
# What has no prior of its own is drawn to a plausible value only so far that directions which the data leave free have
# one answer: a deviation by one spread, which is of the size of the whole torque, costs the variance of one equation of
# thousands. A hundredth of it leaves links of hundreds of kilograms in directions that the data hardly know; a hundred
# times as much is felt on short logs.
FAINT = 1.0
# Directions of which the data know less than this share of all equations stay at the prior with that weight, whatever
# the strength is that held-out blocks choose for the others: moving by one spread costs as much as squares of residuals
# that grow by this share. Without it links weigh up to twice as much on the logs of benchmarks/real.py; ten times it
# costs 1 to 2 % more of what left-out blocks miss, where bodies have to be other than the prior to exist.
FREE_SHARE = 3e-4
# A guessed mass beside a described one: enough to keep bodies from hundreds of kilograms, too little to make light
# wrists as heavy as shoulders.
GUESSED = 0.1

_DEGREE = {
    symbol: (0 if symbol == "m" else 1 if symbol.startswith("mc") else 2) for symbol in INERTIAL_SYMBOLS
}


def parameter_spread(robot: RobotModel, columns: tuple[Column, ...], influence: Float) -> Float:
    """Characteristic size of every parameter, (p,).

    For a body: m0, m0 L, m0 L^2 with its prior mass m0 and the robot's typical link length L. Where no mass is known,
    m0 sqrt(bodies) is the mass that at the distance L makes up the whole torque, for the body that needs most: torques
    of n bodies add like independent ones. For a rotor: the size of its prior. For other parameters, and where that is
    unknown or zero: the value that makes up the whole torque, and no less than the size of the prior.

    influence: (p,) root mean square of each column relative to that of the torque it acts on; nan = not
        measured.
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
            own = _is_inertial(column) or not np.isfinite(whole[j])
            spread[j] = abs(column.prior) if own else max(abs(column.prior), whole[j])
        elif np.isfinite(whole[j]):
            spread[j] = whole[j]
    return spread


def inertia_known(columns: tuple[Column, ...]) -> Bool:
    """(p,) which parameters are of a body or rotor whose inertia the description gives."""
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
    """Indices of the rotor inertias that the description gives."""
    known = inertia_known(columns)
    return np.array(
        [j for j, column in enumerate(columns) if known[j] and column.of is not Of.BODY and column.prior > 0],
        dtype=np.int64,
    )


def prior_pull(known: Bool, strength: float) -> Float:
    """(p,) by how much the prior of each parameter counts, where those of known inertias count `strength`.

    All that the description does not know stays free: its weight is at most FAINT.    known: (p,) `inertia_known`.
    """
    return np.where(known, strength, min(strength, FAINT))


def likely_bodies(robot: RobotModel, columns: tuple[Column, ...], spread: Float) -> Float:
    """The priors (p,) with likely bodies where the description gives none.

    A body has the typical mass of `spread`, its centre halfway to the joints that it carries, and second moments of a
    rod up to there plus those of a ball with GYRATION of the typical length.
    """
    found = np.array([column.prior for column in columns])
    for ten in body_columns(columns):
        if is_described(found[ten]):
            continue
        children = robot.T_parent_joint[np.array(robot.parent) == columns[ten[0]].owner, :3, 3]
        end = children.mean(axis=0) if len(children) else np.zeros(3)
        mass = float(spread[ten[0]])
        ball = 0.5 * GYRATION**2 * float(spread[ten[4]]) / mass
        second = mass * (np.outer(end, end) / 12 + ball * np.eye(3))
        found[ten] = from_com(mass, end / 2, np.trace(second) * np.eye(3) - second)
    return found


@dataclass(frozen=True, eq=False)
class Directions:
    """How much equations know of every direction: A spread = U diag(s) V'.

    known: (p,) s^2.    V: (p, p), a line a direction.    spread: (p,).
    """

    known: Float
    V: Float
    spread: Float

    @staticmethod
    def of(A: Float, spread: Float) -> Directions:
        """A: (r, p), rows of the data in units of an equation's standard deviation."""
        _, s, V = np.linalg.svd(A * spread, full_matrices=True)
        known = np.zeros(len(spread))
        known[: len(s)] = s**2
        return Directions(known, V, spread)

    def rows(self, equations: int, strength: float) -> Float:
        """Rows (p, p) that hold directions of which the data know little.

        Direction v_i weighs F / (1 + s_i^2 / F)^2, F = FREE_SHARE equations: all of F where the data say nothing, and a
        thousandth of what the data say where that is ten times F.
        strength: of the prior; one below those that left-out blocks choose from is what someone asked for, and is F.
        """
        F = FREE_SHARE * equations if strength >= min(GRID) else max(strength, np.finfo(np.float64).tiny)
        root = np.sqrt(F) / (1.0 + self.known / F)
        return np.asarray(root[:, None] * self.V / self.spread)


def mass_rows(bodies: Int, known: Bool, centre: Float, weight: float) -> Float:
    """Rows (nb, p) that hold masses of bodies at the centre (p,): weight ((m - m0) / m0)^2 each.

    Those that are guessed count GUESSED times as much.    bodies: (nb, 10).    known: (p,) `inertia_known`.
    """
    masses = bodies[:, 0]
    weights = weight * np.where(known[masses], 1.0, GUESSED)
    rows = np.zeros((len(masses), len(centre)))
    rows[np.arange(len(masses)), masses] = np.sqrt(weights) / centre[masses]
    return rows


def _mass_for_whole_torque(columns: tuple[Column, ...], whole: Float) -> float:
    # whole: (p,) kg that at the typical length make up the whole torque, by parameter. First moments give it, by way of
    # gravity: inertias need ten times as much on slow motion. All ten do where there are none.
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


def _degree(column: Column) -> int:
    return _DEGREE.get(column.name.rstrip("0123456789"), 0)


def _is_inertial(column: Column) -> bool:
    """Whether a parameter is of a body or of a rotor."""
    if column.of is Of.BODY:
        return True
    return CATALOGUE.get(column.term, Term).traits.basis is MotionBasis.ACCELERATION


# How much of each estimated value a prior decides, by its curvature beside that of the data.


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


# How far a body's centre of mass may lie from where the description puts it.

# In typical lengths of a link, how far a centre of mass may lie from that of the description, and from a guess.
REACH_DESCRIBED, REACH_GUESSED = 1.0, 2.0
_AXES = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
_INSIDE = 1e-6


def centre_limits(
    columns: tuple[Column, ...], theta: Float, prior: Float, spread: Float, scale: float = 1.0
) -> Sequence[CentreCone]:
    """||c - c0|| <= reach for every body of theta (p,) whose centre of mass c lies farther from the prior's c0.

    reach: scale times REACH_DESCRIBED or REACH_GUESSED times the typical length L of `parameter_spread`, m.
    prior: (p,), every body with mass.    spread: (p,).
    """
    known, found = inertia_known(columns), []
    for ten in body_columns(columns):
        length = float(np.sqrt(spread[ten[4]] / spread[ten[0]]))
        reach = scale * length * (REACH_DESCRIBED if known[ten[0]] else REACH_GUESSED)
        centre = prior[ten[1:4]] / prior[ten[0]]
        if np.linalg.norm(theta[ten[1:4]] - theta[ten[0]] * centre) > theta[ten[0]] * reach * (1 + _INSIDE):
            x, y, z = (-float(value) for value in centre)
            found.append(CentreCone(columns[ten[0]].owner + 1, _AXES, (x, y, z), reach=reach))
    return found


# A regression from the factors of a robot's equations.


def regression_of(
    robot: RobotModel, terms: Terms, structural: BaseMap, factors: Factors, source: Source | None = None
) -> Regression:
    """What an estimator gets: base parameters that the data determine, their factors, and the spread of the priors.

    structural: base parameters of the equations.    factors: over their columns.    source: the equations one by one.
    """
    base = data_base(structural, factors)
    columns = terms.columns(robot)
    kept = factors if base.rank == structural.rank else factors.select(base.mask)
    spread = parameter_spread(robot, columns, influence(kept, base))
    return Regression(
        columns, base, kept, spread, source=source, likely=likely_bodies(robot, columns, spread)
    )
