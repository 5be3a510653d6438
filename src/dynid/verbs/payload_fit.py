"""Estimate a payload from statics and dynamics, together with gains, friction, hoses and a tilt of the base."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from enum import StrEnum
from functools import cached_property

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import SolverError, UnfitDataError, UsageError
from dynid.base.records import dataclass
from dynid.estimate.prior import parameter_spread, typical_length
from dynid.estimate.uncertainty import BlockScores, shrunk
from dynid.factor.factor import Block, Factor, Factors
from dynid.feasible.bodies import THINNEST, body_columns, is_described
from dynid.feasible.constraints import PhysicalBodies
from dynid.feasible.distance import relative_covariance
from dynid.feasible.problem import Distance, feasible_parameters
from dynid.identification.logs import torque_factors
from dynid.kernel import cho_factor, cho_solve
from dynid.log.read import Log
from dynid.robot.model import RobotModel
from dynid.run.result import Identification
from dynid.signals.samples import Samples
from dynid.spatial.inertia import from_com, nearest_possible
from dynid.terms.exports import Column, Of
from dynid.terms.friction import WIDTH, direction
from dynid.terms.nominal import Nominal, NominalTerm
from dynid.terms.rigid_body import INERTIAL_SYMBOLS, RigidBody
from dynid.terms.term import Terms
from dynid.verbs.statics import find_poses

# How the unknowns of the payload estimate enter the coefficients of one joint's equations.

# Columns of the coefficients, places of their unknowns, and places of the unknown log gains that scale their torque.
Part = tuple[Int, Int, Sequence[int]]


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Coefficients c[row] = sum of x[place] exp(-sum of x[logs]) over entries, in torque of declared units.

    width: number of coefficients.    used: places of the m unknowns that appear, ascending.
    row, place, column: (n_entries,), coefficient, unknown, and position of the unknown in `used`.
    part: (n_entries,), row of `logs`.    logs, log_columns: (n_parts, most), places of log gains and their positions in
    `used`, padded with the number of unknowns and with m.
    """

    width: int
    used: Int
    row: Int
    place: Int
    column: Int
    part: Int
    logs: Int
    log_columns: Int

    @staticmethod
    def of(parts: Sequence[Part], columns: Int, count: int) -> Coefficients:
        """Coefficients of equations with these columns (w,) and `count` unknowns; other columns are left out."""
        rows = {int(column): k for k, column in enumerate(columns)}
        entries = [
            (rows[column], place, k)
            for k, (part_columns, places, _) in enumerate(parts)
            for column, place in zip(part_columns.tolist(), places.tolist(), strict=True)
            if column in rows
        ]
        row, place, part = np.array(entries, dtype=np.int64).reshape(-1, 3).T
        most = max((len(logs) for *_, logs in parts), default=0)
        logs = np.array([[*logs, *[count] * (most - len(logs))] for *_, logs in parts], dtype=np.int64)
        used = np.unique(np.concatenate([place, logs[logs < count]]))
        where = np.full(count + 1, len(used))
        where[used] = np.arange(len(used))
        return Coefficients(len(columns), used, row, place, where[place], part, logs, where[logs])

    def _entries(self, x: Float) -> tuple[Float, Float]:
        size = np.exp(-np.append(x, 0.0)[self.logs].sum(axis=1))[self.part]
        return size, size * x[self.place]

    def values(self, x: Float) -> Float:
        """Values (w,) at unknowns x, shape (count,)."""
        return np.asarray(np.bincount(self.row, self._entries(x)[1], self.width), dtype=np.float64)

    def slopes(self, x: Float) -> Float:
        """Derivatives (w, m) with respect to the unknowns that appear."""
        size, values = self._entries(x)
        J = np.zeros((self.width, len(self.used) + 1))
        J[self.row, self.column] = size
        for column in self.log_columns.T:
            np.subtract.at(J, (self.row, column[self.part]), values)
        return J[:, :-1]


# Equations of a robot with and without payload: factors of both logs, at rest and in motion.

# Fewer blocks do not give valid intervals.
LEAST_BLOCKS = 3
# Fewer standstills are explained by the two disturbances per joint alone.
LEAST_POSES = 6
# Changes of friction between the logs: viscous, Coulomb, load-dependent, offset.
CHANGES = ("fv", "fc", "fl", "fo")
# Position-dependent torque of a hose or cable: a spring, and harmonics of a turn.
HARMONICS = (1, 2)
POSITION = ("spring", *(f"{wave}{k}" for k in HARMONICS for wave in ("sin", "cos")))
# Parameters with an effect on gravity torque: m, mcx, mcy, mcz.
GRAVITY = 4


