"""The payload of a robot whose dynamics are known: mass, centre and inertia from a log with it mounted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import stdtrit

from dynid.base.arrays import Float, Int, locked
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import UnfitDataError, UsageError
from dynid.base.parallel import default_threads
from dynid.estimate.uncertainty import block_jackknife
from dynid.factor.factor import Factor, Factors, group_scale, stack
from dynid.identification.further_log import torque_factors
from dynid.kernel import qr_panel
from dynid.log.read import Log, as_log
from dynid.run.result import Identification
from dynid.spatial.inertia import from_com, is_physical, six, symmetric
from dynid.terms.exports import MotionBasis
from dynid.terms.joint_term import JointTerm
from dynid.terms.rigid_body import INERTIAL_SYMBOLS
from dynid.terms.term import Column, Of

Method = Literal["difference", "joint"]

# A model of the same arm explains most of a loaded log; another arm's does not.
_FOREIGN = 0.5
_FRICTION = (MotionBasis.SPEED, MotionBasis.SIGN, MotionBasis.ONE)
_ROUNDS, _TOLERANCE = 30, 1e-4
# A direction of the covariance that is determined this much better than the worst counts no more than this.
_SHARPEST = 1e-6
# Radius of gyration of that small body over the distance of its centre.
_SMALL = 0.2
_NAMES = ("mass", "centre x", "centre y", "centre z", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz")
_UNITS = ("kg", *("m",) * 3, *("kg m^2",) * 6)


@dataclass(frozen=True, eq=False)
class Payload:
    """A load on the last body, with 95 % intervals by the block jackknife and the run's own covariance.

    parameters: (10,) m, mcx, ..., Izz about the joint frame of `body`.    covariance: (10, 10).
    relative: error of the loaded log's torque with the payload in the model; relative_without: without it.
    physical: whether a positive mass can be distributed so.
    """

    method: Method
    body: str
    parameters: Float
    covariance: Float
    degrees_of_freedom: float
    relative: float
    relative_without: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", locked(self.parameters, (10,), "parameters"))
        object.__setattr__(self, "covariance", locked(self.covariance, (10, 10), "covariance"))

    def __repr__(self) -> str:
        return "\n".join(payload_lines(self))

    @property
    def mass(self) -> float:
        """Mass, kg."""
        return float(self.parameters[0])

    @property
    def centre(self) -> Float:
        """Centre of mass in the joint frame, (3,), m."""
        return np.asarray(self.parameters[1:4] / self.mass)

    @property
    def inertia(self) -> Float:
        """Inertia about the centre of mass in the joint frame's axes, (3, 3), kg m^2."""
        return symmetric(_properties(self.parameters)[4:])

    @property
    def physical(self) -> bool:
        """Whether the ten numbers belong to a physically consistent body."""
        return is_physical(self.parameters)

    def half_width(self, level: float = 0.95) -> Float:
        """Half widths of mass, centre (3) and inertia about it (xx, xy, yy, xz, yz, zz), (10,), linearised."""
        J = np.empty((10, 10))
        for k in range(10):
            step = np.zeros(10)
            step[k] = 1e-6 * max(abs(self.parameters[k]), 1e-3)
            ahead, behind = _properties(self.parameters + step), _properties(self.parameters - step)
            J[:, k] = (ahead - behind) / (2 * step[k])
        std = np.sqrt(np.maximum(np.diag(J @ self.covariance @ J.T), 0.0))
        return np.asarray(float(stdtrit(self.degrees_of_freedom, 0.5 + level / 2)) * std)

    def calibrated(self, reference: Payload, mass: float) -> Payload:
        """The payload with all drive gains scaled so that a known one is found with its mass.

        s = mass / reference.mass scales torque and payload alike; the uncertainty of s is added.
        Raises UsageError for a mass that is not positive, UnfitDataError for a reference without mass.
        """
        if not mass > 0:
            raise UsageError("reference-mass", found=f"a mass of {mass} kg", expected="a mass > 0")
        if reference.half_width()[0] >= reference.mass:
            raise UnfitDataError(
                "no-payload",
                found=f"a known payload of {mass:g} kg found as {reference.mass:.3g} kg",
                expected="a log with that payload mounted",
            )
        s = mass / reference.mass
        relative = float(reference.covariance[0, 0]) / reference.mass**2
        scaled = s * self.parameters
        covariance = s**2 * self.covariance + relative * np.outer(scaled, scaled)
        freedom = min(self.degrees_of_freedom, reference.degrees_of_freedom)
        return replace(self, parameters=scaled, covariance=covariance, degrees_of_freedom=freedom)

    def real(self, margin: float = 1e-6) -> Payload:
        """The closest physically consistent load, in the metric of the covariance; the same where it is so already.

        min (pi - pi_found)' C^-1 (pi - pi_found) + a weak pull to a small body, pseudo-inertia >= margin.
        The covariance stays the found one's.
        Raises SolverError if the solver gives no checked answer.
        """
        if self.physical:
            return self
        # The solver is loaded for loads that cannot exist alone.
        from dynid.feasible import PhysicalBodies, feasible_parameters

        values, vectors = np.linalg.eigh(self.covariance)
        whiten = (vectors / np.sqrt(np.maximum(values, _SHARPEST**2 * values[-1]))).T
        mass, length = max(abs(self.mass), 0.1), max(float(np.linalg.norm(self.centre)), 0.1)
        spread = mass * length ** np.array([0.0, *(1.0,) * 3, *(2.0,) * 6])
        columns = tuple(Column(f"{symbol}1", "", "payload", 0, of=Of.BODY) for symbol in INERTIAL_SYMBOLS)
        # What the log says nothing of is filled by a small body at the found centre.
        small = from_com(mass, self.centre, mass * (_SMALL * length) ** 2 * np.eye(3))
        found = feasible_parameters(
            whiten, whiten @ self.parameters, columns, [PhysicalBodies(margin)], small, spread, 1.0
        )
        return replace(self, parameters=found.parameters)

    @property
    def properties(self) -> Float:
        """Mass, centre (3) and inertia about it (xx, xy, yy, xz, yz, zz), (10,)."""
        return _properties(self.parameters)


