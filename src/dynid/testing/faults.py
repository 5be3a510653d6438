"""Logs of simulated robots with one known fault each, and whether an identification reports it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.diagnostics import Diagnostics, Finding
from dynid.base.errors import DynidError
from dynid.base.records import dataclass
from dynid.estimate.estimator import Estimator
from dynid.identification.pipeline import identify
from dynid.identification.settings import DEFAULT_TERMS, Settings, default_estimator
from dynid.kernel import gravity_torque
from dynid.log.own_columns import canonical_columns, write_log
from dynid.log.read import read_log
from dynid.robot.model import RobotModel
from dynid.simulation.motion import inverse, rigid_torque
from dynid.testing.machines import MACHINES, Machine, imprecise, loaded, tilted
from dynid.testing.plants import Recorded
from dynid.trajectories.trajectory import FourierTrajectory

__all__ = [
    "BY_NAME",
    "CLEAN",
    "FAULTS",
    "FURTHER",
    "Fault",
    "Recording",
    "delayed",
    "faulty_log",
    "kind",
    "outcome",
    "recorded",
    "reported",
    "scaled",
    "with_rows",
]

RATE, SECONDS, HARMONICS, FREQUENCY = 250.0, 24.0, 5, 0.1
NOISE, COUNTS = 0.005, 2.0**17
CLEAN = "clean"
LAG_SAMPLES = (6, 15)
CLIPPED = 0.05
TILT = (2.0, 5.0)
# Least share of a joint's torque that comes from links: friction alone has any scale.
LEAST_SHARE = 0.05


@dataclass(frozen=True, eq=False)
class Recording:
    """A log of a simulated robot: t of shape (T,), q, dq and tau of shape (T, n)."""

    robot: RobotModel
    t: Float
    q: Float
    dq: Float
    tau: Float


Log = TypeVar("Log", Recording, Recorded)


@dataclass(frozen=True)
class Fault:
    """A wrong input and the codes that report it.

    Parameters
    ----------
    name, severity : str
        In a table.
    words : tuple of str
        Identifiers of stops, doubts and warnings that name the fault.
    spoil : callable
        Changes a recording.
    rebuild : callable
        Changes the robot before it is recorded.
    described : tuple of float
        Range of the shares by which the model's masses are off.

    """

    name: str
    severity: str
    words: tuple[str, ...]
    spoil: Callable[[Recording, np.random.Generator], Recording] = lambda log, rng: log
    rebuild: Callable[[Machine, np.random.Generator], RobotModel] = lambda machine, rng: machine.robot
    described: tuple[float, float] = (0.2, 0.3)


def scaled(log: Log, factor: Float | Sequence[float] | float) -> Log:
    """The log with its torque times a factor, of all joints or of each."""
    return replace(log, tau=log.tau * np.asarray(factor))


def delayed(log: Log, samples: int) -> Log:
    """The log with its torque late by some samples."""
    return replace(log, tau=log.tau[np.maximum(np.arange(len(log.t)) - samples, 0)])


def with_rows(log: Log, keep: Bool) -> Log:
    """The log without some rows, its time continuous.    keep: (T,)."""
    return replace(log, t=log.t[: int(keep.sum())], q=log.q[keep], dq=log.dq[keep], tau=log.tau[keep])


def _at(n: int, joint: int, value: float) -> Float:
    return np.where(np.arange(n) == joint, value, 1.0)


def degrees(log: Recording, rng: np.random.Generator) -> Recording:
    """Angles in degrees and lengths in millimetres; half of the time velocities as well."""
    unit = np.where(log.robot.prismatic, 1000.0, 180.0 / np.pi)
    return replace(log, q=log.q * unit, dq=log.dq * (unit if rng.random() < 0.5 else 1.0))


def milliamperes(log: Recording, rng: np.random.Generator) -> Recording:
    """Motor current in mA of drives with 8 to 15 N m/A in place of torque."""
    return replace(log, tau=1000.0 * log.tau / rng.uniform(8.0, 15.0, log.robot.n))


def effort_sign(log: Recording, rng: np.random.Generator) -> Recording:
    """The torque of one joint with the wrong sign."""
    return scaled(log, _at(log.robot.n, int(rng.integers(log.robot.n)), -1.0))


def position_sign(log: Recording, rng: np.random.Generator) -> Recording:
    """Position and velocity of one joint with the wrong sign."""
    sign = _at(log.robot.n, int(rng.integers(log.robot.n)), -1.0)
    return replace(log, q=log.q * sign, dq=log.dq * sign)


def effort_order(log: Recording, rng: np.random.Generator) -> Recording:
    """Two torque columns exchanged."""
    return replace(log, tau=log.tau[:, _exchanged(log.robot.n, rng)])


def position_order(log: Recording, rng: np.random.Generator) -> Recording:
    """Two joints' positions and velocities exchanged."""
    order = _exchanged(log.robot.n, rng)
    return replace(log, q=log.q[:, order], dq=log.dq[:, order])


