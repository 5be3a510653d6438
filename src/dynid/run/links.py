"""Mass and centre of mass of every link, compared with the prior, and how far the data determine them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.diagnostics import Finding, Level
from dynid.base.errors import DynidError
from dynid.base.records import dataclass
from dynid.estimate.estimator import Estimate, Regression, how_well
from dynid.estimate.physical import BORDER, left_out_descriptions
from dynid.estimate.posterior import Uncertainty
from dynid.estimate.prior import inertia_known
from dynid.factor.base import BaseMap, Category
from dynid.feasible.bodies import body_columns
from dynid.robot.model import RobotModel
from dynid.run.result import Identification
from dynid.spatial.inertia import is_physical
from dynid.terms.term import Column, Of

# Share of a value that the data determine: below the first limit its source is the prior, above the second
# the data.
PRIORS, DATAS = 0.1, 0.9
# Share of the link's size by which a centre of mass may lie outside its hull: hulls are coarser than meshes.
_OUTSIDE = 0.02
# Change relative to the spread below which a parameter counts as unchanged.
_STILL = 1e-6
# Relative change above which a mass that the data do not determine is not attributed to the prior either (two
# standard deviations): the data changed the first and second moments, and the nearest link with these moments
# has another mass.
_TAKEN_ALONG = 0.4
# Share of the prior mass below which a mass counts as almost zero.
_HARDLY = 0.25
# Factor between a mass and its prior that makes it doubtful: robot files of the measured robot have masses within a
# factor of two.
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
        Half width of the 95 % interval, also if the prior determines the value.

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
    body : int
        Index among the bodies of the robot; bodies without mass are not links.

    """

    name: str
    mass: Value
    centre: tuple[Value, Value, Value]
    inside: bool | None
    guessed: bool
    limit: str = ""
    body: int = 0

    @property
    def source(self) -> str:
        """Source of the mass (data, prior or both), and the limit at which the link is, in words."""
        # Without a prior from the robot file only noise contributes to the interval of the mass.
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

    Values are those of exported files. The share of the data in a value is 1 - posterior over prior variance. The
    interval is that of the posterior. It is given only if the data determine the value; otherwise it would be that of
    the prior.

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
            # The data determine the first moments m c, so a centre is known no better than the mass by which
            # they are divided.
            values[1:] = [replace(coordinate, half=np.nan) for coordinate in values[1:]]
        every_link.append(
            Link(
                identification.robot.body_names[owner],
                values[0],
                (values[1], values[2], values[3]),
                _inside(hulls.get(owner), centre),
                contradicted or not known[ten[0]],
                _limit(theta[ten], prior[ten], contradicted),
                owner,
            )
        )
    return tuple(every_link), _total(estimate, uncertainty)


def total_mass(estimate: Estimate, regression: Regression) -> Value:
    """Mass of all links; its half width is nan if the log does not determine it."""
    return _total(estimate, _Uncertainty.of(estimate, regression))


def _total(estimate: Estimate, uncertainty: _Uncertainty) -> Value:
    masses = body_columns(estimate.columns)[:, 0]
    whole = np.zeros(len(estimate.columns))
    whole[masses] = 1.0
    prior = sum(estimate.columns[k].prior for k in masses.tolist())
    return uncertainty.value(whole, float(exported_parameters(estimate)[masses].sum()), float(prior))


def mass_findings(robot: RobotModel, estimate: Estimate, regression: Regression) -> tuple[Finding, ...]:
    """Warn of masses far from the robot file, and note masses without a prior that may be zero.

    A mass farther from the file than any of the measured robot is that of another robot or load, or stands for an
    effect that the model lacks. Torque may be predicted well with it.

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
        if known[index] and not 1.0 / IMPLAUSIBLE <= mass.value / was <= IMPLAUSIBLE:
            far.append(f"{name} {mass.value:.3g} kg (robot file: {was:.3g})")
        elif not known[index] and mass.noise >= mass.value:
            unbounded.append(f"{name} {mass.value:.3g} kg")
    return tuple(
        Finding(level, code, f"{', '.join(names)}. {text}", title=title, advice=advice)
        for names, level, title, text, advice, code in (
            (far, Level.WARNING, "Masses far from the robot file", _FAR, _BOUND, "mass-not-said"),
            (unbounded, Level.NOTE, "Masses without a lower bound above zero", _SUMS, _DESCRIBE, "mass-open"),
        )
        if names
    )


def masses_determined(estimate: Estimate, regression: Regression) -> tuple[int, int] | None:
    """Number of links whose mass the log determines, and of all; None for a model without links."""
    bodies, theta = body_columns(estimate.columns), exported_parameters(estimate)
    if not len(bodies):
        return None
    uncertainty = _Uncertainty.of(estimate, regression)
    known = [
        np.isfinite(uncertainty.value(np.eye(len(theta))[index], float(theta[index]), np.nan).half)
        for index in bodies[:, 0]
    ]
    return int(sum(known)), len(known)


_FAR = (
    "The robot file may belong to another robot or load, or these masses absorb an effect that the model lacks, for "
    "example a counterbalance or a wrong drive gain."
)
_SUMS = "The log determines only sums with other masses: it predicts torque, not the weight of single links."
_BOUND = "Check the robot file; where it is right, bound the masses: `[[estimate.limits]]` with mass = [least, most]."
_DESCRIBE = (
    "If single masses matter, use a robot file that contains them, or bound them: `[[estimate.limits]]`."
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
    """Uncertainty of values that are sums of parameters, at 95 %."""

    covariance: Uncertainty
    quantile: float
    base: BaseMap
    guessed: Bool

    @staticmethod
    def of(estimate: Estimate, regression: Regression) -> _Uncertainty:
        guessed = np.zeros(len(estimate.columns), dtype=np.bool_)
        for ten in body_columns(estimate.columns):
            guessed[ten] = not inertia_known(estimate.columns)[ten[0]]
        return _Uncertainty(
            Uncertainty.of(estimate, regression), estimate.quantile(), regression.base, guessed
        )

    def value(self, direction: Float, value: float, described: float) -> Value:
        if not np.isfinite(direction).all():
            return Value(value, np.nan, 0.0, described)
        before = float(direction @ self.covariance.prior @ direction)
        after = max(float(direction @ self.covariance.posterior @ direction), 0.0)
        data = float(np.clip(1.0 - after / before, 0.0, 1.0)) if before > 0 else 0.0
        if direction[self.guessed].any() and not self._of_base(direction):
            data = min(data, DATAS)  # An interval would only reflect the default guess.
        half = self.quantile * math.sqrt(after)
        return Value(value, half if data > DATAS else np.nan, data, described, half)

    def _of_base(self, direction: Float) -> bool:
        """Whether a sum of parameters is one of base parameters, so that the log alone may determine it."""
        return np.allclose(direction[self.base.independent] @ self.base.B, direction)


_UNCERTAINTIES: WeakKeyDictionary[Identification, _Uncertainty] = WeakKeyDictionary()


def _uncertainty_of(identification: Identification) -> _Uncertainty:
    # Kept per identification, because a report needs it in five places.
    if identification not in _UNCERTAINTIES:
        _UNCERTAINTIES[identification] = _Uncertainty.of(identification.estimate, identification.regression)
    return _UNCERTAINTIES[identification]


def _limit(pi: Float, prior: Float, contradicted: bool) -> str:
    if contradicted:
        return "the log contradicts the robot file"
    return "mass almost zero" if pi[0] < _HARDLY * prior[0] else ""


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