def find_payload(
    run: Identification,
    log: Log,
    method: Method = "difference",
    *,
    friction: Literal["fixed", "free"] = "fixed",
    threads: int | None = None,
    diagnostics: Diagnostics | None = None,
) -> Payload:
    """Finds the payload at the last body of an identified robot from a log with it mounted.

    method: "difference" holds the run's parameters fast, min ||y - Y theta_run - Y_L pi||_Sigma, and adds their
    covariance; "joint" fits run and payload together to the factors of both.
    friction: "free" lets viscous and Coulomb friction and offset of the loaded log differ from the run's.

    Raises UsageError for a run without rigid bodies, or of other rows with "joint"; UnfitDataError if the log is too
    short. Claims: other-arm, where the run's model with a payload does not explain the log.
    """
    sink = diagnostics if diagnostics is not None else Diagnostics()
    loaded = _loaded_factors(run, log, sink, threads or default_threads())
    body = _payload_columns(run)
    free = _friction_columns(run) if friction == "free" else np.zeros(0, dtype=np.int64)
    beta, P = run.estimate.value, run.estimate.covariance
    E_run = np.zeros((loaded.parameter_count, run.estimate.base.rank))
    E_run[run.estimate.base.independent, np.arange(run.estimate.base.rank)] = 1.0
    E_own = np.zeros((loaded.parameter_count, len(free) + 10))
    E_own[[*free, *body], np.arange(len(free) + 10)] = 1.0
    if method == "joint":
        _require_same_groups(run, loaded)
        nothing = np.zeros((loaded.parameter_count, E_own.shape[1]))
        unloaded = _mapped(run.factors, np.hstack([E_run, nothing]), None)
        factors = _mapped(loaded, np.hstack([E_run, E_own]), None).join(unloaded)
    else:
        factors = _mapped(loaded, E_own, E_run @ beta)
    value, inverse, weights = _weighted(factors)
    covariance, _ = block_jackknife(factors, np.arange(len(value)), value, inverse, weights)
    if method == "difference":
        J = _answer_to_run(loaded, E_own, E_run, inverse, weights)
        covariance = covariance + J @ P @ J.T
    theta = E_run @ beta + E_own @ value if method == "difference" else np.hstack([E_run, E_own]) @ value
    found = Payload(
        method=method,
        body=run.robot.body_names[-1],
        parameters=value[-10:],
        covariance=covariance[-10:, -10:],
        degrees_of_freedom=float(len(factors.blocks) - 1),
        relative=_relative(loaded, theta),
        relative_without=_relative(loaded, E_run @ beta),
    )
    _judge(found, sink)
    return found