def lag(log: Recording, rng: np.random.Generator) -> Recording:
    """Torque 6 to 14 samples late."""
    return delayed(log, int(rng.integers(*LAG_SAMPLES)))


def clipping(log: Recording, rng: np.random.Generator) -> Recording:
    """The torque of one joint cut off where 5 % of the samples lie, on one side or on both."""
    tau, j = log.tau.copy(), int(rng.integers(log.robot.n))
    low, high = np.quantile(tau[:, j], [CLIPPED, 1.0 - CLIPPED])
    side = rng.integers(3)
    tau[:, j] = np.clip(tau[:, j], low if side != 0 else None, high if side != 1 else None)
    return replace(log, tau=tau)


def without_gravity(log: Recording, rng: np.random.Generator) -> Recording:
    """Torque less that of gravity."""
    return replace(log, tau=log.tau - gravity_torque(log.robot.tree, log.robot.inertia_prior, log.q))


def standstill(log: Recording, rng: np.random.Generator) -> Recording:
    """A robot at rest, its sensors working."""
    rest = 2e-5 * rng.normal(size=log.q.shape)
    tau = log.tau[0] + 0.01 * np.abs(log.tau).max(axis=0) * rng.normal(size=log.tau.shape)
    return replace(log, q=log.q[0] + rest, dq=5e-3 * rng.normal(size=log.q.shape), tau=tau)


def dead_encoder(log: Recording, rng: np.random.Generator) -> Recording:
    """An encoder that reports a constant."""
    q, dq, j = log.q.copy(), log.dq.copy(), int(rng.integers(log.robot.n))
    q[:, j], dq[:, j] = q[0, j], 0.0
    return replace(log, q=q, dq=dq)


def tilt(machine: Machine, rng: np.random.Generator) -> RobotModel:
    """A base tilted by 2 to 5 degrees."""
    return tilted(machine.robot, np.deg2rad(rng.uniform(*TILT)), rng.uniform(0, 2 * np.pi))


def payload(machine: Machine, rng: np.random.Generator) -> RobotModel:
    """A load near the robot's rated one."""
    return loaded(machine.robot, machine.payload, rng)


def twice(log: Recording, rng: np.random.Generator) -> Recording:
    """All torques twice as large, or half."""
    return scaled(log, 2.0 if rng.random() < 0.5 else 0.5)