@dataclass(frozen=True)
class LoadedLog(NominalTerm):
    """Effects in a loaded log besides the run's model and the payload's inertia, each linear in its parameters.

    Per joint: changes of friction, fv dq + fc sign(dq) + fl |tau_rigid| sign(dq) + fo, and position-dependent torque in
    both logs, k q + sum_k (s_k sin(k q) + c_k cos(k q)). Of the base: a tilt by small angles about two horizontal axes
    a, b, dG(a x g) and dG(b x g). Of the payload: gravity of a mass and first moments independent of its inertial
    forces, (dm, dmcx, dmcy, dmcz).
    inertia: ten parameters per link, for tau_rigid and G.
    Source of the load-dependent friction: Bittencourt and Gunnarsson 2012.
    """

    inertia: tuple[float, ...] = ()
    drives: tuple[float, ...] = ()
    name: str = "loaded_log"
    of_log = True

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """4 n columns of friction, 5 n of the position, two of the tilt, four of the weight."""
        units = ("N m s/rad", "N m", "1", "N m")
        friction = [
            Column(f"load_{kind}{j + 1}", unit, self.name, j)
            for j in range(robot.n)
            for kind, unit in zip(CHANGES, units, strict=True)
        ]
        position = [
            Column(f"load_{kind}_{j + 1}", "N m/rad" if kind == "spring" else "N m", self.name, j)
            for j in range(robot.n)
            for kind in POSITION
        ]
        lean = [Column(f"load_lean{k}", "rad", self.name, 0, of=Of.ROBOT) for k in "ab"]
        weight = [
            Column(f"load_weight_{symbol}", unit, self.name, 0, of=Of.ROBOT)
            for symbol, unit in zip(("m", "mcx", "mcy", "mcz"), ("kg", *("kg m",) * 3), strict=True)
        ]
        return (*friction, *position, *lean, *weight)

    def lines(self, robot: RobotModel, samples: Samples) -> tuple[Float, ...]:
        """Torque of one unit of each parameter."""
        identity = np.eye(robot.n)
        sign = direction(samples, WIDTH)
        still = np.zeros_like(samples.q)
        nominal = Nominal(self.inertia)
        carried = np.abs(nominal.rigid(robot, samples.q, samples.dq, samples.ddq))
        kinds = (samples.dq, sign, carried * sign, np.ones_like(sign))
        friction = [kind * identity[j] for j in range(robot.n) for kind in kinds]
        turns = [wave(k * samples.q) for k in HARMONICS for wave in (np.sin, np.cos)]
        position = [kind * identity[j] for j in range(robot.n) for kind in (samples.q, *turns)]
        lean = [
            nominal.rigid(replace(robot, gravity=np.cross(axis, robot.gravity)), samples.q, still, still)
            for axis in level_axes(robot.gravity)
        ]
        posed = replace(samples, dq=still, ddq=still)
        wanted = np.zeros(10 * robot.n_bodies, dtype=np.bool_)
        wanted[-10 : 4 - 10] = True
        panels = RigidBody().torque_regressor(robot, posed, wanted)
        weight = np.zeros((GRAVITY, len(samples), robot.n))
        for j, (columns, values) in enumerate(zip(panels.columns, panels.values, strict=True)):
            weight[columns - (10 * robot.n_bodies - 10), :, j] = values
        return (*friction, *position, *lean, *weight)


def own_columns(n: int) -> int:
    """Number of columns of `LoadedLog` for n joints."""
    return (len(CHANGES) + len(POSITION)) * n + 2 + GRAVITY


def level_axes(gravity: Float) -> Float:
    """The two axes of the base frame most perpendicular to gravity, shape (2, 3); the first two without gravity."""
    across = np.linalg.norm(np.cross(np.eye(3), gravity), axis=1)
    return np.eye(3)[np.sort(np.argsort(-across, kind="stable")[:2])]


@dataclass(frozen=True, eq=False)
class LoadEquations:
    """Factors of the equations of the robot without and with its payload.

    Columns: the p parameters of the run, the parameters of `LoadedLog`, and two per joint at rest: stiction by
    direction of approach, and a constant torque. alone: of the log without payload, per joint.    moving, resting: of
    the loaded log; None without standstills. last: columns of the ten payload parameters.    bodies, friction: masks
    (p,) of link and friction parameters.
    """

    run: Identification
    alone: Factors
    moving: Factors
    resting: Factors | None
    last: Int
    bodies: Bool
    friction: Bool

    @property
    def p(self) -> int:
        """Number of parameters of the run's model."""
        return len(self.bodies)

    @property
    def n(self) -> int:
        """Number of joints."""
        return self.run.robot.n

    @property
    def count(self) -> int:
        """Number of all columns."""
        return self.p + own_columns(self.n) + 2 * self.n

    @property
    def changes(self) -> Int:
        """Columns of friction, shape (n_joints, 4), as in CHANGES."""
        return np.asarray(self.p + np.arange(4 * self.n).reshape(self.n, 4))

    @property
    def position(self) -> Int:
        """Columns of position-dependent torque, shape (n_joints, 5), as in POSITION."""
        first = self.p + len(CHANGES) * self.n
        return np.asarray(first + np.arange(len(POSITION) * self.n).reshape(self.n, len(POSITION)))

    @property
    def lean(self) -> Int:
        """Columns of the tilt, shape (2,)."""
        return np.asarray(self.p + (len(CHANGES) + len(POSITION)) * self.n + np.arange(2))

    @property
    def weight(self) -> Int:
        """Columns of the weight independent of the inertia, shape (4,)."""
        return np.asarray(self.lean[-1] + 1 + np.arange(GRAVITY))

    @property
    def rest(self) -> Int:
        """Columns of stiction and constant torque at rest, shape (n_joints, 2)."""
        return np.asarray(self.count - 2 * self.n + np.arange(2 * self.n).reshape(self.n, 2))

    @cached_property
    def torque_rms(self) -> Float:
        """RMS torque of the loaded log, shape (n_joints,)."""
        return np.array([np.sqrt(f.target_square / max(f.count, 1)) for f in self.moving.total])

    @cached_property
    def column_rms(self) -> Float:
        """RMS of the loaded log's columns at each joint, shape (n_joints, count); 0 for columns it does not have."""
        rms = np.zeros((self.n, self.count))
        for j, f in enumerate(self.moving.total):
            rms[j, f.columns] = np.linalg.norm(f.R[:, :-1], axis=0) / np.sqrt(max(f.count, 1))
        return rms

    @cached_property
    def friction_rms(self) -> Float:
        """RMS friction torque in the loaded log, shape (n_joints,); at least 1 % of the torque."""
        theta = np.zeros(self.count)
        theta[: self.p] = np.where(self.friction, self.run.estimate.full_vector, 0.0)
        sizes = [
            np.linalg.norm(f.R[:, :-1] @ theta[f.columns]) / np.sqrt(max(f.count, 1))
            for f in self.moving.total
        ]
        return np.asarray(np.maximum(sizes, 0.01 * self.torque_rms))