def payload(
    run: Identification,
    log: Any,
    *,
    method: Method = "difference",
    free_friction: bool = False,
    reference: Any = None,
    reference_mass: float | None = None,
    threads: int | None = None,
    diagnostics: Diagnostics | None = None,
    accept: Sequence[str] = (),
) -> Payload:
    """The payload at the last body of an identified robot, from a log with it mounted.

    log: a Log or a data frame.    method: "difference" holds the run's parameters fast, "joint" fits both together.
    free_friction: whether friction may differ from the run's.
    reference, reference_mass: a log with a load of known mass (kg), which calibrates the drive gains.
    accept: codes of claims that are to warn, not to stop, beside those accepted in the run.

    Raises UsageError for one of reference and reference_mass alone or an accepted code that is not found, and as
    `find_payload`.
    """
    if (reference is None) != (reference_mass is None):
        raise UsageError(
            "reference-mass",
            found="one of reference and reference_mass",
            expected="both: a log and the mass of the load in it",
        )
    sink = diagnostics if diagnostics is not None else Diagnostics()
    sink.accept((*run.accepted, *accept))
    friction: Literal["free", "fixed"] = "free" if free_friction else "fixed"
    channels = run.terms.channels()
    loaded = as_log(log, run.robot, channels)
    found = find_payload(run, loaded, method, friction=friction, threads=threads, diagnostics=sink)
    if reference is not None and reference_mass is not None:
        known = as_log(reference, run.robot, channels)
        measured = find_payload(run, known, method, friction=friction, threads=threads, diagnostics=sink)
        found = found.calibrated(measured, reference_mass)
    elif np.isfinite(run.robot.drive.drive_gain).any():
        sink.warn(
            "payload-gains",
            "the load is as right as the drive gains, whose error its intervals do not hold: a log with a known load, "
            "given as reference, calibrates them",
        )
    sink.require_found(accept)
    return found


def payload_lines(found: Payload) -> list[str]:
    """The payload in words, one line a number, with half widths of 95 % intervals, and the closest consistent body."""
    lines = [
        f"payload at body '{found.body}' ({found.method} fit), centre in its joint frame, inertia about it:"
    ]
    lines += [
        f"  {name:9s} {value:10.4g} +- {half:.2g} {unit}"
        for name, unit, value, half in zip(_NAMES, _UNITS, found.properties, found.half_width(), strict=True)
    ]
    if not found.physical:
        real = ", ".join(f"{value:.4g}" for value in found.real().properties)
        lines.append(f"closest physically consistent body, same order and units: {real}")
    return [
        *lines,
        f"relative torque error of the loaded log: {100 * found.relative:.3g} % with it, "
        f"{100 * found.relative_without:.3g} % without",
    ]


def payload_data(found: Payload) -> dict[str, Any]:
    """The payload as plain data: found values with half widths, and the closest consistent body for `known_payload`."""
    real = found.real()
    return {
        "body": found.body,
        "method": found.method,
        "found": {
            name: {"value": float(value), "half_width95": float(half), "unit": unit}
            for name, unit, value, half in zip(
                _NAMES, _UNITS, found.properties, found.half_width(), strict=True
            )
        },
        "physical": found.physical,
        "real_body": {
            "mass": real.mass,
            "centre": real.centre.tolist(),
            "inertia_about_centre": real.inertia.tolist(),
            "ten_parameters": real.parameters.tolist(),
        },
        "relative": found.relative,
        "relative_without": found.relative_without,
    }


def _properties(pi: Float) -> Float:
    m = float(pi[0])
    c = pi[1:4] / m
    inertia = symmetric(pi[4:]) - m * (float(c @ c) * np.eye(3) - np.outer(c, c))
    return np.concatenate([[m], c, six(inertia)])


def _payload_columns(run: Identification) -> Int:
    last = run.robot.n_bodies - 1
    columns = run.estimate.columns
    found = [j for j, c in enumerate(columns) if c.of is Of.BODY and c.owner == last]
    if len(found) != 10:
        raise UsageError(
            "no-rigid-body", found="a run without the term rigid_body", expected="inertial parameters"
        )
    return np.array(found, dtype=np.int64)


def _friction_columns(run: Identification) -> Int:
    own = run.estimate.base.mask
    free = {term.name for term in run.terms if isinstance(term, JointTerm) and term.exports_as in _FRICTION}
    found = [j for j, c in enumerate(run.estimate.columns) if c.term in free and own[j]]
    return np.array(found, dtype=np.int64)