def frozen(log: Recording, rng: np.random.Generator) -> Recording:
    """The torque of one joint constant for 8 % of the log."""
    tau, j = log.tau.copy(), int(rng.integers(log.robot.n))
    start = int(rng.integers(len(log.t) // 4, len(log.t) // 2))
    tau[start : start + len(log.t) // 12, j] = tau[start, j]
    return replace(log, tau=tau)


def coarse(log: Recording, rng: np.random.Generator) -> Recording:
    """The torque of one joint in 20 to 40 steps."""
    tau, j = log.tau.copy(), int(rng.integers(log.robot.n))
    step = np.ptp(tau[:, j]) / rng.integers(20, 40)
    tau[:, j] = np.round(tau[:, j] / step) * step
    return replace(log, tau=tau)


def rows_lost(log: Recording, rng: np.random.Generator) -> Recording:
    """Rows lost at four places, time numbered anew."""
    keep = np.ones(len(log.t), dtype=bool)
    for start in rng.integers(500, len(log.t) - 500, 4):
        keep[start : start + int(rng.integers(15, 60))] = False
    return with_rows(log, keep)


def long_lag(log: Recording, rng: np.random.Generator) -> Recording:
    """Torque 25 to 60 samples late."""
    return delayed(log, int(rng.integers(25, 60)))


def unsigned(log: Recording, rng: np.random.Generator) -> Recording:
    """The absolute value of all torques."""
    return replace(log, tau=np.abs(log.tau))


def clock(log: Recording, rng: np.random.Generator) -> Recording:
    """Time stamps that run 10 to 60 % too fast or too slowly."""
    factor = 1.0 + rng.uniform(0.1, 0.6)
    return replace(log, t=log.t * (factor if rng.random() < 0.5 else 1.0 / factor))


def milliseconds(log: Recording, rng: np.random.Generator) -> Recording:
    """Time in milliseconds."""
    return replace(log, t=1000.0 * log.t)


def last_sign(log: Recording, rng: np.random.Generator) -> Recording:
    """The torque of the last joint with the wrong sign."""
    return scaled(log, _at(log.robot.n, log.robot.n - 1, -1.0))


def gain(log: Recording, rng: np.random.Generator) -> Recording:
    """The torque of one joint halved, of those whose links make up some of it."""
    of_links = rigid_torque(log.robot, log.robot.inertia_prior, log.q, log.dq, np.zeros_like(log.q))
    candidates = np.flatnonzero(of_links.std(axis=0) > LEAST_SHARE * log.tau.std(axis=0))
    return scaled(log, _at(log.robot.n, int(rng.choice(candidates)), 0.5))


SIGN = ("torque-sign", "negative-friction", "negative-inertia", "velocity-sign", "position-sign")
ORDER = ("joint-order", "negative-inertia", "negative-friction")
FAULTS = (
    Fault("degrees", "57.3, mm: 1000", ("unit-suspicion", "joint-order"), degrees),
    Fault("mA", "1000 / (8..15)", ("unit-suspicion", "gear-ratio-side"), milliamperes),
    Fault("torque sign", "one joint", SIGN, effort_sign),
    Fault("position sign", "one joint", SIGN, position_sign),
    Fault("torque order", "two joints", ORDER, effort_order),
    Fault("position order", "two joints", ORDER, position_order),
    Fault("lag", "6..14 samples", ("torque-lag",), lag),
    Fault("clipping", "5 % of a joint", ("saturated", "saturation"), clipping),
    Fault("gravity-free", "whole", ("gravity-compensated",), without_gravity),
    Fault("standstill", "all joints", ("standstill",), standstill),
    Fault("dead encoder", "one joint", ("joint-at-rest", "standstill"), dead_encoder),
    Fault("payload", "near the rated one", ("payload",), rebuild=payload),
    Fault("tilted base", "2..5 degrees", ("tilted-base",), rebuild=tilt),
)
# Faults that need a chosen model, or are rarer.
FURTHER = (
    Fault("torque size", "x2 or x0.5", ("torque-scale", "unit-suspicion"), twice, described=(0.05, 0.15)),
    Fault("frozen torque", "8 % of a joint", ("constant-effort",), frozen),
    Fault("coarse torque", "20..40 steps", ("quantised-effort",), coarse),
    Fault("rows lost", "4 places", ("rows-lost",), rows_lost),
    Fault("long lag", "25..60 samples", ("torque-lag",), long_lag),
    Fault("unsigned", "all joints", ("unsigned-effort",), unsigned),
    Fault("wrong clock", "1.1..1.6", ("wrong-clock", "time-base"), clock),
    Fault("milliseconds", "1000", ("time-base", "rows-too-slow", "wrong-clock"), milliseconds),
    Fault("last sign", "last joint", SIGN, last_sign),
    Fault("gain", "x0.5 of a joint", ("drive-gain",), gain),
)
# The place in this list is part of a run's seed.
BY_NAME = {fault.name: fault for fault in (*FAULTS, Fault(CLEAN, "", ()), *FURTHER)}


def _exchanged(n: int, rng: np.random.Generator) -> list[int]:
    a, b = rng.choice(n, 2, replace=False)
    order = list(range(n))
    order[a], order[b] = order[b], order[a]
    return order


def recorded(robot: RobotModel, rng: np.random.Generator, seconds: float = SECONDS) -> Recording:
    """Measure a random motion within the limits: encoder steps, torque noise, friction sharper than the model's."""
    motion = FourierTrajectory.random(robot, seconds, HARMONICS, int(rng.integers(2**31)), FREQUENCY)
    t = np.arange(0.0, seconds, 1.0 / RATE)
    q, dq, ddq = motion.motion(t)
    friction = np.nan_to_num(robot.friction_prior)
    smooth = replace(robot, friction_prior=friction * [1.0, 0.0])
    theta = np.nan_to_num([column.prior for column in DEFAULT_TERMS.columns(smooth)])
    tau = inverse(robot, DEFAULT_TERMS, theta, q, dq, ddq)
    # Sharper than the model's step, and a little higher at low speed.
    tau += friction[:, 1] * np.tanh(dq / 5e-3) * (1.0 + 0.1 * np.exp(-np.abs(dq) / 0.1))
    peak = np.abs(tau).max(axis=0)
    tau += 0.02 * peak * rng.uniform(-1, 1, robot.n)
    step = np.where(robot.prismatic, 1e-5, 2 * np.pi / COUNTS)
    return Recording(
        robot,
        t,
        np.round(q / step) * step,
        dq + 2e-3 * rng.normal(size=q.shape),
        tau + NOISE * peak * rng.normal(size=q.shape),
    )


def faulty_log(
    machine: Machine, fault: Fault, seed: int, folder: Path, known: bool = True
) -> tuple[RobotModel, Path]:
    """Write a log with a fault.

    Parameters
    ----------
    machine : Machine
        The simulated robot.
    fault : Fault
        The fault, of `BY_NAME`.
    seed : int
        Draws motion, noise and the fault.
    folder : Path
        Where the log is written.
    known : bool
        Whether the model has inertias.

    Returns
    -------
    tuple of RobotModel and Path
        The robot's model and the log.

    """
    number = list(MACHINES).index(machine.name)
    rng = np.random.default_rng([seed, number, list(BY_NAME).index(fault.name)])
    described = imprecise(machine.robot, rng, fault.described)
    if not known:
        described = replace(described, inertia_prior=np.full_like(described.inertia_prior, np.nan))
    recording = fault.spoil(recorded(fault.rebuild(machine, rng), rng), rng)
    names = machine.robot.joint_names
    columns = canonical_columns(names, recording.q, dq=recording.dq, tau=recording.tau)
    return described, write_log(folder / "log.parquet", recording.t, columns)


def outcome(
    machine: Machine,
    fault: Fault,
    seed: int,
    known: bool = True,
    auto: bool = False,
    estimator: Estimator | None = None,
) -> dict[str, Any]:
    """Identify a log with a fault.

    Parameters
    ----------
    machine, fault, seed, known
        As in `faulty_log`.
    auto : bool
        Whether the model is chosen from the data.
    estimator : Estimator, optional
        In place of the default.

    Returns
    -------
    dict
        As of `reported`.

    """
    settings = Settings(automatic=auto, estimator=estimator or default_estimator())
    with tempfile.TemporaryDirectory() as folder:
        return reported(*faulty_log(machine, fault, seed, Path(folder), known), settings)


def reported(robot: RobotModel, path: Path, settings: Settings) -> dict[str, Any]:
    """Identify a log and list what is reported.

    Parameters
    ----------
    robot : RobotModel
        The robot's model.
    path : Path
        The log.
    settings : Settings
        Of the identification.

    Returns
    -------
    dict
        Identifier of the error, "stop", or None; identifiers of doubts, warnings and notes, "doubted", "warned" and
        "noted"; the verdict, "level"; the error's text, "text".

    """
    sink, stop, level, text = Diagnostics(), None, "", ""
    residual: Sequence[Finding] = ()
    try:
        result = identify(robot, read_log(path, robot), settings, diagnostics=sink, threads=1)
        level, residual = str(result.verdict.level), result.residual_findings
    except DynidError as error:
        stop, text = error.identifier, str(error)
    warned = list(sink.warnings)
    warned += [finding for finding in residual if finding.level == "warning"]
    return {
        "stop": stop,
        "doubted": _ids(sink.doubts),
        "warned": _ids(warned),
        "noted": _ids([item for item in sink if item.level == "note"]),
        "level": level,
        "text": text,
    }


def _ids(items: Sequence[Finding]) -> list[str]:
    return sorted({item.code for item in items})


def kind(result: Mapping[str, Any]) -> str:
    """Whether a fault was named, noticed or silent; whether a clean log was stopped, doubted, warned or passed."""
    fault = BY_NAME[result["fault"]]
    reported = {result["stop"], *result["doubted"], *result["warned"]} - {None}
    if fault.name == CLEAN:
        # The friction of clean logs is not quite the model's, so to report it is right.
        reported -= {"friction-form"}
        loud = "stopped" if result["stop"] else "doubted" if result["doubted"] else ""
        return loud or ("warned" if reported or result["level"] != "good" else "passed")
    if reported & set(fault.words):
        return "named"
    return "noticed" if reported or result["level"] not in ("good", "") else "silent"