@dataclass(frozen=True, eq=False)
class LoadLogs:
    """A run, a log with payload and a log without, from which the equations are made.

    alone: None = the factors of the run, which have no tilt and no load-dependent friction.
    """

    run: Identification
    loaded: Log
    alone: Log | None
    diagnostics: Diagnostics
    threads: int

    def equations(self, load: Float) -> LoadEquations:
        """The equations, with tilt and load-dependent friction linearised about the run's links and a payload (10,).

        Raises UsageError for a run without rigid bodies or without equations per joint, UnfitDataError for a log that
        is too short.
        """
        run, robot = self.run, self.run.robot
        columns = run.estimate.columns
        bodies = np.array([column.of is Of.BODY for column in columns])
        last = np.flatnonzero(bodies & (np.array([c.owner for c in columns]) == robot.n_bodies - 1))
        if len(last) != 10:
            raise UsageError(
                "no-rigid-body", found="a run without the term rigid_body", expected="inertial parameters"
            )
        inertia = np.array(run.estimate.parameters[bodies]).reshape(-1, 10)
        carried = inertia.copy()
        carried[-1] += load
        identified = run.estimate.base.mask
        with_load = identified.copy()
        with_load[last] = True
        every = np.ones(own_columns(robot.n), dtype=np.bool_)
        moving, _ = self._factors(self.loaded, carried, np.concatenate([with_load, every]))
        if len(moving.blocks) < LEAST_BLOCKS:
            raise UnfitDataError(
                "too-few-blocks",
                found=f"{len(moving.blocks)} block(s) of loaded data",
                expected=f"at least {LEAST_BLOCKS} blocks, for valid intervals",
                do="record a longer motion with the payload",
            )
        return LoadEquations(
            run,
            self._factors_without_payload(inertia, identified),
            moving,
            self._standstill_factors(carried, with_load & bodies),
            last,
            bodies,
            run.terms.friction_columns(robot),
        )

    def _factors(self, log: Log, inertia: Float, wanted: Bool) -> tuple[Factors, Terms]:
        terms = self.run.terms + LoadedLog(tuple(inertia.ravel().tolist()))
        return torque_factors(self.run, log, wanted, self.diagnostics, self.threads, terms), terms

    def _factors_without_payload(self, inertia: Float, identified: Bool) -> Factors:
        run = self.run
        if self.alone is not None:
            friction = np.array([kind == "fl" for kind in CHANGES] * run.robot.n)
            position = [True] * (len(POSITION) * run.robot.n)
            also = np.concatenate([friction, position, [True, True], [False] * GRAVITY])
            return self._factors(self.alone, inertia, np.concatenate([identified, also]))[0]
        if run.factors.group_names != run.robot.joint_names:
            raise UsageError(
                "payload-rows",
                found=f"a run with the equations {', '.join(run.factors.group_names)}, whose log is missing",
                expected="equations per joint",
                do="give the log without the load, --without LOG",
            )
        return run.factors

    def _standstill_factors(self, inertia: Float, wanted: Bool) -> Factors | None:
        """Gravity equations of standstills, one block each; None if there are too few or motors move several joints."""
        run, robot, n = self.run, self.run.robot, self.run.robot.n
        if robot.drive.coupled or run.terms.channels() or robot.has_mimic:
            return None
        try:
            poses = find_poses(self.loaded.of_robot(robot))
        except UnfitDataError:
            return None
        if len(poses) < LEAST_POSES:
            return None
        still = np.zeros_like(poses.q)
        samples = Samples.from_motion(poses.q, still, still, poses.tau)
        terms = run.terms + LoadedLog(tuple(inertia.ravel().tolist()))
        also = np.ones(own_columns(n), dtype=np.bool_)
        also[: len(CHANGES) * n] = False
        panels = terms.torque_regressor(robot, samples, np.concatenate([wanted, also]), poses.tau)
        count = len(wanted) + len(also)
        joints = []
        for j, (columns, lines) in enumerate(zip(panels.columns, panels.values, strict=True)):
            rest = np.concatenate([columns, count + np.array([2 * j, 2 * j + 1])])
            joints.append(
                (rest, np.vstack([lines[:-1], poses.approach[:, j], np.ones(len(poses)), lines[-1]]))
            )
        blocks = []
        for i in range(len(poses)):
            groups = [Factor.from_panel(c, np.ascontiguousarray(panel[:, i : i + 1])) for c, panel in joints]
            blocks.append(Block("rest", -1, float(i), float(i), tuple(groups)))
        return Factors(robot.joint_names, count + 2 * n, tuple(blocks))


