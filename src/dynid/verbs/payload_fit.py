"""One estimate of a load from statics and dynamics, with gains, friction, hoses and a lean of the base beside it."""

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

# What the unknowns of an estimate of a load make of the coefficients of one joint's equations.

# Coefficients in these columns are the unknowns at these places, in torque of which so many unknowns are logs.
Part = tuple[Int, Int, Sequence[int]]


@dataclass(frozen=True, eq=False)
class Coefficients:
    """c[row] = sum of x[place] exp(-sum of x[logs]) over entries, in torque of declared units.

    width: number of coefficients.    used: (m,) places of the unknowns that appear, ascending.
    row, place, column: (entries,) which coefficient, which unknown, and where it is in `used`.    part: (entries,)
    line of logs.    logs, log_columns: (parts, most) places of logs and where they are in `used`, filled up with one
    more than the unknowns, and with m.
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
        """Of equations with these columns (w,), and so many unknowns; what is in none of them is left out."""
        rows = {int(column): k for k, column in enumerate(columns)}
        entries = [
            (rows[column], place, k)
            for k, (own, places, _) in enumerate(parts)
            for column, place in zip(own.tolist(), places.tolist(), strict=True)
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
        """(w,) at unknowns (count,)."""
        return np.asarray(np.bincount(self.row, self._entries(x)[1], self.width), dtype=np.float64)

    def slopes(self, x: Float) -> Float:
        """(w, m) by the unknowns that appear."""
        size, values = self._entries(x)
        J = np.zeros((self.width, len(self.used) + 1))
        J[self.row, self.column] = size
        for column in self.log_columns.T:
            np.subtract.at(J, (self.row, column[self.part]), values)
        return J[:, :-1]


# The equations of a robot with and without a load: factors of both logs, at rest and in motion.

# Fewer blocks leave intervals without a meaning.
LEAST_BLOCKS = 3
# Standstills that two nuisances a joint leave something of.
LEAST_POSES = 6
CHANGES = ("fv", "fc", "fl", "fo")
# Of a smooth torque by the position of its joint, which a hose or a cable makes: a spring, and harmonics of a turn.
HARMONICS = (1, 2)
POSITION = ("spring", *(f"{wave}{k}" for k in HARMONICS for wave in ("sin", "cos")))
GRAVITY = 4


@dataclass(frozen=True)
class LoadedLog(NominalTerm):
    """What a loaded log has beside the run's model and the load's inertia, each effect linear in its parameters.

    By joint, changes of friction, fv dq + fc sign(dq) + fl |tau_rigid| sign(dq) + fo, and torque by the position,
    k q + sum_k (s_k sin(k q) + c_k cos(k q)), which both logs have. Of the base, a lean by small
    angles about two horizontal axes a, b: dG(a x g), dG(b x g). Of the load, the gravity of a mass and first moments
    that its accelerations do not have, (dm, dmcx, dmcy, dmcz): the weight apart from the inertia.
    inertia: ten numbers a body, of tau_rigid and G.
    Source of the friction by load: Bittencourt and Gunnarsson 2012.
    """

    inertia: tuple[float, ...] = ()
    drives: tuple[float, ...] = ()
    name: str = "loaded_log"
    of_log = True

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """4 n of friction, 5 n of the position, two of the lean, four of the weight."""
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
        """Torque of one unit each."""
        own = np.eye(robot.n)
        sign = direction(samples, WIDTH)
        still = np.zeros_like(samples.q)
        nominal = Nominal(self.inertia)
        carried = np.abs(nominal.rigid(robot, samples.q, samples.dq, samples.ddq))
        kinds = (samples.dq, sign, carried * sign, np.ones_like(sign))
        friction = [kind * own[j] for j in range(robot.n) for kind in kinds]
        turns = [wave(k * samples.q) for k in HARMONICS for wave in (np.sin, np.cos)]
        position = [kind * own[j] for j in range(robot.n) for kind in (samples.q, *turns)]
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
    """Columns of `LoadedLog` for n joints."""
    return (len(CHANGES) + len(POSITION)) * n + 2 + GRAVITY


def level_axes(gravity: Float) -> Float:
    """(2, 3) the axes of the base frame that lie most across gravity; a robot without weight has the first two."""
    across = np.linalg.norm(np.cross(np.eye(3), gravity), axis=1)
    return np.eye(3)[np.sort(np.argsort(-across, kind="stable")[:2])]


@dataclass(frozen=True, eq=False)
class LoadEquations:
    """Factors of the equations of the robot alone and with its load.

    Columns: the run's p parameters, then those of `LoadedLog`, then two a joint at rest: stiction by the side that a
    pose was reached from, and a constant torque.
    alone: of the log without the load, by joint.    moving, resting: of the loaded log; None without standstills.
    last: (10,) columns of the load's body.    bodies, friction: (p,) which parameters are of bodies, of friction.
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
        """Parameters of the run's model."""
        return len(self.bodies)

    @property
    def n(self) -> int:
        """Joints."""
        return self.run.robot.n

    @property
    def count(self) -> int:
        """All columns."""
        return self.p + own_columns(self.n) + 2 * self.n

    @property
    def changes(self) -> Int:
        """(n, 4) columns of friction, as in CHANGES."""
        return np.asarray(self.p + np.arange(4 * self.n).reshape(self.n, 4))

    @property
    def position(self) -> Int:
        """(n, 5) columns of torque by the position, as in POSITION."""
        first = self.p + len(CHANGES) * self.n
        return np.asarray(first + np.arange(len(POSITION) * self.n).reshape(self.n, len(POSITION)))

    @property
    def lean(self) -> Int:
        """(2,) columns of the lean."""
        return np.asarray(self.p + (len(CHANGES) + len(POSITION)) * self.n + np.arange(2))

    @property
    def weight(self) -> Int:
        """(4,) columns of the weight apart from the inertia."""
        return np.asarray(self.lean[-1] + 1 + np.arange(GRAVITY))

    @property
    def rest(self) -> Int:
        """(n, 2) columns of stiction and constant torque at rest."""
        return np.asarray(self.count - 2 * self.n + np.arange(2 * self.n).reshape(self.n, 2))

    @cached_property
    def torque_rms(self) -> Float:
        """(n,) of the loaded log."""
        return np.array([np.sqrt(f.target_square / max(f.count, 1)) for f in self.moving.total])

    @cached_property
    def column_rms(self) -> Float:
        """(n, count) of the loaded log's columns at each joint; 0 where it has none."""
        found = np.zeros((self.n, self.count))
        for j, f in enumerate(self.moving.total):
            found[j, f.columns] = np.linalg.norm(f.R[:, :-1], axis=0) / np.sqrt(max(f.count, 1))
        return found

    @cached_property
    def friction_rms(self) -> Float:
        """(n,) torque of the run's friction in the loaded log; at least a hundredth of all torque."""
        theta = np.zeros(self.count)
        theta[: self.p] = np.where(self.friction, self.run.estimate.full_vector, 0.0)
        sizes = [
            np.linalg.norm(f.R[:, :-1] @ theta[f.columns]) / np.sqrt(max(f.count, 1))
            for f in self.moving.total
        ]
        return np.asarray(np.maximum(sizes, 0.01 * self.torque_rms))


