"""Estimate the mounting geometry of a spring: bounded search with all linear parameters eliminated."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import UnfitDataError, UsageError
from dynid.base.numerics import least_squares
from dynid.base.records import dataclass
from dynid.factor.assemble import Assembly
from dynid.factor.base import structural_base
from dynid.factor.blocking import Blocking
from dynid.identification.settings import Settings
from dynid.log.read import Log
from dynid.robot.model import RobotModel
from dynid.rows.torque import TorqueRows
from dynid.run.blocks import block_seconds
from dynid.signals.prepare import Prepared, prepare
from dynid.signals.samples import Samples
from dynid.terms.spring import Lever, Points, Triangle, lever_to_options
from dynid.terms.term import Term, Terms

# Rows per joint for the search; more change nothing in the result but take longer.
ROWS_A_JOINT = 2000
# Distance from a bound, relative to the range, within which a value counts as at its bound.
AT_BOUND = 1e-3
# Relative difference of the cost up to which a start counts as agreeing with the best.
AGREES = 0.01


@dataclass(frozen=True, eq=False)
class GeometrySearch:
    """A spring with estimated geometry.

    Attributes
    ----------
    term : Term
        The spring with its estimated geometry.
    names : tuple of str
        The estimated values.
    values, std, lower, upper : ndarray, shape (n_values,)
        Estimates, standard deviations (which assume independent residuals), and bounds.
    at_bound : tuple of bool
        Whether a value is at its bound, where it is not meaningful.
    misfit : float
        RMS residual relative to the RMS torque, each joint weighted by its noise.
    misfit_without : float
        The same without the spring.
    agreeing : float
        Share of the starts whose cost is within 1 % of the best; few mean several local minima.

    """

    term: Term
    names: tuple[str, ...]
    values: Float
    std: Float
    lower: Float
    upper: Float
    at_bound: tuple[bool, ...]
    misfit: float
    misfit_without: float
    agreeing: float


def search_geometry(
    robot: RobotModel,
    log: Log,
    settings: Settings,
    spring: Term,
    bounds: Mapping[str, tuple[float, float]],
    *,
    starts: int = 8,
    seed: int = 0,
    diagnostics: Diagnostics | None = None,
) -> GeometrySearch:
    """Estimate values of the geometry of a spring within bounds.

    Variable projection: stiffness, preload and all other linear parameters are eliminated exactly in every trial.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    log : Log
        The log.
    settings : Settings
        Signals, and the model without this spring.
    spring : Term
        A term with a `geometry`: its present values are the first start, and those without bounds are kept.
    bounds : mapping of str to (float, float)
        Lower and upper bound by name: "anchor", "crank", "angle" of a Triangle; "a.x", "a.y", "a.z", "b.x", "b.y",
        "b.z" of Points; m, rad.
    starts : int
        Number of starts.
    seed : int
        Seed of all random draws.
    diagnostics : Diagnostics, optional
        Collects warnings and notes.

    Returns
    -------
    GeometrySearch

    Raises
    ------
    UsageError
        For names that the geometry does not have, or empty bounds.
    UnfitDataError
        For a log without samples.

    References
    ----------
    Golub and Pereyra 1973.

    """
    known = _numbers(_lever(spring))
    if spring in settings.model:
        raise UsageError(
            "spring-search",
            found=f"term '{spring.name}', which is already in the model",
            expected="a spring that is not in the model",
            do="remove it from the model: the search adds it",
        )
    _check_bounds(bounds, known)
    trial = _Trial(robot, log, settings, spring, tuple(bounds), diagnostics or Diagnostics())
    low, high = (np.array([pair[k] for pair in bounds.values()]) for k in (0, 1))
    first = np.clip((np.array([known[name] for name in bounds]) - low) / (high - low), 0.01, 0.99)
    rng = np.random.default_rng(seed)
    points = [first, *rng.uniform(0.05, 0.95, (max(starts, 1) - 1, len(low)))]
    agreeing = 0.0
    # The second round starts from the best of the first and weights each joint by its residual.
    for turn in range(2):
        results = [
            least_squares(lambda u: trial.residual(low + u * (high - low)), u0, bounds=(0, 1))
            for u0 in points
        ]
        results.sort(key=lambda result: float(result.cost))
        best = results[0]
        points = [np.clip(best.x, 1e-6, 1 - 1e-6)]
        if turn == 0:
            agreeing = float(
                np.mean([result.cost <= (1 + AGREES) * best.cost + 1e-300 for result in results])
            )
        values = low + best.x * (high - low)
        misfit = trial.reweight(values)
    freedom = max(len(best.fun) - len(values) - trial.rank, 1)
    curvature = np.linalg.pinv(best.jac.T @ best.jac) * 2.0 * best.cost / freedom
    return GeometrySearch(
        term=trial.term(values),
        names=tuple(bounds),
        values=values,
        std=np.sqrt(np.diag(curvature)) * (high - low),
        lower=low,
        upper=high,
        at_bound=tuple(bool(x < AT_BOUND or x > 1 - AT_BOUND) for x in best.x),
        misfit=misfit[0],
        misfit_without=misfit[1],
        agreeing=agreeing,
    )


def _check_bounds(bounds: Mapping[str, tuple[float, float]], known: Mapping[str, float]) -> None:
    for name, pair in bounds.items():
        if name not in known or not -np.inf < pair[0] < pair[1] < np.inf:
            expected = "a range of one of " + ", ".join(known)
            raise UsageError("spring-search", found=f"bounds {name} = {pair}", expected=expected)
    if not bounds:
        raise UsageError("spring-search", found="no bounds", expected="bounds for the values to estimate")


def geometry_text(term: Term) -> str:
    """Geometry of a spring as a line of an experiment file; lengths in m, angles in rad, six digits."""
    options = lever_to_options(_lever(term))
    pairs = [f"{key} = {json.dumps(_six_digits(value))}" for key, value in options.items()]
    return "geometry = { " + ", ".join(pairs) + " }"


class _Trial:
    """Filtered equations with the columns of all other terms projected out, and the spring's columns for a geometry."""

    def __init__(
        self,
        robot: RobotModel,
        log: Log,
        settings: Settings,
        spring: Term,
        names: tuple[str, ...],
        diagnostics: Diagnostics,
    ) -> None:
        self.robot, self.spring, self.names = robot, spring, names
        prepared: Prepared = prepare(log, settings.preparation, diagnostics)
        wanted = structural_base(robot, settings.model, TorqueRows(), settings.seed).mask
        self.assembly = Assembly(
            robot,
            settings.model,
            TorqueRows(),
            wanted,
            prepared.parallel_filter(),
            Blocking(block_seconds(prepared)),
        )
        self.batches: list[Samples] = list(prepared)
        kept = sum(len(prepared.parallel_filter().kept(s)) for s in self.batches)
        if kept < 10:
            raise UnfitDataError("no-samples", found="no usable sample", expected="motion")
        self.step = max(kept // ROWS_A_JOINT, 1)
        self.count = len(settings.model.columns(robot))
        dense = [self._dense(settings.model, wanted, self.count, s) for s in self.batches]
        self.X = np.concatenate([x[:, :, :-1] for x in dense], axis=1)[:, :, wanted]
        self.y = np.concatenate([x[:, :, -1] for x in dense], axis=1)
        # Joints are weighted by their torque first, and later by their residuals.
        self._project(np.sqrt(np.mean(self.y**2, axis=1)))

    def term(self, values: Float) -> Term:
        """The spring with these values of its geometry."""
        numbers = dict(zip(self.names, values.tolist(), strict=True))
        return replace(self.spring, geometry=_with(_lever(self.spring), numbers))

    def residual(self, values: Float) -> Float:
        """Residuals of all joints, shape (n_rows,), for values of the geometry."""
        S, _ = self._lines(values)
        a = self._coefficients(S)
        return np.asarray(self.left - S @ a)

    def reweight(self, values: Float) -> tuple[float, float]:
        """Weight each joint by its residuals; return the misfit with and without the spring."""
        S, raw = self._lines(values)
        a = self._coefficients(S)
        full = np.concatenate([self.A, (raw / self.sigma[:, None, None]).reshape(-1, raw.shape[2])], axis=1)
        size = np.where(np.linalg.norm(full, axis=0) > 0, np.linalg.norm(full, axis=0), 1.0)
        whole = (self.y / self.sigma[:, None]).ravel()
        errors = whole - full / size @ np.linalg.lstsq(full / size, whole, rcond=1e-12)[0]
        total = float(np.linalg.norm(whole))
        with_spring, without = float(np.linalg.norm(self.left - S @ a)), float(np.linalg.norm(self.left))
        rms = np.sqrt(np.mean(errors.reshape(self.y.shape) ** 2, axis=1)) * self.sigma
        self._project(np.maximum(rms, 1e-9 * np.sqrt(np.mean(self.y**2, axis=1)) + 1e-300))
        return with_spring / total, without / total

    def _project(self, sigma: Float) -> None:
        self.sigma = np.where(sigma > 0, sigma, 1.0)
        self.A = (self.X / self.sigma[:, None, None]).reshape(-1, self.X.shape[2])
        norm = np.linalg.norm(self.A, axis=0)
        U, s, _ = np.linalg.svd(self.A / np.where(norm > 0, norm, 1.0), full_matrices=False)
        self.U = U[:, s > 1e-10 * s[0]]
        self.rank = self.U.shape[1]
        self.left = self._projected((self.y / self.sigma[:, None]).ravel())

    def _projected(self, columns: Float) -> Float:
        return np.asarray(columns - self.U @ (self.U.T @ columns))

    def _lines(self, values: Float) -> tuple[Float, Float]:
        terms = Terms((self.term(values),))
        count = len(terms.columns(self.robot))
        every = np.ones(count, dtype=np.bool_)
        raw = np.concatenate([self._dense(terms, every, count, s)[:, :, :-1] for s in self.batches], axis=1)
        return self._projected((raw / self.sigma[:, None, None]).reshape(-1, count)), raw

    def _coefficients(self, S: Float) -> Float:
        norm = np.linalg.norm(S, axis=0)
        size = np.where(norm > 0, norm, 1.0)
        return np.asarray(np.linalg.lstsq(S / size, self.left, rcond=1e-10)[0] / size)

    def _dense(self, terms: Terms, wanted: Any, count: int, samples: Samples) -> Float:
        # Filtered columns and target of one batch, shape (n_joints, n_rows, count + 1).
        equations, times = self.assembly.filtered(
            TorqueRows().equations(self.robot, terms, samples, wanted), samples
        )
        dense = np.zeros((self.robot.n, len(times[:: self.step]), count + 1))
        for j, (columns, panel) in enumerate(zip(equations.columns, equations.panels, strict=True)):
            dense[j][:, [*columns.tolist(), count]] = panel[:, :: self.step].T
        return dense


def _six_digits(value: Any) -> Any:
    if isinstance(value, list):
        return [_six_digits(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _lever(spring: Term) -> Lever:
    geometry = getattr(spring, "geometry", None)
    if not isinstance(geometry, Lever):
        raise UsageError(
            "spring-search",
            found=f"term '{spring.name}' without a geometry",
            expected="a spring with a geometry",
        )
    return geometry


def _numbers(geometry: Lever) -> dict[str, float]:
    if isinstance(geometry, Triangle):
        return {"anchor": geometry.anchor, "crank": geometry.crank, "angle": geometry.angle}
    if isinstance(geometry, Points):
        return {
            f"{end}.{axis}": geometry.points[e][k]
            for e, end in enumerate("ab")
            for k, axis in enumerate("xyz")
        }
    raise UsageError(
        "spring-search", found=f"a geometry of {type(geometry).__name__}", expected="Triangle or Points"
    )


def _with(geometry: Lever, values: dict[str, float]) -> Lever:
    whole = _numbers(geometry) | values
    if isinstance(geometry, Points):
        a, b = ((whole[f"{e}.x"], whole[f"{e}.y"], whole[f"{e}.z"]) for e in "ab")
        return replace(geometry, points=(a, b))
    return Triangle(geometry.joint, **whole) if isinstance(geometry, Triangle) else geometry