# Gauss-Newton steps, the relative gain that ends them, and rounds of reweighting.
STEPS, SETTLED, ROUNDS = 20, 1e-7, 7
# Candidate relative errors of the inertias of a robot file; CAD omits cables, grease and tolerances.
DESCRIBED = (0.05, 0.1, 0.2)
# Eigenvalues of a correlation matrix below this are rounding.
ROUNDING = 1e-14
# Shortest step of the search along a Gauss-Newton direction.
SHORTEST = 1e-4
# Standard deviation of parameters that are fixed.
HELD = 1e-6
# Share of the torque below which the effect of a parameter is rounding, for a payload that makes the whole torque.
UNFELT = 1e-6
# Powers of length in the ten parameters of the payload.
DEGREES = np.array([0, 1, 1, 1, 2, 2, 2, 2, 2, 2])
LOAD_FRICTION = CHANGES.index("fl")


class ScaleRule(StrEnum):
    """What fixes the scale of all torques, and thereby of the payload mass."""

    GAINS = "gains"
    DESCRIPTION = "description"


class View(StrEnum):
    """Part of the data that an estimate uses.

    JOINT: motion of both logs and standstills.    DIFFERENCE: the loaded log minus the torque predicted by the run, at
    the scale of the joint fit.    STATICS: the weight alone; the torque of the payload's accelerations has ten separate
    parameters.
    """

    JOINT = "joint fit"
    DIFFERENCE = "difference"
    STATICS = "statics"


@dataclass(frozen=True)
class Nuisances:
    """Standard deviations of the disturbances.

    Attributes
    ----------
    gain : float
        Relative, of a declared gain: torque constants are known to a few percent.
    common : float
        Relative, of all gains together if the robot file fixes the scale.
    drift : float
        Relative, of a gain between two logs: magnets lose 0.1 % of their flux per kelvin.
    lean : float, rad
        Tilt of the base: floors and tables are level to half a degree.
    friction : float
        Relative, of a joint's friction between two logs: temperature alone causes this change.
    load_friction : float
        Share of the payload torque that is lost in the gear: 5 to 10 % in harmonic drives.
    position : float
        Position-dependent torque of each kind, relative to the joint's torque: hoses and cables cause 1 to 2 %.
    loose : float
        Of unknown parameters, relative to a value that makes the whole torque.

    """

    gain: float = 0.05
    common: float = 0.3
    drift: float = 0.01
    lean: float = float(np.deg2rad(0.5))
    friction: float = 0.2
    load_friction: float = 0.1
    position: float = 0.02
    loose: float = 10.0


@dataclass(frozen=True, eq=False)
class LoadEstimate:
    """The ten payload parameters before physical consistency is enforced.

    covariance: (10, 10) = noise (of the residuals, by blocks) + by_scale (torque scale) + other disturbances.
    log_scale: (n_joints,), log of true over declared torque, with log_scale_covariance (n_joints, n_joints).
    described: relative error of the inertias of the robot file; nan if gains fix the scale.
    relative, relative_without: torque error of the loaded log with and without payload.
    before: prior variances of the parameters, shape (10,).
    """

    view: View
    parameters: Float
    covariance: Float
    noise: Float
    by_scale: Float
    log_scale: Float
    log_scale_covariance: Float
    described: float
    relative: float
    relative_without: float
    before: Float = field(default_factory=lambda: np.full(10, np.inf))


@dataclass(frozen=True, eq=False)
class _Group:
    """Equations of one joint in one log, with blocks numbered from `first`.

    given: a Gaussian distribution of the run's base parameters instead of equations of a joint.
    """

    joint: int
    loaded: bool
    total: Factor
    blocks: tuple[Factor, ...] = ()
    first: int = 0
    given: bool = False
    poses: bool = False


