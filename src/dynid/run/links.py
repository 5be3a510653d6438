"""What users look for first: mass and centre of every link beside the description, and whom to believe."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Finding
from dynid.base.errors import DynidError
from dynid.base.records import dataclass
from dynid.estimate.estimator import Estimate, Regression, how_well
from dynid.estimate.feasible import NEAR, UNMOVED
from dynid.estimate.physical import BORDER
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

# A value of which the data decide less is the prior's; one of which they decide so much is theirs.
PRIORS, DATAS = 0.1, 0.9
# Of a link's size, by how much a centre may lie outside its shape: hulls are made coarser than meshes.
_OUTSIDE = 0.02
# Change over the spread of a parameter that was not to move.
_STILL = 1e-6
# By how much of its size a body or a rotor may be off, as one standard deviation: CAD leaves out cables, grease and
# tolerances; what no description gives is known by its order of magnitude.
DESCRIBED_OFF, GUESSED_OFF = 0.2, 1.0
# A mass that is further from the description's, and that the data do not say, is no longer the description's either:
# the data moved the body's moments, and the nearest body that has them is so much heavier or lighter. 95 % of
# descriptions are nearer.
_TAKEN_ALONG = 2.0 * DESCRIBED_OFF
# A mass below this share of the description's is hardly there; so near to a limit a value stands at it.
_HARDLY, _AT_LIMIT = 0.25, 0.98
# Descriptions of a robot that is the one measured have masses within a factor of two; the data have to say a mass that
# is so much farther off.
IMPLAUSIBLE = 3.0
_DESCRIPTION = "the description"
_SHAPED = (".urdf", ".xml", ".mjcf")


@dataclass(frozen=True)
class Value:
    """A figure of a link, where it comes from, and the description's.

    half: half width of the 95 % interval, nan unless the data decide the value.    data: share that the data decide,
    0 = none, 1 = all.    described: nan = the description has none.    noise: half width that the noise of the data
    leaves if the prior is right.
    """

    value: float
    half: float
    data: float
    described: float
    noise: float = math.nan


@dataclass(frozen=True)
class Link:
    """Mass, kg, and centre of mass in its joint's frame, m, of a link.

    inside: whether the centre lies in the hull of the link's shapes; None = they are not known.
    guessed: the description gives no inertia, so that the prior is a guess.    limit: at which the body is, in words.
    """

    name: str
    mass: Value
    centre: tuple[Value, Value, Value]
    inside: bool | None
    guessed: bool
    limit: str = ""

    @property
    def said(self) -> str:
        """Who says the mass, in words, and whether the body stands at a limit of what can be."""
        # A mass that the data alone say is no better for it where the model fits them badly.
        uncertain = self.mass.noise if self.guessed else self.mass.half
        limit = self.limit or ("may be none" if uncertain >= self.mass.value else "")
        source = _source(self.mass, "a guess" if self.guessed else _DESCRIPTION)
        return f"{source}; {limit}" if limit else source


def total_said(found: Sequence[Link], total: Value) -> str:
    """Who says the mass of all links together, in words."""
    guesses = sum(link.guessed for link in found)
    prior = {0: _DESCRIPTION, len(found): "guesses"}.get(guesses, "description and guesses")
    return _source(total, prior)


def _source(mass: Value, prior: str) -> str:
    if mass.data < PRIORS:
        moved = abs(mass.value - mass.described)
        if prior == _DESCRIPTION and moved > _TAKEN_ALONG * mass.described:
            return "taken along by moments, not said by the data"
        return f"mostly {prior}" if moved > _STILL * mass.described else prior
    return "the data" if mass.data > DATAS else f"data {100 * mass.data:.0f} %, else {prior}"


def links(one: Identification) -> tuple[tuple[Link, ...], Value]:
    """Every link with mass, base to tip, and the total mass; none without bodies in the model.

    Values are those that exports hold. With H the curvature of the prior, A the rows of the data and P the covariance
    of the prior's own errors, which DESCRIBED_OFF and GUESSED_OFF state, C H P H C of them is left in the values,
    C = (A'A + H)^-1: the weight H that the fit gives a prior says nothing of how right it is. A share of data is
    1 - (C H P H C)_jj / P_jj, and of a sum likewise; an interval follows from the covariance of the base parameters and
    from C H P H C, in which P is larger for bodies that the fit has moved further than P has it. It is given where the
    data decide the value: elsewhere it would be that of the prior.
    """
    estimate = one.estimate
    columns, base = estimate.columns, estimate.base
    bodies = body_columns(columns)
    if not len(bodies):
        return (), Value(0.0, np.nan, 0.0, np.nan)
    theta = exported_parameters(estimate)
    figures = _figures(one)
    prior = np.array([column.prior for column in columns])
    hulls, known = _hulls(one.robot), inertia_known(columns)
    found = []
    for ten in bodies:
        owner = columns[ten[0]].owner
        mass = theta[ten[0]]
        centre = theta[ten[1:4]] / mass if mass > 0 else np.full(3, np.nan)
        described = prior[ten[1:4]] / prior[ten[0]] if prior[ten[0]] > 0 else np.full(3, np.nan)
        way = np.zeros((4, base.B.shape[1]))
        way[0, ten[0]] = 1.0
        # A body without mass has no centre.
        inverse = 1.0 / mass if mass > 0 else np.nan
        for axis in range(3):
            way[1 + axis, ten[0]], way[1 + axis, ten[1 + axis]] = -centre[axis] * inverse, inverse
        own = [
            figures.value(direction, float(value), float(was))
            for direction, value, was in zip(way, (mass, *centre), (prior[ten[0]], *described), strict=True)
        ]
        if not own[0].data > DATAS:
            # The data decide moments: a centre is no better known than the mass by which they are divided.
            own[1:] = [replace(one, half=np.nan) for one in own[1:]]
        found.append(
            Link(
                one.robot.body_names[owner],
                own[0],
                (own[1], own[2], own[3]),
                _inside(hulls.get(owner), centre),
                not known[ten[0]],
                _limit(theta[ten], prior[ten], figures.reach[owner]),
            )
        )
    whole = np.zeros(len(columns))
    whole[bodies[:, 0]] = 1.0
    total = figures.value(whole, float(theta[bodies[:, 0]].sum()), float(prior[bodies[:, 0]].sum()))
    return tuple(found), total


def mass_findings(robot: RobotModel, estimate: Estimate, regression: Regression) -> tuple[Finding, ...]:
    """Warns of masses far from the description's that the data do not say; notes unknown ones that may be none.

    The motion determines sums of a link's mass with others', so that torque is predicted well with either.
    """
    bodies, theta = body_columns(estimate.columns), exported_parameters(estimate)
    if not all(is_physical(theta[ten], BORDER) for ten in bodies):
        return ()  # of what is no body no mass is to be had: that is another finding
    figures, known = _Figures.of(estimate, regression), inertia_known(estimate.columns)
    far, open_ = [], []
    for index in bodies[:, 0]:
        was, name = estimate.columns[index].prior, robot.body_names[estimate.columns[index].owner]
        mass = figures.value(np.eye(len(theta))[index], float(theta[index]), was)
        if known[index] and mass.data < DATAS and not 1.0 / IMPLAUSIBLE <= mass.value / was <= IMPLAUSIBLE:
            far.append(f"{name} {mass.value:.3g} kg (described: {was:.3g})")
        elif not known[index] and mass.noise >= mass.value:
            open_.append(f"{name} {mass.value:.3g} kg")
    return tuple(
        Finding(level, title, f"{', '.join(names)}. {_SUMS}", advice, code)
        for names, level, title, advice, code in (
            (
                far,
                "warning",
                "Masses far from the description's that the data do not say",
                _BOUND,
                "mass-not-said",
            ),
            (open_, "note", "Masses that may be anything from zero up", _DESCRIBE, "mass-open"),
        )
        if names
    )


_SUMS = "The log determines sums of these masses with others', and not each: torque is predicted, weights are not."
_BOUND = "Where masses matter, bound them: `[[estimate.limits]]` with mass = [least, most]."
_DESCRIBE = "Where masses matter, give a description that has them, or bound them: `[[estimate.limits]]`."


def exported_parameters(estimate: Estimate) -> Float:
    """Those of the physically consistent bodies that exports hold, (p,)."""
    return estimate.consistent if len(estimate.consistent) else estimate.parameters


@dataclass(frozen=True)
class JointValue:
    """A parameter of a joint's friction or rotor and the half width of its 95 % interval, nan = the prior's in part."""

    joint: str
    column: Column
    value: float
    half: float
    known: str


def joint_values(one: Identification) -> tuple[JointValue, ...]:
    """What the model has of every joint, in the order of the joints."""
    estimate, found = one.estimate, []
    figures = _figures(one)
    half = dict(zip(estimate.base.independent.tolist(), estimate.half_width().tolist(), strict=True))
    theta = exported_parameters(estimate)
    for j, (column, category) in enumerate(zip(estimate.columns, estimate.base.categories(), strict=True)):
        if column.of is Of.BODY or not 0 <= column.owner < one.robot.n:
            continue
        alone = category is Category.IDENTIFIABLE
        value = float(theta[j])
        width = half[j] if alone else figures.value(np.eye(len(theta))[j], value, np.nan).half
        known = str(how_well(value, width)) if alone else str(category)
        found.append(JointValue(one.robot.joint_names[column.owner], column, float(theta[j]), width, known))
    return tuple(sorted(found, key=lambda value: value.column.owner))


@dataclass(frozen=True, eq=False)
class _Figures:
    """Covariances (p, p): of the prior's own errors, what the fit leaves of them, and what the noise makes.

    seen: what the fit leaves of them where they are as large as it shows.
    reach: by body, how far its centre may lie from the description's, m.
    """

    prior: Float
    held: Float
    seen: Float
    noise: Float
    quantile: float
    reach: dict[int, float]

    @staticmethod
    def of(estimate: Estimate, regression: Regression) -> _Figures:
        base, spread, b = estimate.base, regression.spread, estimate.base.rank
        R = stack(regression.factors.total, base.independent, estimate.weights)[:b, :b]
        strength, masses = max(estimate.prior_strength, 1.0), estimate.mass_share
        H = prior_curvature(regression, R, strength, Distance.ENTROPIC, masses)
        # What no equation holds, and stands where the description puts it, was held there.
        still = np.abs(estimate.parameters - regression.guess) < _STILL * spread
        unseen = np.array([kind is Category.NOT_IDENTIFIABLE for kind in base.categories()])
        H = H + np.diag(np.where(unseen & still, UNMOVED * float(np.abs(H).max()), 0.0))
        A = R @ base.B * spread
        after = np.linalg.inv(A.T @ A + H)
        gain = after @ A.T @ R
        size = np.outer(spread, spread)
        noise = gain @ estimate.covariance @ gain.T * size
        reach = {
            estimate.columns[ten[0]].owner: REACH_DESCRIBED * float(np.sqrt(spread[ten[4]] / spread[ten[0]]))
            for ten in body_columns(estimate.columns)
        }
        prior = prior_errors(regression)
        left = after @ H * spread[:, None] / spread
        held = left @ prior @ left.T
        seen = left @ _as_far_off_as_seen(prior, held, estimate) @ left.T
        return _Figures(prior, held, seen, noise, estimate.quantile(), reach)

    def value(self, way: Float, value: float, described: float) -> Value:
        if not np.isfinite(way).all():
            return Value(value, np.nan, 0.0, described)
        of_noise, of_prior, seen = (
            max(float(way @ part @ way), 0.0) for part in (self.noise, self.held, self.seen)
        )
        data = float(np.clip(1.0 - of_prior / float(way @ self.prior @ way), 0.0, 1.0))
        half = self.quantile * math.sqrt(of_noise + seen) if data > DATAS else np.nan
        return Value(value, half, data, described, self.quantile * math.sqrt(of_noise))


def prior_errors(regression: Regression) -> Float:
    """Covariance (p, p) of how far the prior of every parameter may be off; bodies are independent of one another."""
    columns, spread = regression.columns, regression.spread
    known = inertia_known(columns)
    off = np.where(known, DESCRIBED_OFF, GUESSED_OFF)
    covariance = np.diag((off * spread) ** 2)
    centre = plausible(columns, regression.guess, spread)
    for ten in body_columns(columns):
        covariance[np.ix_(ten, ten)] = off[ten[0]] ** 2 * relative_covariance(centre[ten])
    return covariance


def _as_far_off_as_seen(errors: Float, held: Float, estimate: Estimate) -> Float:
    """The covariance with that of each known body as large as the fit shows: by its Birge ratio, where above one.

    A fit that has moved a body far says that the description is wrong there, or that the model lacks something that
    bent it. Either way what was taken from the description for the rest of that body is no better.
    held: what the fit leaves of the errors: as many directions of a body as these are fewer are what may have moved.
    """
    theta, known = exported_parameters(estimate), inertia_known(estimate.columns)
    described, scale = np.array([column.prior for column in estimate.columns]), np.ones(len(errors))
    for ten in body_columns(estimate.columns):
        if known[ten].all():
            inverse = np.linalg.pinv(errors[np.ix_(ten, ten)])
            moved = theta[ten] - described[ten]
            decided = len(ten) - float(np.sum(inverse * held[np.ix_(ten, ten)]))
            scale[ten] = max(1.0, float(moved @ inverse @ moved) / max(decided, 1.0))
    return errors * np.sqrt(np.outer(scale, scale))


_FIGURES: WeakKeyDictionary[Identification, _Figures] = WeakKeyDictionary()


def _figures(one: Identification) -> _Figures:
    # A report shows links and joints in five places.
    if one not in _FIGURES:
        _FIGURES[one] = _Figures.of(one.estimate, one.regression)
    return _FIGURES[one]


def _limit(pi: Float, prior: Float, reach: float) -> str:
    # Limits of the fit itself, and a body that is hardly there.
    if pi[0] < _HARDLY * prior[0]:
        return "hardly any mass is left"
    if density(pi) > _AT_LIMIT * DENSEST:
        return "as dense as copper"
    away = float(np.linalg.norm(pi[1:4] / pi[0] - prior[1:4] / prior[0])) if prior[0] > 0 else 0.0
    held = any(_AT_LIMIT < away / (scale * reach) < 1.0 + _OUTSIDE for scale in NEAR)
    return "centre at the limit of its reach" if held else ""


_HULLS: WeakKeyDictionary[RobotModel, dict[int, Float]] = WeakKeyDictionary()


def _hulls(robot: RobotModel) -> dict[int, Float]:
    # By body, corners of the shapes that the description has and that can be read: meshes may be large, so once a run.
    if Path(robot.source).suffix.lower() not in _SHAPED:
        return {}
    if robot not in _HULLS:
        from dynid.feasible.limits import limits_of_robot  # with the readers of robots and meshes

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
