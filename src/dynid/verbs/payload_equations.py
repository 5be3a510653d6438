"""The equations of a robot with and without a load: factors of both logs, at rest and in motion."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import UnfitDataError, UsageError
from dynid.base.records import dataclass
from dynid.factor.factor import Block, Factor, Factors
from dynid.identification.further_log import torque_factors
from dynid.log.read import Log
from dynid.robot.model import RobotModel
from dynid.run.result import Identification
from dynid.signals.samples import Samples
from dynid.terms.friction import WIDTH, direction
from dynid.terms.nominal import Nominal, NominalTerm
from dynid.terms.rigid_body import RigidBody
from dynid.terms.term import Column, Of, Terms
from dynid.verbs.poses import Standstill, find_poses

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
            poses = find_poses(self.loaded.of_robot(robot), Standstill())
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