@dataclass(frozen=True, eq=False)
class _Problem:
    """The nonlinear least-squares problem of a view.

    Unknowns, at the places `at`: log gains (n), log of their common factor, base parameters in torque of that factor,
    payload (10), drift of gains (n), friction (4 n), position-dependent torque (5 n), tilt (2), rest (2 n), and for
    statics the weight (4).
    scale: mean (n,) and covariance (n, n) of the log scale if it is known.
    """

    eq: LoadEquations
    rule: ScaleRule
    view: View
    sd: Nuisances
    scale: tuple[Float, Float] | None = None
    at: dict[str, slice] = field(default_factory=dict)
    groups: list[_Group] = field(default_factory=list)
    coefficients: list[Coefficients] = field(default_factory=list)

    def __post_init__(self) -> None:
        n, first = self.eq.n, 0
        sizes = {"scale": n, "common": 1, "robot": self.eq.run.estimate.base.rank, "load": 10, "drift": n}
        sizes |= {"friction": len(CHANGES) * n, "position": len(POSITION) * n, "lean": 2, "rest": 2 * n}
        sizes |= {"weight": GRAVITY} if self.view is View.STATICS else {}
        for name, size in sizes.items():
            self.at[name] = slice(first, first + size)
            first += size
        if self.view is View.DIFFERENCE:
            self._append(_base_prior(self.eq))
        else:
            self._add(self.eq.alone, loaded=False)
        self._add(self.eq.moving, loaded=True)
        if self.eq.resting is not None:
            self._add(self.eq.resting, loaded=True, poses=True)

    @property
    def count(self) -> int:
        """Number of unknowns."""
        return int(max(place.stop for place in self.at.values()))

    @property
    def blocks(self) -> int:
        """Number of blocks of all logs."""
        return max(group.first + len(group.blocks) for group in self.groups)

    def _add(self, factors: Factors, loaded: bool, poses: bool = False) -> None:
        first = max((group.first + len(group.blocks) for group in self.groups), default=0)
        for j, total in enumerate(factors.total):
            blocks = tuple(block.groups[j] for block in factors.blocks)
            self._append(_Group(j, loaded, total, blocks, first, poses=poses))

    def _append(self, group: _Group) -> None:
        self.groups.append(group)
        coefficients = Coefficients.of(list(self._parts(group)), group.total.columns, self.count)
        self.coefficients.append(coefficients)

    def _parts(self, group: _Group) -> Iterator[Part]:
        eq, at, j = self.eq, self.at, group.joint

        def of(name: str) -> Int:
            return np.arange(at[name].start, at[name].stop)

        independent, robot = eq.run.estimate.base.independent, of("robot")
        if group.given:
            yield independent, robot, ()
            return
        drift = [at["drift"].start + j] if group.loaded else []
        gain = [at["scale"].start + j, *drift]
        scaled = [*gain, at["common"].start]
        # Only the payload is in true units: the common factor scales the robot, and friction is in declared torque.
        body = eq.bodies[independent]
        yield independent[~body], robot[~body], ()
        yield independent[body], robot[body], drift if self.view is View.DIFFERENCE else gain
        yield eq.lean, of("lean"), gain
        yield eq.position[j], of("position").reshape(-1, len(POSITION))[j], ()
        friction = of("friction").reshape(-1, len(CHANGES))
        if group.loaded:
            yield eq.changes[j], friction[j], ()
            yield eq.rest[j], of("rest").reshape(-1, 2)[j], ()
            yield eq.last, of("load"), scaled
            if "weight" in at:
                yield eq.weight, of("weight"), scaled
        else:
            yield eq.changes[[j], LOAD_FRICTION], friction[[j], LOAD_FRICTION], ()

    @cached_property
    def load_std(self) -> Float:
        """Prior standard deviations of the payload, shape (10,): `loose` times a value that makes the whole torque.

        A parameter without effect on any joint gets the value of the payload M L^k that makes the whole torque at the
        typical length L.
        """
        eq = self.eq
        with np.errstate(divide="ignore"):
            whole = (eq.torque_rms[:, None] / eq.column_rms[:, eq.last]).min(axis=0)
        size = typical_length(eq.run.robot) ** DEGREES
        mass = float((whole / size).min())
        felt = whole * UNFELT < mass * size
        return np.asarray(self.sd.loose * np.where(felt, whole, mass * size))

    def prior(self, described: float, factor: float) -> tuple[Float, Float, Float]:
        """Prior mean, its part that scales with the common factor, both (n_unknowns,), and precision matrix.

        described: relative error of the inertias of the robot file; factor: approximate declared over true torque.
        """
        mean, described_mean, precision, loose = self._prior_parts
        base, place, covariance = self.eq.run.estimate.base, self.at["robot"], loose.copy()
        for ten, _, relative in self._scaling_links:
            covariance[np.ix_(ten, ten)] = (described * factor) ** 2 * relative
        precision = precision.copy()
        precision[place, place] = np.linalg.inv(base.B @ covariance @ base.B.T)
        return mean, described_mean, precision

    @cached_property
    def _scaling_links(self) -> list[tuple[Int, Float, Float]]:
        """Links whose prior fixes the torque scale: columns (10,), parameters (10,), `relative_covariance`."""
        described: list[tuple[Int, Float, Float]] = []
        columns = self.eq.run.estimate.columns
        for ten in body_columns(columns) if self._by_description else ():
            body = np.array([columns[i].prior for i in ten])
            if is_described(body):
                # Exported robot files often have slightly impossible inertias, but their masses are still usable.
                body = nearest_possible(body, THINNEST)
                described.append((ten, body, relative_covariance(body)))
        return described

    @cached_property
    def _prior_parts(self) -> tuple[Float, Float, Float, Float]:
        """Start of `prior`: mean, its scaled part, precision, and covariance (p, p) of weakly known parameters."""
        eq, at, sd = self.eq, self.at, self.sd
        mean, described_mean, std = np.zeros(self.count), np.zeros(self.count), np.ones(self.count)
        rms = eq.column_rms
        with np.errstate(divide="ignore"):
            whole = np.where(rms > 0, eq.torque_rms[:, None] / rms, np.inf)
        std[at["scale"]] = sd.gain
        std[at["common"]] = sd.common if self._by_description else HELD
        std[at["drift"]], std[at["lean"]] = sd.drift, sd.lean
        share = eq.friction_rms / eq.torque_rms
        friction = np.array([sd.friction * share[j] * whole[j, eq.changes[j]] for j in range(eq.n)])
        friction[:, LOAD_FRICTION] = sd.load_friction
        std[at["friction"]] = friction.ravel()
        position = np.array([sd.position * whole[j, eq.position[j]] for j in range(eq.n)])
        std[at["position"]] = position.ravel()
        std[at["rest"]] = np.repeat(sd.loose * eq.torque_rms, 2)
        std[at["load"]] = self.load_std
        if "weight" in at:
            std[at["weight"]] = self.load_std[:GRAVITY]
        precision = np.diag(1.0 / np.where(np.isfinite(std) & (std > 0), std, 1.0) ** 2)
        if self.scale is not None:
            mean[at["scale"]] = self.scale[0]
            precision[at["scale"], at["scale"]] = np.linalg.inv(self.scale[1])
        columns, base = eq.run.estimate.columns, eq.run.estimate.base
        influence = np.max(rms[:, : eq.p] / eq.torque_rms[:, None], axis=0)
        spread = parameter_spread(eq.run.robot, columns, np.where(influence > 0, influence, np.nan))
        if self._by_description:
            prior = np.zeros(eq.p)
            for ten, body, _ in self._scaling_links:
                prior[ten] = body
            described_mean[at["robot"]] = base.B @ prior
        return mean, described_mean, precision, np.diag((sd.loose * spread) ** 2)

    @property
    def _by_description(self) -> bool:
        return self.rule is ScaleRule.DESCRIPTION and self.view is not View.DIFFERENCE

    def prior_at(self, x: Float, described: float, factor: float) -> tuple[Float, Float, Float]:
        """Distance x - mean(x), its Jacobian (n_unknowns, n_unknowns), and precision."""
        mean, described_mean, precision = self.prior(described, factor)
        common = self.at["common"].start
        scaled = float(np.exp(-x[common])) * described_mean
        J = np.eye(self.count)
        J[:, common] += scaled
        return x - mean - scaled, J, precision

    def residual(self, x: Float, i: int) -> Float:
        """Residual y - X c of the triangle of a group."""
        R = self.groups[i].total.R
        return np.asarray(R[:, -1] - R[:, :-1] @ self.coefficients[i].values(x))

    def solve(self, x: Float, described: float, factor: float, weights: Float) -> tuple[Float, Float, float]:
        """Gauss-Newton steps from x with step halving; returns unknowns, information matrix and cost."""
        mean, described_mean, precision = self.prior(described, factor)
        common = self.at["common"].start

        def away(x: Float) -> Float:
            return np.asarray(x - mean - float(np.exp(-x[common])) * described_mean)

        def cost(x: Float) -> float:
            squares = [float(e @ e) for e in (self.residual(x, i) for i in range(len(self.groups)))]
            return float(away(x) @ precision @ away(x) + weights @ np.array(squares))

        best, A = cost(x), precision
        for _ in range(STEPS):
            J = np.eye(self.count)
            J[:, common] += float(np.exp(-x[common])) * described_mean
            A, g = J.T @ precision @ J, -J.T @ precision @ away(x)
            for i, (coefficients, weight) in enumerate(zip(self.coefficients, weights, strict=True)):
                X = self.groups[i].total.R[:, :-1] @ coefficients.slopes(x)
                A[np.ix_(coefficients.used, coefficients.used)] += weight * (X.T @ X)
                g[coefficients.used] += weight * (X.T @ self.residual(x, i))
            improved = lowered(cost, x, _solved(A, g), best)
            if improved is None:
                break
            gained = best - improved[1]
            x, best = improved
            if gained < SETTLED * best:
                break
        return x, A, best

    def mean_squares(self, x: Float) -> Float:
        """Mean square residual of each group; for few poses it includes friction at rest as a lower bound."""
        squares = np.ones(len(self.groups))
        for i, group in enumerate(self.groups):
            if not group.given:
                e = self.residual(x, i)
                square = float(e @ e) + 1e-24 * group.total.target_square + np.finfo(float).tiny
                known = float(self.eq.friction_rms[group.joint] ** 2) if group.poses else 0.0
                squares[i] = (square + known) / max(group.total.count, 1)
        return squares

    def correlation(self, x: Float, weights: Float, inverse: Float) -> Float:
        """Ratio of the variance of the blocks' scores to that of independent residuals, for each group."""
        ratios = np.ones(len(self.groups))
        for i, (group, weight) in enumerate(zip(self.groups, weights, strict=True)):
            if group.given:
                continue
            coefficients = self.coefficients[i]
            value, K = coefficients.values(x), coefficients.slopes(x) @ inverse[coefficients.used]
            X = group.total.R[:, :-1] @ K
            square = 0.0
            for factor in group.blocks:
                R = factor.R
                score = K.T @ (R[:, :-1].T @ (R[:, -1] - R[:, :-1] @ value))
                square += float(score @ score)
            ratios[i] = weight * square / max(float(np.sum(X**2)), np.finfo(float).tiny)
        return ratios

    def noise(self, x: Float, weights: Float, inverse: Float) -> Float:
        """Covariance of the unknowns from the residuals, by leaving out blocks; for the run's parameters, its own."""
        f = inverse.shape[1]
        H, s = np.zeros((self.blocks, f, f)), np.zeros((self.blocks, f))
        fixed = np.zeros((f, f))
        for group, coefficients, weight in zip(self.groups, self.coefficients, weights, strict=True):
            value, K = coefficients.values(x), coefficients.slopes(x) @ inverse[coefficients.used]
            if group.given:
                X = group.total.R[:, :-1] @ K
                fixed += X.T @ X
            for m, factor in enumerate(group.blocks, group.first):
                R = factor.R
                X = R[:, :-1] @ K
                H[m] += weight * X.T @ X
                s[m] += weight * X.T @ (R[:, -1] - R[:, :-1] @ value)
        scores = BlockScores(inverse, H, s, np.zeros(len(s), dtype=np.int64))
        D = scores.jackknifed()
        return scores.covariance(shrunk(D.T @ D, scores) + fixed)

    def relative(self, x: Float) -> float:
        """Relative torque error of the loaded motion."""
        loaded = [i for i, group in enumerate(self.groups) if group.loaded and not group.poses]
        missed = sum(float(e @ e) for e in (self.residual(x, i) for i in loaded))
        whole = sum(self.groups[i].total.target_square for i in loaded)
        return float(np.sqrt(missed / max(whole, 1e-300)))


