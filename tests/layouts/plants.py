"""Arms on an exciting motion, with effects that no model of a first look knows, and layouts to write their logs in."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dynid.base import Float
from dynid.kernel import inverse_dynamics
from dynid.layouts import Proposal
from dynid.layouts.presets import ChannelEntry, Preset, presets
from dynid.robot import Limits, RobotModel, load_example

UR_JOINTS = (
    "shoulder_pan_joint", "shoulder_lift_joint", "elbow_joint", "wrist_1_joint", "wrist_2_joint", "wrist_3_joint",
)  # fmt: skip
RATE, SECONDS = 100.0, 20.0
GAINS = np.array([12.0, 11.0, 10.0, 9.0, 8.0, 8.0, 7.0])


@dataclass(frozen=True, eq=False)
class Run:
    """A motion in SI units: t (T,), the rest (T, n); wanted: the positions that were commanded."""

    robot: RobotModel
    t: Float
    q: Float
    dq: Float
    tau: Float
    wanted: Float


@lru_cache(maxsize=8)
def arm(name: str, joints: tuple[str, ...]) -> RobotModel:
    """A UR5e or a seven-joint arm with masses, gears taken as 1, limits, and these names."""
    known = load_example("ur5e" if len(joints) == 6 else "arm7")
    n = known.n
    limits = Limits(
        np.full(n, -6.28), np.full(n, 6.28), np.full(n, 3.2), np.array([150.0] * (n - 3) + [28.0] * 3)
    )
    drive = replace(
        known.drive, transmission=np.eye(n), drive_gain=np.full(n, np.nan), torque_constant=np.full(n, np.nan)
    )
    return replace(known, name=name, joint_names=joints, tree_joint_names=joints, limits=limits, drive=drive)


@lru_cache(maxsize=8)
def run(name: str, joints: tuple[str, ...]) -> Run:
    """Half a minute of sines: friction with a Stribeck bump that grows with load, encoders of 16 bits, noise, lag."""
    robot = arm(name, joints)
    n, rng = robot.n, np.random.default_rng(len(joints))
    t = np.arange(0.0, SECONDS, 1 / RATE)
    q, dq, ddq = (np.zeros((len(t), n)) for _ in range(3))
    for f in (0.11, 0.23, 0.37):
        a, phase, w = rng.uniform(0.25, 0.6, n), rng.uniform(0, 6, n), 2 * np.pi * f
        q += a * np.sin(w * t[:, None] + phase)
        dq += w * a * np.cos(w * t[:, None] + phase)
        ddq -= w * w * a * np.sin(w * t[:, None] + phase)
    rigid = inverse_dynamics(robot.tree, robot.inertia_prior, q, dq, ddq)
    size = np.maximum(np.abs(rigid).max(axis=0), 1.0)
    friction = (
        np.tanh(dq / 0.03) * (0.05 * size + 0.06 * np.abs(rigid)) * (1 + 0.5 * np.exp(-((dq / 0.1) ** 2)))
    )
    tau = (
        rigid
        + friction
        + 0.03 * size * dq
        + 0.01 * size * np.sin(12 * q)
        + rng.normal(0, 0.01 * size, rigid.shape)
    )
    step = 2 * np.pi / 2**16
    late = int(0.02 * RATE)
    wanted = np.concatenate([q[late:], np.repeat(q[-1:], late, axis=0)])
    speed = dq + rng.normal(0, 0.01, dq.shape)
    return Run(robot, t, np.round(q / step) * step, speed, tau, wanted)


@dataclass(frozen=True, eq=False)
class Layout:
    """A log with what is true of it.

    columns: of the file.    truth: by channel the column of each joint.    units: by channel.
    """

    label: str
    robot: RobotModel
    columns: dict[str, Float]
    truth: dict[str, tuple[str, ...]]
    units: dict[str, str]
    presets: tuple[Path, ...] = field(default=())

    def write(self, path: Path) -> Path:
        pq.write_table(pa.table(self.columns), path)
        return path


PER_SI = {
    "s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9, "rad": 1.0, "deg": 180 / np.pi, "rad/s": 1.0, "deg/s": 180 / np.pi,
    "rpm": 30 / np.pi, "N m": 1.0, "mN m": 1e3, "A": 1.0, "mA": 1e3,
    "N m turned": 1.0, "rad at the motors": 1.0, "rad/s at the motors": 1.0,
}  # fmt: skip
Rename = Callable[[str], str]


def from_preset(preset: Preset, label: str, rename: Rename, shuffled: int, unknown: dict[str, str]) -> Layout:
    """A log as this recorder writes it, its names changed.    unknown: units that the preset leaves open."""
    seven = preset.name in ("libfranka", "franka-ros", "iiwa-fri", "kortex")
    word = preset.robots[0] if preset.robots else "arm"
    if preset.name.startswith("ur") or not seven:
        joints, word = UR_JOINTS, "ur10e" if preset.name.startswith("ur") else word
    else:
        joints = tuple(f"{word}_joint{k}" for k in range(1, 8))
    one = run(word, joints)
    columns: dict[str, Float] = {}
    truth: dict[str, tuple[str, ...]] = {}
    units: dict[str, str] = {}
    written: set[tuple[str, str]] = set()
    timed = [c for c in preset.channel if c.quantity == "time"]
    clock = timed[0].columns if timed else "time"
    units["time"] = timed[0].unit if timed and timed[0].unit in PER_SI else "s"
    columns[rename(clock) if not timed else clock] = one.t * PER_SI[units["time"]]
    truth["time"] = (next(iter(columns)),)
    # Arrays of joint states are in the order of their names, which is not the robot's.
    for entry in preset.channel:
        if entry.quantity in ("time", "trajectory", "other", "temperature", "acceleration") or entry.bag:
            continue
        if entry.actuator:
            continue  # of simulated robots, in test_actuators.py
        kind = "effort" if entry.quantity in ("torque", "current") else entry.quantity
        if (kind, entry.role) in written:
            continue  # another recorder's name for the same
        written.add((kind, entry.role))
        unit = entry.unit if entry.unit in PER_SI else unknown[entry.quantity]
        order = np.argsort(joints) if entry.unordered else np.arange(len(joints))
        names = [rename(_named(entry, joints[j], k)) for k, j in enumerate(order)]
        columns |= {name: _values(one, entry, unit)[:, j] for name, j in zip(names, order, strict=True)}
        if entry.role == "measured" and kind not in truth:
            truth[kind] = tuple(names[list(order).index(j)] for j in range(len(joints)))
            units[kind] = unit
    rng = np.random.default_rng(shuffled)
    listed = list(columns)
    if shuffled:
        columns |= {rename(f"tool_pose_{k}"): rng.normal(size=len(one.t)) for k in range(6)}
        columns["speed_scaling"] = np.ones(len(one.t))
        listed = [str(x) for x in rng.permutation(list(columns))]
    return Layout(label, one.robot, {name: columns[name] for name in listed}, truth, units)


def _named(entry: ChannelEntry, joint: str, k: int) -> str:
    return entry.columns.replace("{joint}", joint).replace("{number}", str(k + 1)).replace("{index}", str(k))


def _values(one: Run, entry: ChannelEntry, unit: str) -> Float:
    wanted = entry.role != "measured"
    if entry.quantity == "position":
        return (one.wanted if wanted else one.q) * PER_SI[unit]
    if entry.quantity == "velocity":
        return (np.gradient(one.wanted, 1 / RATE, axis=0) if wanted else one.dq) * PER_SI[unit]
    smooth = one.tau if not wanted else 0.9 * np.roll(one.tau, 3, axis=0)
    if entry.quantity == "current":
        return smooth / GAINS[: one.robot.n] * PER_SI[unit]
    return smooth * PER_SI[unit]


NOISE: dict[str, Rename] = {
    "plain": lambda name: name,
    "prefixed": lambda name: f"robot1/{name}",
    "upper": str.upper,
    "dotted": lambda name: re.sub(r"[_/]", ".", name.strip("/")),
    "blanks": lambda name: re.sub(r"[_/.]", " ", name).strip(),
    "typing": lambda name: (
        name.replace("actual", "actl").replace("measured", "measrd").replace("target", "trgt")
    ),
}


def layouts_of_presets() -> list[Layout]:
    """Every preset as it is, and in two other spellings among further columns."""
    unknown = {"position": "deg", "velocity": "deg/s", "torque": "N m", "current": "A"}
    noisy = [name for name in NOISE if name != "plain"]
    return [
        from_preset(
            preset, f"{preset.name}, {noise}", NOISE[noise], 0 if noise == "plain" else 7 + i, unknown
        )
        for i, preset in enumerate(presets())
        if any("{" in entry.columns for entry in preset.channel)  # a drive's own file names no joint
        for noise in ("plain", noisy[2 * i % len(noisy)], noisy[(2 * i + 1) % len(noisy)])
    ]


def mistakes(layout: Layout, found: Proposal) -> list[str]:
    """What the proposal says without a question and is wrong."""
    wrong = []
    asked = {one.key for one in found.open}
    pairs = {"time": ("log.time.column", "log.time.unit")}
    pairs |= {k: (f"log.{k}.columns", f"log.{k}.unit") for k in ("position", "velocity", "effort")}
    for channel, (where, unit) in pairs.items():
        shaky = bool(asked & {where, f"log.{channel}.which"}) or (channel != "time" and "log.order" in asked)
        said = found[where].value
        if (
            said is None
            or shaky
            or (channel != "time" and channel not in found.groups)
            or (channel == "velocity" and found[unit].value is None)
        ):
            continue
        names = (said,) if channel == "time" else tuple(found.groups[channel].columns.values())
        if names != layout.truth.get(channel):
            wrong.append(f"{channel}: {names[:3]} for {layout.truth.get(channel, ('none',))[:3]}")
        elif unit not in asked and found[unit].value not in (None, layout.units[channel]):
            wrong.append(f"{channel}: {found[unit].value} for {layout.units[channel]}")
    return wrong


def traps() -> list[Layout]:
    """Logs whose names say less than the truth, or something else."""
    return [make() for make in _TRAPS]


def _layout(
    label: str,
    one: Run,
    channels: dict[str, tuple[str, Float, str]],
    first: int = 1,
    order: Sequence[int] | None = None,
    clock: tuple[str, str] = ("t", "s"),
) -> Layout:
    """channels: by kind the name before the number, SI values and the unit written.    order: joint of column k."""
    at = list(range(one.robot.n)) if order is None else list(order)
    columns = {clock[0]: one.t * PER_SI[clock[1]]}
    truth, units = {"time": (clock[0],)}, {"time": clock[1]}
    for kind, (name, values, unit) in channels.items():
        names = [name.replace("#", str(k + first)) for k in range(len(at))]
        columns |= {names[k]: values[:, j] * PER_SI[unit] for k, j in enumerate(at)}
        if "_other" not in kind:
            truth[kind] = tuple(names[at.index(j)] for j in range(len(at)))
            units[kind] = unit
    return Layout(label, one.robot, columns, truth, units)


def _ur() -> Run:
    return run("ur10e", UR_JOINTS)


def _seven() -> Run:
    return run("arm", tuple(f"joint{k}" for k in range(1, 8)))


def _alphabetical() -> Layout:
    one = _ur()
    order = [int(k) for k in np.argsort(UR_JOINTS)]
    return _layout(
        "alphabetical",
        one,
        {"position": ("q#", one.q, "rad"), "effort": ("tau#", one.tau, "N m")},
        order=order,
    )


def _exchanged() -> Layout:
    one = _seven()
    both = {"position": ("q#", one.q, "rad"), "effort": ("tau#", one.tau, "N m")}
    return _layout("joints 2 and 4 exchanged", one, both, order=[0, 3, 2, 1, 4, 5, 6])


def _degrees() -> Layout:
    one = _seven()
    both = {
        "position": ("q#", one.q, "deg"),
        "velocity": ("dq#", one.dq, "deg/s"),
        "effort": ("tau#", one.tau, "N m"),
    }
    return _layout("degrees, not said", one, both)


def _mixed() -> Layout:
    one = _seven()
    both = {
        "position": ("q#", one.q, "deg"),
        "velocity": ("dq#", one.dq, "rad/s"),
        "effort": ("tau#", one.tau, "N m"),
    }
    return _layout("positions in deg, velocities in rad/s", one, both)


def _currents() -> Layout:
    one = _seven()
    both = {"position": ("position_#", one.q, "rad"), "effort": ("effort_#", one.tau / GAINS, "A")}
    return _layout("efforts that are currents", one, both, first=0)


def _called_torque() -> Layout:
    one = _seven()
    both = {"position": ("q#", one.q, "rad"), "effort": ("torque#", one.tau / GAINS, "A")}
    return _layout("currents that are called torques", one, both)


def _thousandths() -> Layout:
    one = _seven()
    both = {"position": ("q#", one.q, "rad"), "effort": ("torque#", one.tau, "mN m")}
    return _layout("thousandths of N m", one, both)


def _milliseconds() -> Layout:
    one = _seven()
    both = {
        "position": ("q#", one.q, "rad"),
        "velocity": ("qd#", one.dq, "rad/s"),
        "effort": ("tau#", one.tau, "N m"),
    }
    return _layout("a clock of ms", one, both, clock=("time", "ms"))


def _commands_alone() -> Layout:
    one = _seven()
    both = {"position_other": ("q_des#", one.wanted, "rad"), "effort_other": ("tau_cmd#", one.tau, "N m")}
    return _layout("commands alone", one, both)


def _unnamed_pair() -> Layout:
    one = _seven()
    both = {
        "position": ("q_a#", one.q, "rad"),
        "position_other": ("q_b#", one.wanted, "rad"),
        "effort": ("tau#", one.tau, "N m"),
    }
    return _layout("two positions that say nothing", one, both)


def _wrong_unit() -> Layout:
    one = _seven()
    made = _layout(
        "degrees that are called rad",
        one,
        {"position": ("q#_rad", one.q, "deg"), "effort": ("tau#", one.tau, "N m")},
    )
    return made


def _turned() -> Layout:
    one = _seven()
    tau = one.tau * np.array([1, -1, 1, 1, 1, 1, 1])
    return _layout(
        "one effort turned", one, {"position": ("q#", one.q, "rad"), "effort": ("tau#", tau, "N m turned")}
    )


def _fingers() -> Layout:
    one = _seven()
    both = {"position": ("q#", one.q, "rad"), "effort": ("tau#", one.tau, "N m")}
    made = _layout("two fingers more", one, both, first=0)
    more = {f"{name}{k}": np.zeros(len(one.t)) for name in ("q", "tau") for k in (7, 8)}
    return replace(made, columns=made.columns | more)


def _model_beside() -> Layout:
    one = _seven()
    both = {
        "position": ("q#", one.q, "rad"),
        "effort": ("tau#", one.tau, "N m"),
        "effort_other": ("tau_model#", one.tau, "N m"),
    }
    return _layout("a model beside the torque", one, both)


def _list_names() -> Layout:
    one = _seven()
    both = {"position": ("q[#]", one.q, "rad"), "effort": ("tau[#]", one.tau, "N m")}
    return _layout("brackets", one, both, first=0)


def _motors() -> Layout:
    one = _seven()
    both = {
        "position": ("q#", 100 * one.q, "rad at the motors"),
        "velocity": ("dq#", 100 * one.dq, "rad/s at the motors"),
        "effort": ("tau#", one.tau, "N m"),
    }
    return _layout("angles of motors behind gears of 100", one, both)


def _mixed_clocks() -> Layout:
    one = _seven()
    both = {
        "position": ("q#", one.q, "rad"),
        "velocity": ("qd#", one.dq, "deg/s"),
        "effort": ("tau#", one.tau, "N m"),
    }
    return _layout("a clock of us, velocities in deg/s", one, both, clock=("stamp", "us"))


def _gripper() -> Layout:
    one = _seven()
    both = {"position": ("q#", one.q, "rad"), "effort": ("tau#", one.tau, "N m")}
    made = _layout("a gripper that moves", one, both, first=0)
    more = {"q7": 0.02 * (1 + np.sin(one.t)), "tau7": np.cos(one.t)}
    return replace(made, columns=made.columns | more)


_TRAPS: tuple[Callable[[], Layout], ...] = (
    _alphabetical, _exchanged, _degrees, _mixed, _currents, _called_torque, _thousandths, _milliseconds, _motors,
    _mixed_clocks, _gripper, _commands_alone, _unnamed_pair, _wrong_unit, _turned, _fingers, _model_beside,
    _list_names,
)  # fmt: skip