@dataclass(frozen=True, eq=False)
class LoadLogs:
    """A run, a log with its robot loaded, and the one without, from which equations are made.

    alone: None = the run's own factors, which know no lean and no friction by load.
    """

    run: Identification
    loaded: Log
    alone: Log | None
    diagnostics: Diagnostics
    threads: int

    def equations(self, load: Float) -> LoadEquations:
        """The equations, with lean and friction by load linearised about the run's bodies and a load (10,).

        Raises UsageError for a run without rigid bodies or whose rows are not by joint, UnfitDataError for a log that
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
        own = run.estimate.base.mask
        with_load = own.copy()
        with_load[last] = True
        every = np.ones(own_columns(robot.n), dtype=np.bool_)
        moving, _ = self._factors(self.loaded, carried, np.concatenate([with_load, every]))
        if len(moving.blocks) < LEAST_BLOCKS:
            raise UnfitDataError(
                "too-few-blocks",
                found=f"{len(moving.blocks)} block(s) of loaded data",
                expected=f"at least {LEAST_BLOCKS}, or intervals mean nothing",
                do="record a longer motion with the payload",
            )
        return LoadEquations(
            run,
            self._alone(inertia, own),
            moving,
            self._resting(carried, with_load & bodies),
            last,
            bodies,
            run.terms.friction_columns(robot),
        )

    def _factors(self, log: Log, inertia: Float, wanted: Bool) -> tuple[Factors, Terms]:
        terms = self.run.terms + LoadedLog(tuple(inertia.ravel().tolist()))
        return torque_factors(self.run, log, wanted, self.diagnostics, self.threads, terms), terms

    def _alone(self, inertia: Float, own: Bool) -> Factors:
        run = self.run
        if self.alone is not None:
            friction = np.array([kind == "fl" for kind in CHANGES] * run.robot.n)
            position = [True] * (len(POSITION) * run.robot.n)
            also = np.concatenate([friction, position, [True, True], [False] * GRAVITY])
            return self._factors(self.alone, inertia, np.concatenate([own, also]))[0]
        if run.factors.group_names != run.robot.joint_names:
            raise UsageError(
                "payload-rows",
                found=f"a run with the equations {', '.join(run.factors.group_names)}, and its log is not there",
                expected="equations by joint",
                do="give the log without the load, --without LOG",
            )
        return run.factors

    def _resting(self, inertia: Float, wanted: Bool) -> Factors | None:
        """Standstills as equations of gravity, each a block; None if they are too few or motors move several joints."""
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


# Gauss-Newton steps and the relative gain that ends them; rounds of weights about them.
STEPS, SETTLED, ROUNDS = 20, 1e-7, 7
# Errors of a description's inertias that are compared, relative; CAD leaves out cables, grease and tolerances.
DESCRIBED = (0.05, 0.1, 0.2)
# Eigenvalues of a correlation matrix below this are rounding.
ROUNDING = 1e-14
# Shortest step of the search along a Gauss-Newton direction.
SHORTEST = 1e-4
# Standard deviation of what is held.
HELD = 1e-6
# Share of the torque below which that of a parameter is rounding, in a load as large as makes all of it.
UNFELT = 1e-6
# Powers of length in the load's ten parameters.
DEGREES = np.array([0, 1, 1, 1, 2, 2, 2, 2, 2, 2])
LOAD_FRICTION = CHANGES.index("fl")


class ScaleRule(StrEnum):
    """What fixes the size of all torques, and with it that of the load's mass."""

    GAINS = "gains"
    DESCRIPTION = "description"