def _loaded_factors(run: Identification, log: Log, diagnostics: Diagnostics, threads: int) -> Factors:
    wanted = run.estimate.base.mask.copy()
    wanted[_payload_columns(run)] = True
    wanted[_friction_columns(run)] = True
    factors = torque_factors(run, log, wanted, diagnostics, threads)
    if len(factors.blocks) < 3:
        raise UnfitDataError(
            "too-few-blocks",
            found=f"{len(factors.blocks)} block(s) of loaded data",
            expected="at least 3, or intervals mean nothing",
            do="record a longer motion with the payload",
        )
    return factors


def _require_same_groups(run: Identification, loaded: Factors) -> None:
    if run.factors.group_names != loaded.group_names:
        raise UsageError(
            "payload-rows",
            found=f"a run with the equations {', '.join(run.factors.group_names)}",
            expected="a run with torque rows for a joint fit",
            do="use the difference fit",
        )


def _mapped(factors: Factors, E: Float, known: Float | None) -> Factors:
    """The same equations in unknowns x with theta = E x + known."""
    blocks = tuple(
        replace(block, groups=tuple(_mapped_factor(factor, E, known) for factor in block.groups))
        for block in factors.blocks
    )
    return Factors(factors.group_names, E.shape[1], blocks)


def _mapped_factor(factor: Factor, E: Float, known: Float | None) -> Factor:
    X, z = factor.R[:, :-1], factor.R[:, -1]
    target = z if known is None else z - X @ known[factor.columns]
    panel = np.column_stack([X @ E[factor.columns], target])
    rows = max(panel.shape[1] - len(panel), 0)
    R = qr_panel(np.ascontiguousarray(np.concatenate([panel, np.zeros((rows, panel.shape[1]))]).T))
    k = E.shape[1]
    return Factor(np.arange(k), R, factor.count, np.zeros(k + 1), factor.target_abs)


def _weighted(factors: Factors) -> tuple[Float, Float, Float]:
    # x, A^-1/2 and weights 1/sigma^2 at their fixed point.
    k = factors.parameter_count
    columns, total = np.arange(k), factors.total
    weights = group_scale(total)
    R = stack(total, columns, weights)
    size = np.abs(np.diag(R[:k, :k]))
    if (size <= 1e-9 * np.linalg.norm(R[:k, :k], axis=0).clip(1e-300)).any():
        raise UnfitDataError(
            "payload-not-excited",
            found="a motion that does not determine all ten parameters of the payload",
            expected="a motion of all joints, the last ones turning fast in several directions",
            do="record an exciting motion with the payload",
        )
    value = solve_triangular(R[:k, :k], R[:k, k])
    for _ in range(_ROUNDS):
        sigma = np.array([np.sqrt(f.residual_square(value) / max(f.count - k, 1)) for f in total])
        sigma = np.maximum(sigma, 1e-15 / np.sqrt(group_scale(total)))
        weights = 1.0 / sigma**2
        R = stack(total, columns, weights)
        new = solve_triangular(R[:k, :k], R[:k, k])
        moved = float(np.linalg.norm(R[:k, :k] @ (new - value))) / max(
            float(np.linalg.norm(R[:k, k])), 1e-300
        )
        value = new
        if moved < _TOLERANCE * 1e-2:
            break
    return value, solve_triangular(R[:k, :k], np.eye(k)), weights


def _answer_to_run(loaded: Factors, E_own: Float, E_run: Float, inverse: Float, weights: Float) -> Float:
    # dx/dbeta = -A^-1 X_own' W X_run.
    cross = np.zeros((E_own.shape[1], E_run.shape[1]))
    for factor, weight in zip(loaded.total, weights, strict=True):
        X = factor.R[:, :-1]
        cross += weight * (X @ E_own[factor.columns]).T @ (X @ E_run[factor.columns])
    return np.asarray(-inverse @ (inverse.T @ cross))


def _relative(factors: Factors, theta: Float) -> float:
    missed = sum(factor.residual_square(theta) for factor in factors.total)
    return float(np.sqrt(missed / max(sum(factor.target_square for factor in factors.total), 1e-300)))


def _judge(found: Payload, diagnostics: Diagnostics) -> None:
    if found.relative > _FOREIGN:
        diagnostics.claim(
            "other-arm",
            found=f"a torque error of {100 * found.relative:.0f} % with the best payload",
            expected="the log of the arm that the run is about, with a payload",
            do="check which robot, mapping and units the log belongs to",
        )
    if not found.physical:
        diagnostics.warn(
            "payload-unphysical",
            "no physically consistent body has these ten numbers: the motion excites the payload's inertia too little "
            "to be trusted",
        )
    if found.half_width()[0] > abs(found.mass):
        diagnostics.warn("no-payload", f"a mass of {found.mass:.3g} kg does not differ from none")
