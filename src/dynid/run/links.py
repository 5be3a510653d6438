"""Mass and centre of mass of every link, compared with the prior, and how far the data determine them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Finding, Level
from dynid.base.errors import DynidError
from dynid.base.records import dataclass
from dynid.estimate.estimator import Estimate, Regression, how_well
from dynid.estimate.feasible import NEAR, UNMOVED
from dynid.estimate.physical import BORDER, left_out_descriptions
from dynid.estimate.posterior import Uncertainty
from dynid.estimate.prior import REACH_DESCRIBED, inertia_known, prior_curvature
from dynid.factor.base import Category
from dynid.factor.factor import stack
from dynid.feasible.bodies import DENSEST, body_columns, density, plausible
from dynid.feasible.distance import relative_covariance
from dynid.feasible.problem import Distance
from dynid.robot.model import RobotModel
from dynid.run.result import Identification
from dynid.spatial.inertia import is_physical
from dynid.terms.term import Column, Of

# Share of a value that the data determine: below the first the value counts as the prior's, above the second as
# the data's.
PRIORS, DATAS = 0.1, 0.9
# Share of the link's size by which a centre of mass may lie outside its hull: hulls are coarser than meshes.
_OUTSIDE = 0.02
# Change relative to the spread below which a parameter counts as unchanged.
_STILL = 1e-6
# Relative standard deviation of a prior: CAD omits cables, grease and tolerances (20 %); a default prior is known only
# by its order of magnitude (100 %).
DESCRIBED_OFF, GUESSED_OFF = 0.2, 1.0
# Relative change of a mass that the data do not determine, above which it is not the prior's either: the data moved
# the first and second moments, and the nearest link with these moments has another mass. Two standard deviations.
_TAKEN_ALONG = 2.0 * DESCRIBED_OFF
# Share of the prior mass below which a mass counts as almost zero; share of a limit from which a value is at it.
_HARDLY, _AT_LIMIT = 0.25, 0.98
# Factor between a mass and its prior that only the data may justify: robot files of the measured robot have masses
# within a factor of two.
IMPLAUSIBLE = 3.0
_PRIOR, _DEFAULT_PRIOR = "prior", "default prior"
_SHAPED = (".urdf", ".xml", ".mjcf")


@dataclass(frozen=True)
class Value:
    """A value of a link with its interval and its prior.

    Attributes
    ----------
    value : float
        kg or m.
    half : float
        Half width of the 95 % interval; nan unless the data determine the value.
    data : float
        Share that the data determine, 0 (none) to 1 (all).
    described : float
        Prior of the robot file; nan if it has none.
    noise : float
        Half width of the 95 % interval if the prior were exact.

    """

    value: float
    half: float
    data: float
    described: float
    noise: float = math.nan


@dataclass(frozen=True)
class Link:
    """Mass and centre of mass of a link.

    Attributes
    ----------
    name : str
    mass : Value, kg
    centre : tuple of three Value, m
        In the frame of the joint that moves the link.
    inside : bool or None
        Whether the centre lies within the hull of the link's shapes; None if the shapes are unknown.
    guessed : bool
        Whether the robot file has no inertia, so that the prior is a default guess.
    limit : str
        The limit at which the link is, in words; "" if none.

    """

    name: str
    mass: Value
    centre: tuple[Value, Value, Value]
    inside: bool | None
    guessed: bool
    limit: str = ""

    @property
    def source(self) -> str:
        """Source of the mass (data, prior or both), and the limit at which the link is, in words."""
        # Without a described prior the interval has no part of the prior: only noise can make the mass uncertain.
        uncertain = self.mass.noise if self.guessed else self.mass.half
        limit = self.limit or ("may be zero" if uncertain >= self.mass.value else "")
        source = _source(self.mass, _DEFAULT_PRIOR if self.guessed else _PRIOR)
        return f"{source}; {limit}" if limit else source


def total_source(every_link: Sequence[Link], total: Value) -> str:
    """Source of the total mass, in words."""
    guesses = sum(link.guessed for link in every_link)
    prior = {0: _PRIOR, len(every_link): _DEFAULT_PRIOR}.get(guesses, "prior and default prior")
    return _source(total, prior)


def _source(mass: Value, prior: str) -> str:
    if mass.data < PRIORS:
        moved = abs(mass.value - mass.described)
        if prior == _PRIOR and moved > _TAKEN_ALONG * mass.described:
            return "weakly identified"
        return f"mostly {prior}" if moved > _STILL * mass.described else prior
    return "data" if mass.data > DATAS else f"data {100 * mass.data:.0f} %, rest {prior}"


def links(identification: Identification) -> tuple[tuple[Link, ...], Value]:
    """Every link with mass, from base to tip, and the total mass.

    Values are those of exported files. H: curvature of the prior; A: rows of the data; C = (A'A + H)^-1; P: covariance
    of the errors of the prior, from DESCRIBED_OFF and GUESSED_OFF. The fit leaves C H P H C of P: the weight H that
    the fit gives to a prior does not tell how accurate the prior is. The share of the data in value j is
    1 - (C H P H C)_jj / P_jj, and likewise for sums. The interval has the covariance of the base parameters plus
    C H P H C, with P enlarged for links that the fit moved further than P allows. It is given only if the data
    determine the value; otherwise it would be the interval of the prior.

    Parameters
    ----------
    identification : Identification
        The finished identification.

    Returns
    -------
    tuple of Link
        Empty for a model without links.
    Value
        Total mass, kg.

    """
    estimate = identification.estimate
    columns, base = estimate.columns, estimate.base
    bodies = body_columns(columns)
    if not len(bodies):
        return (), Value(0.0, np.nan, 0.0, np.nan)
    theta = exported_parameters(estimate)
    uncertainty = _uncertainty_of(identification)
    prior = np.array([column.prior for column in columns])
    hulls, known = _hulls(identification.robot), inertia_known(columns)
    left_out = left_out_descriptions(estimate)
    every_link = []
    for ten, contradicted in zip(bodies, left_out, strict=True):
        owner = columns[ten[0]].owner
        mass = theta[ten[0]]
        centre = theta[ten[1:4]] / mass if mass > 0 else np.full(3, np.nan)
        described = prior[ten[1:4]] / prior[ten[0]] if prior[ten[0]] > 0 else np.full(3, np.nan)
        directions = np.zeros((4, base.B.shape[1]))
        directions[0, ten[0]] = 1.0
        # A link without mass has no centre of mass.
        inverse = 1.0 / mass if mass > 0 else np.nan
        for axis in range(3):
            directions[1 + axis, ten[0]] = -centre[axis] * inverse
            directions[1 + axis, ten[1 + axis]] = inverse
        values = [
            uncertainty.value(direction, float(value), float(was))
            for direction, value, was in zip(
                directions, (mass, *centre), (prior[ten[0]], *described), strict=True
            )
        ]
        if not values[0].data > DATAS:
            # The data determine moments m c: a centre is no better known than the mass that divides them.
            values[1:] = [replace(coordinate, half=np.nan) for coordinate in values[1:]]
        every_link.append(
            Link(
                identification.robot.body_names[owner],
                values[0],
                (values[1], values[2], values[3]),
                _inside(hulls.get(owner), centre),
                contradicted or not known[ten[0]],
                "the log contradicts the robot file"
                if contradicted
                else _limit(theta[ten], prior[ten], uncertainty.reach[owner]),
            )
        )
    whole = np.zeros(len(columns))
    whole[bodies[:, 0]] = 1.0
    total = uncertainty.value(whole, float(theta[bodies[:, 0]].sum()), float(prior[bodies[:, 0]].sum()))
    return tuple(every_link), total


def mass_findings(robot: RobotModel, estimate: Estimate, regression: Regression) -> tuple[Finding, ...]:
    """Warn of weakly identified masses far from the prior, and note masses without a prior that may be zero.

    The motion determines only sums of masses, so torque may be predicted well with a wrong mass of a link.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    estimate : Estimate
        The fitted estimate.
    regression : Regression
        The regression that the estimate was fitted to.

    Returns
    -------
    tuple of Finding

    """
    bodies, theta = body_columns(estimate.columns), exported_parameters(estimate)
    if not all(is_physical(theta[ten], BORDER) for ten in bodies):
        return ()  # reported by another finding
    uncertainty, known = _Uncertainty.of(estimate, regression), inertia_known(estimate.columns)
    # Their masses are far from the robot file for a reason that is reported already.
    known[bodies[left_out_descriptions(estimate)]] = False
    far, unbounded = [], []
    for index in bodies[:, 0]:
        was, name = estimate.columns[index].prior, robot.body_names[estimate.columns[index].owner]
        mass = uncertainty.value(np.eye(len(theta))[index], float(theta[index]), was)
        if known[index] and mass.data < DATAS and not 1.0 / IMPLAUSIBLE <= mass.value / was <= IMPLAUSIBLE:
            far.append(f"{name} {mass.value:.3g} kg (prior: {was:.3g})")
        elif not known[index] and mass.noise >= mass.value:
            unbounded.append(f"{name} {mass.value:.3g} kg")
    return tuple(
        Finding(level, code, f"{', '.join(names)}. {_SUMS}", title=title, advice=advice)
        for names, level, title, advice, code in (
            (
                far,
                Level.WARNING,
                "Weakly identified masses far from the prior",
                _BOUND,
                "mass-not-said",
            ),
            (unbounded, Level.NOTE, "Masses without a lower bound above zero", _DESCRIBE, "mass-open"),
        )
        if names
    )


_SUMS = "The log determines only sums with other masses: it predicts torque, not the weight of single links."
_BOUND = "If single masses matter, bound them: `[[estimate.limits]]` with mass = [least, most]."
_DESCRIBE = (
    "If single masses matter, use a robot file that states them, or bound them: `[[estimate.limits]]`."
)


def exported_parameters(estimate: Estimate) -> Float:
    """Parameters of exported files: those of the physically consistent links if there are any, shape (p,)."""
    return estimate.consistent if len(estimate.consistent) else estimate.parameters


@dataclass(frozen=True)
class JointValue:
    """A parameter of a joint's friction or rotor, with its 95 % half width (nan if the prior has a part in it)."""

    joint: str
    column: Column
    value: float
    half: float
    known: str


def joint_values(identification: Identification) -> tuple[JointValue, ...]:
    """Parameters of friction and rotors, in the order of the joints."""
    estimate, result = identification.estimate, []
    uncertainty = _uncertainty_of(identification)
    half = dict(zip(estimate.base.independent.tolist(), estimate.half_width().tolist(), strict=True))
    theta = exported_parameters(estimate)
    for j, (column, category) in enumerate(zip(estimate.columns, estimate.base.categories(), strict=True)):
        if column.of is Of.BODY or not 0 <= column.owner < identification.robot.n:
            continue
        alone = category is Category.IDENTIFIABLE
        value = float(theta[j])
        width = half[j] if alone else uncertainty.value(np.eye(len(theta))[j], value, np.nan).half
        known = str(how_well(value, width)) if alone else str(category)
        result.append(
            JointValue(identification.robot.joint_names[column.owner], column, float(theta[j]), width, known)
        )
    return tuple(sorted(result, key=lambda value: value.column.owner))


@dataclass(frozen=True, eq=False)
class _Uncertainty:
    """Covariances of the parameters, each of shape (p, p).

    prior: errors of the prior.    remaining: what the fit leaves of them.    observed: the same, with errors as large
    as the fit shows.    noise: from the noise of the data.
    reach: by link index, how far the centre of mass may lie from the prior, m.
    """

    prior: Float
    remaining: Float
    observed: Float
    noise: Float
    quantile: float
    reach: dict[int, float]

    @staticmethod
    def of(estimate: Estimate, regression: Regression) -> _Uncertainty:
        reach = {
            estimate.columns[ten[0]].owner: REACH_DESCRIBED
            * float(np.sqrt(regression.spread[ten[4]] / regression.spread[ten[0]]))
            for ten in body_columns(estimate.columns)
        }
        if len(estimate.link_widths):
            # The prior of such an estimate is a probability, which needs no assumption about its errors.
            both = Uncertainty.of(estimate, regression)
            nothing = np.zeros_like(both.prior)
            return _Uncertainty(
                both.prior, both.posterior, both.posterior, nothing, estimate.quantile(), reach
            )
        base, spread, b = estimate.base, regression.spread, estimate.base.rank
        R = stack(regression.factors.total, base.independent, estimate.weights)[:b, :b]
        strength, masses = max(estimate.prior_strength, 1.0), estimate.mass_share
        H = prior_curvature(regression, R, strength, Distance.ENTROPIC, masses)
        # Parameters without any equation that still equal the prior were kept there by the fit.
        unchanged = np.abs(estimate.parameters - regression.guess) < _STILL * spread
        unidentifiable = np.array([kind is Category.NOT_IDENTIFIABLE for kind in base.categories()])
        H = H + np.diag(np.where(unidentifiable & unchanged, UNMOVED * float(np.abs(H).max()), 0.0))
        A = R @ base.B * spread
        after = np.linalg.inv(A.T @ A + H)
        gain = after @ A.T @ R
        size = np.outer(spread, spread)
        noise = gain @ estimate.covariance @ gain.T * size
        prior = prior_errors(regression)
        left = after @ H * spread[:, None] / spread
        remaining = left @ prior @ left.T
        observed = left @ _observed_prior_errors(prior, remaining, estimate) @ left.T
        return _Uncertainty(prior, remaining, observed, noise, estimate.quantile(), reach)

    def value(self, direction: Float, value: float, described: float) -> Value:
        if not np.isfinite(direction).all():
            return Value(value, np.nan, 0.0, described)
        of_noise, of_prior, observed = (
            max(float(direction @ part @ direction), 0.0)
            for part in (self.noise, self.remaining, self.observed)
        )
        data = float(np.clip(1.0 - of_prior / float(direction @ self.prior @ direction), 0.0, 1.0))
        half = self.quantile * math.sqrt(of_noise + observed) if data > DATAS else np.nan
        return Value(value, half, data, described, self.quantile * math.sqrt(of_noise))


def prior_errors(regression: Regression) -> Float:
    """Covariance of the errors of the prior, shape (p, p); different links are independent."""
    columns, spread = regression.columns, regression.spread
    known = inertia_known(columns)
    off = np.where(known, DESCRIBED_OFF, GUESSED_OFF)
    covariance = np.diag((off * spread) ** 2)
    centre = plausible(columns, regression.guess, spread)
    for ten in body_columns(columns):
        covariance[np.ix_(ten, ten)] = off[ten[0]] ** 2 * relative_covariance(centre[ten])
    return covariance


def _observed_prior_errors(errors: Float, remaining: Float, estimate: Estimate) -> Float:
    """Enlarge the prior covariance of each described link by its Birge ratio, if that exceeds one.

    If the fit moves a link far, either its prior is wrong or an effect missing in the model biased it. In both cases
    the values that still come from this prior are no more accurate.
    errors: covariance of the prior errors, shape (p, p).    remaining: what the fit leaves of it; the trace that it
    removes counts the directions in which a link may have moved.
    """
    theta, known = exported_parameters(estimate), inertia_known(estimate.columns)
    described, scale = np.array([column.prior for column in estimate.columns]), np.ones(len(errors))
    for ten in body_columns(estimate.columns):
        if known[ten].all():
            inverse = np.linalg.pinv(errors[np.ix_(ten, ten)])
            moved = theta[ten] - described[ten]
            decided = len(ten) - float(np.sum(inverse * remaining[np.ix_(ten, ten)]))
            scale[ten] = max(1.0, float(moved @ inverse @ moved) / max(decided, 1.0))
    return errors * np.sqrt(np.outer(scale, scale))


_UNCERTAINTIES: WeakKeyDictionary[Identification, _Uncertainty] = WeakKeyDictionary()


def _uncertainty_of(identification: Identification) -> _Uncertainty:
    # Kept per identification, because a report needs it in five places.
    if identification not in _UNCERTAINTIES:
        _UNCERTAINTIES[identification] = _Uncertainty.of(identification.estimate, identification.regression)
    return _UNCERTAINTIES[identification]


def _limit(pi: Float, prior: Float, reach: float) -> str:
    if pi[0] < _HARDLY * prior[0]:
        return "mass almost zero"
    if density(pi) > _AT_LIMIT * DENSEST:
        return "density at its limit (copper)"
    away = float(np.linalg.norm(pi[1:4] / pi[0] - prior[1:4] / prior[0])) if prior[0] > 0 else 0.0
    at_limit = any(_AT_LIMIT < away / (scale * reach) < 1.0 + _OUTSIDE for scale in NEAR)
    return "centre of mass at its limit" if at_limit else ""


_HULLS: WeakKeyDictionary[RobotModel, dict[int, Float]] = WeakKeyDictionary()


def _hulls(robot: RobotModel) -> dict[int, Float]:
    # Corners of the readable shapes, by link. Meshes may be large, so they are read once per robot.
    if Path(robot.source).suffix.lower() not in _SHAPED:
        return {}
    if robot not in _HULLS:
        from dynid.feasible.limits import limits_of_robot  # slow to import: it loads the readers of meshes

        try:
            entries = limits_of_robot(robot)
        except DynidError:
            entries = []
        _HULLS[robot] = {entry["body"] - 1: np.array(entry["hull"]) for entry in entries}
    return _HULLS[robot]


def _inside(corners: Float | None, centre: Float) -> bool | None:
    if corners is None or not np.isfinite(centre).all():
        return None
    from scipy.spatial import ConvexHull, QhullError

    try:
        planes = ConvexHull(corners).equations
    except (QhullError, ValueError):
        return None
    size = float(np.ptp(corners, axis=0).max())
    return bool(np.max(planes[:, :3] @ centre + planes[:, 3]) <= _OUTSIDE * size)