def estimate_load(
    equations: LoadEquations,
    rule: ScaleRule,
    view: View = View.JOINT,
    nuisances: Nuisances | None = None,
    scale: tuple[Float, Float] | None = None,
) -> LoadEstimate:
    """Estimate the payload by maximum posterior density.

    Minimises sum_g ||y_g - X_g c_g(x)||^2 / (s_g^2 t_g) + (x - m)' P (x - m). s_g^2: mean square residual of joint and
    log. t_g >= 1: ratio of the variance of the blocks' scores to that of independent residuals, which balances data and
    prior. P: see Nuisances; with `DESCRIPTION`, each link of the robot file has a relative error, the one of DESCRIBED
    with the largest evidence, and all gains have a common factor.

    Parameters
    ----------
    equations : LoadEquations
        Equations with and without payload.
    rule : ScaleRule
        What fixes the torque scale.
    view : View
        Part of the data to use.
    nuisances : Nuisances, optional
        Standard deviations of the disturbances.
    scale : tuple of ndarray, optional
        Log scale (n_joints,) and covariance (n_joints, n_joints) if they are known.

    Returns
    -------
    LoadEstimate

    """
    problem = _Problem(equations, rule, view, nuisances or Nuisances(), scale)
    at, described, factor = problem.at, DESCRIBED[0], 1.0
    searches = rule is ScaleRule.DESCRIPTION and view is not View.DIFFERENCE
    x = np.zeros(problem.count)
    x[at["robot"]] = equations.run.estimate.value
    if scale is not None:
        x[at["scale"]] = scale[0]
    tau, weights = np.ones(len(problem.groups)), 1.0 / problem.mean_squares(x)
    A = np.eye(problem.count)
    for turn in range(ROUNDS):
        x, A, _ = problem.solve(x, described, factor, weights)
        if searches and turn >= ROUNDS - 3:
            described = max(DESCRIBED, key=lambda size: _evidence(problem, x, size, factor, weights))
        factor = float(np.exp(-x[at["common"]][0]))
        weights = 1.0 / (problem.mean_squares(x) * tau)
        if turn < ROUNDS - 1:
            tau = np.maximum(tau * problem.correlation(x, weights, _root(A)), 1.0)
            weights = 1.0 / (problem.mean_squares(x) * tau)
    inverse = _root(A)
    C = inverse @ inverse.T
    _, J, precision = problem.prior_at(x, described, factor)
    noise = problem.noise(x, weights, inverse)
    total = noise + C @ J.T @ precision @ J @ C
    by_scale = np.zeros_like(precision)
    for name in ("scale", "common", "robot") if searches else ("scale",):
        by_scale[at[name], at[name]] = precision[at[name], at[name]]
    pick = np.zeros((10, problem.count))
    pick[:, at["load"]] = np.eye(10)
    if "weight" in at:
        pick[:GRAVITY, at["weight"]] = np.eye(GRAVITY)
    gains = np.zeros((equations.n, problem.count))
    gains[:, at["scale"]], gains[:, at["common"]] = np.eye(equations.n), 1.0
    bare = x.copy()
    bare[at["load"]] = 0.0
    return LoadEstimate(
        view=view,
        parameters=pick @ x,
        covariance=pick @ total @ pick.T,
        noise=pick @ noise @ pick.T,
        by_scale=pick @ C @ J.T @ by_scale @ J @ C @ pick.T,
        log_scale=gains @ x,
        log_scale_covariance=gains @ total @ gains.T,
        described=described if searches else np.nan,
        relative=problem.relative(x),
        relative_without=problem.relative(bare),
        before=problem.load_std**2,
    )