class View(StrEnum):
    """Which part of the evidence an estimate rests on.

    JOINT: motion of both logs and standstills.    DIFFERENCE: the loaded log beside the torque that the run predicts,
    at the scale of the joint fit.    STATICS: the weight alone, the torque of the load's accelerations being explained
    by ten parameters of their own.
    """

    JOINT = "joint fit"
    DIFFERENCE = "difference"
    STATICS = "statics"


@dataclass(frozen=True)
class Nuisances:
    """How far what is not estimated may be off, as standard deviations.

    gain: of a declared gain, relative: torque constants are known to a few per cent.
    common: of all gains together, relative, where the description fixes the scale.
    drift: of a gain between two logs, relative: magnets lose 0.1 % of their flux a kelvin.
    lean: rad; floors and tables are level to half a degree.
    friction: of a joint between two logs, in its own size: temperature alone makes so much.
    load_friction: share of the load's torque that is lost in the gear; 5 to 10 % in harmonic drives.
    position: torque by a joint's position, of each kind, in the joint's torque: hoses and cables make 1 to 2 %.
    loose: of what nothing is known of, in sizes of the whole torque.
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
    """The load's ten parameters before they are made consistent.

    covariance: (10, 10) = noise (of the residuals, by blocks) + by_scale (of what fixes the scale) + other nuisances.
    log_scale: (n,) log of true over declared torque, with log_scale_covariance (n, n).
    described: relative error of the description's inertias; nan where gains are the rule.
    relative, relative_without: torque error of the loaded log with the load and without it.
    before: (10,) variances of the parameters before the logs.
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
    """Equations of one joint in one log, its blocks counted from `first` on.

    held: a Gaussian of the run's base parameters in place of equations, of no joint.
    """

    joint: int
    loaded: bool
    total: Factor
    blocks: tuple[Factor, ...] = ()
    first: int = 0
    held: bool = False
    poses: bool = False


