"""How far a parameter may plausibly lie from its prior, and how much its prior counts."""

from __future__ import annotations

from statistics import median

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.records import dataclass
from dynid.feasible.bodies import GYRATION, body_columns, is_described
from dynid.feasible.strength import GRID
from dynid.robot.model import RobotModel
from dynid.spatial.inertia import from_com
from dynid.terms.catalogue import CATALOGUE
from dynid.terms.exports import MotionBasis
from dynid.terms.joint_term import JointTerm
from dynid.terms.rigid_body import INERTIAL_SYMBOLS
from dynid.terms.term import Column, Of, Term

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
    kind = CATALOGUE.get(column.term, Term)
    return issubclass(kind, JointTerm) and kind.exports_as is MotionBasis.ACCELERATION