def _evidence(problem: _Problem, x: Float, described: float, factor: float, weights: Float) -> float:
    # Laplace approximation of the log marginal likelihood.
    _, A, cost = problem.solve(x, described, factor, weights)
    robot_place = problem.at["robot"]
    precision = problem.prior(described, factor)[2]
    return float(
        0.5 * (np.linalg.slogdet(precision[robot_place, robot_place])[1] - cost - np.linalg.slogdet(A)[1])
    )


def _base_prior(eq: LoadEquations) -> _Group:
    estimate = eq.run.estimate
    values, vectors = np.linalg.eigh(estimate.covariance)
    root = (vectors / np.sqrt(np.maximum(values, ROUNDING * values[-1]))).T
    b = len(estimate.value)
    R = np.zeros((b + 1, b + 1))
    R[:b, :b], R[:b, b] = root, root @ estimate.value
    return _Group(-1, False, Factor(estimate.base.independent, R, b, np.zeros(b + 1), 0.0), given=True)


def lowered(cost: Callable[[Float], float], x: Float, step: Float, best: float) -> tuple[Float, float] | None:
    """First of the step and its halves that lowers the cost below `best`, with its cost; None if none does.

    The exponentials of gains overflow for a long step, so its cost may be infinite or nan.
    """
    length = 1.0
    while length > SHORTEST:
        with np.errstate(over="ignore", invalid="ignore"):
            now = cost(x + length * step)
        if now < best:
            return x + length * step, now
        length /= 2
    return None