@dataclass(frozen=True, eq=False)
class _Problem:
    """The nonlinear least squares of a view.

    Unknowns: log gains (n), log of their common factor, base parameters in torque of that factor, load (10), drift of
    gains (n), friction (4 n), torque by position (5 n), lean (2), rest (2 n), and in the statics the weight (4), at
    the places `at`.
    scale: mean (n,) and covariance (n, n) of the log scale where it is known.
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
            self._take(_held(self.eq))
        else:
            self._add(self.eq.alone, loaded=False)
        self._add(self.eq.moving, loaded=True)
        if self.eq.resting is not None:
            self._add(self.eq.resting, loaded=True, poses=True)

    @property
    def count(self) -> int:
        """Unknowns."""
        return int(max(place.stop for place in self.at.values()))

    @property
    def blocks(self) -> int:
        """Blocks of all logs."""
        return max(group.first + len(group.blocks) for group in self.groups)

    def _add(self, factors: Factors, loaded: bool, poses: bool = False) -> None:
        first = max((group.first + len(group.blocks) for group in self.groups), default=0)
        for j, total in enumerate(factors.total):
            own = tuple(block.groups[j] for block in factors.blocks)
            self._take(_Group(j, loaded, total, own, first, poses=poses))

    def _take(self, group: _Group) -> None:
        self.groups.append(group)
        own = Coefficients.of(list(self._parts(group)), group.total.columns, self.count)
        self.coefficients.append(own)

    def _parts(self, group: _Group) -> Iterator[Part]:
        eq, at, j = self.eq, self.at, group.joint

        def of(name: str) -> Int:
            return np.arange(at[name].start, at[name].stop)

        own, robot = eq.run.estimate.base.independent, of("robot")
        if group.held:
            yield own, robot, ()
            return
        drift = [at["drift"].start + j] if group.loaded else []
        gain = [at["scale"].start + j, *drift]
        scaled = [*gain, at["common"].start]
        # The load alone is in true units: the robot is what the common factor makes of it, friction in declared torque.
        body = eq.bodies[own]
        yield own[~body], robot[~body], ()
        yield own[body], robot[body], drift if self.view is View.DIFFERENCE else gain
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
        """(10,) of the load's parameters before the data: `loose` sizes of what makes the whole torque.

        What no joint feels is as large as in the load M L^k that makes the whole torque at the typical length L.
        """
        eq = self.eq
        with np.errstate(divide="ignore"):
            whole = (eq.torque_rms[:, None] / eq.column_rms[:, eq.last]).min(axis=0)
        size = typical_length(eq.run.robot) ** DEGREES
        mass = float((whole / size).min())
        felt = whole * UNFELT < mass * size
        return np.asarray(self.sd.loose * np.where(felt, whole, mass * size))

    def prior(self, described: float, factor: float) -> tuple[Float, Float, Float]:
        """Mean (unknowns,), what of it goes with the common factor (unknowns,), and precision (unknowns, unknowns).

        described: relative error of the description's inertias; factor: declared over true torque, about.
        """
        mean, described_mean, precision, loose = self._loosely
        base, own, covariance = self.eq.run.estimate.base, self.at["robot"], loose.copy()
        for ten, _, relative in self._described:
            covariance[np.ix_(ten, ten)] = (described * factor) ** 2 * relative
        precision = precision.copy()
        precision[own, own] = np.linalg.inv(base.B @ covariance @ base.B.T)
        return mean, described_mean, precision

    @cached_property
    def _described(self) -> list[tuple[Int, Float, Float]]:
        """Bodies whose description scales the torque: columns (10,), parameters (10,), `relative_covariance`."""
        found: list[tuple[Int, Float, Float]] = []
        columns = self.eq.run.estimate.columns
        for ten in body_columns(columns) if self._by_description else ():
            body = np.array([columns[i].prior for i in ten])
            if is_described(body):
                # Inertias of exporters are often a little impossible: the mass is known all the same.
                body = nearest_possible(body, THINNEST)
                found.append((ten, body, relative_covariance(body)))
        return found

    @cached_property
    def _loosely(self) -> tuple[Float, Float, Float, Float]:
        """What `prior` starts from: mean, described mean, precision, and covariance (p, p) of what is loosely known."""
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
        own = np.array([sd.position * whole[j, eq.position[j]] for j in range(eq.n)])
        std[at["position"]] = own.ravel()
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
            for ten, body, _ in self._described:
                prior[ten] = body
            described_mean[at["robot"]] = base.B @ prior
        return mean, described_mean, precision, np.diag((sd.loose * spread) ** 2)

    @property
    def _by_description(self) -> bool:
        return self.rule is ScaleRule.DESCRIPTION and self.view is not View.DIFFERENCE

    def prior_at(self, x: Float, described: float, factor: float) -> tuple[Float, Float, Float]:
        """Distance x - mean(x), its Jacobian (unknowns, unknowns), and precision."""
        mean, described_mean, precision = self.prior(described, factor)
        common = self.at["common"].start
        scaled = float(np.exp(-x[common])) * described_mean
        J = np.eye(self.count)
        J[:, common] += scaled
        return x - mean - scaled, J, precision

    def residual(self, x: Float, i: int) -> Float:
        """Residual y - X c of a group's triangle."""
        R = self.groups[i].total.R
        return np.asarray(R[:, -1] - R[:, :-1] @ self.coefficients[i].values(x))

    def solve(self, x: Float, described: float, factor: float, weights: Float) -> tuple[Float, Float, float]:
        """Gauss-Newton from x with halved steps: unknowns, information, cost."""
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
            for i, (own, weight) in enumerate(zip(self.coefficients, weights, strict=True)):
                X = self.groups[i].total.R[:, :-1] @ own.slopes(x)
                A[np.ix_(own.used, own.used)] += weight * (X.T @ X)
                g[own.used] += weight * (X.T @ self.residual(x, i))
            found = lowered(cost, x, _solved(A, g), best)
            if found is None:
                break
            gained = best - found[1]
            x, best = found
            if gained < SETTLED * best:
                break
        return x, A, best

    def mean_squares(self, x: Float) -> Float:
        """(groups,) of the residuals; of a few poses, at least as sure as friction at rest allows."""
        found = np.ones(len(self.groups))
        for i, group in enumerate(self.groups):
            if not group.held:
                e = self.residual(x, i)
                square = float(e @ e) + 1e-24 * group.total.target_square + np.finfo(float).tiny
                known = float(self.eq.friction_rms[group.joint] ** 2) if group.poses else 0.0
                found[i] = (square + known) / max(group.total.count, 1)
        return found

    def correlation(self, x: Float, weights: Float, inverse: Float) -> Float:
        """(groups,) how much more the blocks' scores vary than those of independent residuals would."""
        found = np.ones(len(self.groups))
        for i, (group, weight) in enumerate(zip(self.groups, weights, strict=True)):
            if group.held:
                continue
            own = self.coefficients[i]
            value, K = own.values(x), own.slopes(x) @ inverse[own.used]
            X = group.total.R[:, :-1] @ K
            square = 0.0
            for factor in group.blocks:
                R = factor.R
                score = K.T @ (R[:, :-1].T @ (R[:, -1] - R[:, :-1] @ value))
                square += float(score @ score)
            found[i] = weight * square / max(float(np.sum(X**2)), np.finfo(float).tiny)
        return found

    def noise(self, x: Float, weights: Float, inverse: Float) -> Float:
        """Covariance of the unknowns that the residuals leave, by leaving out blocks; of the run's, by its own."""
        f = inverse.shape[1]
        H, s = np.zeros((self.blocks, f, f)), np.zeros((self.blocks, f))
        held = np.zeros((f, f))
        for group, own, weight in zip(self.groups, self.coefficients, weights, strict=True):
            value, K = own.values(x), own.slopes(x) @ inverse[own.used]
            if group.held:
                X = group.total.R[:, :-1] @ K
                held += X.T @ X
            for m, factor in enumerate(group.blocks, group.first):
                R = factor.R
                X = R[:, :-1] @ K
                H[m] += weight * X.T @ X
                s[m] += weight * X.T @ (R[:, -1] - R[:, :-1] @ value)
        scores = BlockScores(inverse, H, s, np.zeros(len(s), dtype=np.int64))
        D = scores.jackknifed()
        return scores.covariance(shrunk(D.T @ D, scores) + held)

    def relative(self, x: Float) -> float:
        """Error of the loaded motion's torque, of its size."""
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
    """The load by maximum posterior density, min sum_g ||y_g - X_g c_g(x)||^2 / (s_g^2 t_g) + (x - m)' P (x - m).

    s_g^2: mean square residual of joint and log, t_g >= 1: by how much more the blocks' scores vary than independent
    residuals' would, so that residuals and priors are weighed against each other as they deserve. P: see Nuisances;
    with `DESCRIPTION` each body of the description is taken to be off by a share of its size, that of DESCRIBED with
    the greatest evidence, and the gains by a common factor beside.
    scale: log scale (n,) and covariance (n, n) where they are known.
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
    # Laplace's approximation of the log marginal likelihood.
    _, A, cost = problem.solve(x, described, factor, weights)
    own = problem.at["robot"]
    precision = problem.prior(described, factor)[2]
    return float(0.5 * (np.linalg.slogdet(precision[own, own])[1] - cost - np.linalg.slogdet(A)[1]))


def _held(eq: LoadEquations) -> _Group:
    estimate = eq.run.estimate
    values, vectors = np.linalg.eigh(estimate.covariance)
    root = (vectors / np.sqrt(np.maximum(values, ROUNDING * values[-1]))).T
    b = len(estimate.value)
    R = np.zeros((b + 1, b + 1))
    R[:b, :b], R[:b, b] = root, root @ estimate.value
    return _Group(-1, False, Factor(estimate.base.independent, R, b, np.zeros(b + 1), 0.0), held=True)


def lowered(cost: Callable[[Float], float], x: Float, step: Float, best: float) -> tuple[Float, float] | None:
    """The first of the step and its halves that lowers the cost below `best`, and its cost; None if none does.

    A long step may leave what exponentials of gains can be: its cost is infinite, or no number at all.
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