def _solved(A: Float, g: Float) -> Float:
    d = 1.0 / np.sqrt(np.diag(A))
    scaled = A * np.outer(d, d) + ROUNDING * np.eye(len(A))
    return np.asarray(d * cho_solve(cho_factor(scaled), d * g))


def _root(A: Float) -> Float:
    # A^-1 = inverse inverse'.
    d = 1.0 / np.sqrt(np.diag(A))
    L = np.linalg.cholesky(A * np.outer(d, d) + ROUNDING * np.eye(len(A)))
    return np.asarray(d[:, None] * np.linalg.inv(L).T)


# The physically consistent payload closest to an estimate of its ten parameters.

# Radius of gyration of the small body used for unexcited directions, relative to the distance of its centre of mass.
SMALL = 0.3
# Weight of that body: 1 makes the masses of benchmarks/payload.py 2.6 % too small, 0.1 does not.
PULL = 0.1
# Smallest eigenvalue of the pseudo-inertia of the payload, kg m^2 and kg.
MARGIN = 1e-8
# Lower bound for eigenvalues of the correlation matrix relative to the largest, for a well-conditioned metric.
SHARPEST = 1e-7


def consistent_load(estimate: LoadEstimate) -> Float:
    """The physically consistent payload (10,) closest to an estimate in the metric of its covariance C.

    Minimises (pi - estimate)' C^-1 (pi - estimate) + PULL d(pi, small) with pseudo-inertia >= MARGIN. d is the entropic
    distance to a small body at the estimated centre of mass, which fixes values that the log does not determine.
    Raises SolverError if the solver does not return a verified answer.
    """
    estimated, C = estimate.parameters, estimate.covariance
    mass = float(max(estimated[0], np.sqrt(C[0, 0]), 1e-3))
    centre = estimated[1:4] / mass
    # Scaled by standard deviations, because the parameters have different units.
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
            whiten,
            whiten @ estimated,
            columns,
            [PhysicalBodies(MARGIN)],
            prior,
            spread,
            PULL,
            Distance.ENTROPIC,
        )
    except SolverError as error:
        raise SolverError(
            error.identifier,
            found=f"no physically consistent load near the estimate: {error.found}",
            expected=error.expected,
            do="check units and mapping of both logs, and record a longer motion with the load",
        ) from error
    return np.asarray(answer.parameters)