# The physically consistent load nearest to an estimate of its ten parameters.

# Radius of gyration over the distance of the centre, of the body that unexcited directions are drawn to.
SMALL = 0.3
# How much that body weighs: at 1 masses of benchmarks/payload.py come out 2.6 % too small, at 0.1 not.
PULL = 0.1
# Least eigenvalue of the load's pseudo-inertia, kg m^2 and kg.
MARGIN = 1e-8
# Directions of the covariance that are determined so much better than the worst count no more than this.
SHARPEST = 1e-7


def consistent_load(estimate: LoadEstimate) -> Float:
    """The consistent body (10,) nearest to an estimate in the metric of its covariance.

    min (pi - found)' C^-1 (pi - found) + PULL d(pi, small), pseudo-inertia >= MARGIN; d: the entropic distance to a
    small body at the found centre, which decides what the log says nothing of.
    Raises SolverError if the solver gives no checked answer.
    """
    found, C = estimate.parameters, estimate.covariance
    mass = float(max(found[0], np.sqrt(C[0, 0]), 1e-3))
    centre = found[1:4] / mass
    # A column's size keeps units apart.
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
            whiten, whiten @ found, columns, [PhysicalBodies(MARGIN)], prior, spread, PULL, Distance.ENTROPIC
        )
    except SolverError as error:
        raise SolverError(
            error.identifier,
            found=f"no consistent load near the fit's: {error.found}",
            expected=error.expected,
            do="check units and mapping of both logs, and record a longer motion with the load",
        ) from error
    return np.asarray(answer.parameters)
