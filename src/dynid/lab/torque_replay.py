"""Measured torque and motion of a log, replayed by exported files in MuJoCo and in pinocchio."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from dynid.base import Diagnostics, DynidError, Float, UnfitDataError, UsageError, dataclass, listed, locked
from dynid.dynamics import Dynamics
from dynid.exporters import (
    ExportModel,
    beyond_joints,
    consistent_parameters,
    edited_source,
    export,
    motors_of,
    new_mjcf,
    new_urdf,
    peak_speeds,
    unique,
    xml_name,
)
from dynid.log import Log
from dynid.run import Identification
from dynid.signals import ParallelFilter, Preparation, Samples
from dynid.signals.prepare import prepare
from dynid.terms import (
    JointTerm,
    Kind,
    Lean,
    Mixed,
    MotionBasis,
    Scale,
    Term,
    mixed_torque,
    smooth_sign,
    spring_torque,
)
from dynid.terms.forms import exported_parts, seen_by, torque_of

# What of a log's torque exported files are to give: less what is of the measurement, apart what no file
# holds.


@dataclass(frozen=True, eq=False)
class LogPart:
    """Consecutive samples and their torques, (T, n).

    tau: measured, less what the model says of the measurement.    predicted: by the run, of the same.
    apart: of effects of the robot that no file holds.
    """

    samples: Samples
    tau: Float
    predicted: Float
    apart: Float


def part_of(run: Identification, theta: Float, model: ExportModel, samples: Samples) -> LogPart:
    """A batch of samples with its torques.    theta: parameters of the files' bodies.    model: what the files hold."""
    # A log tells the sum of an offset and of a spring's preload alone: the model has it in the spring.
    of_log = _torque(run, theta, samples, lambda term, own: _is_of_log(term, own) and not _is_constant(term))
    of_log += model.offset
    predicted = _torque(run, run.estimate.parameters, samples, lambda _, __: True)
    known = run.terms.known_torque(run.robot, samples)
    apart = _torque(run, theta, samples, partial(_is_apart, run)) + known
    apart += mixed_torque(motors_of(model.mixed)[1], tuple(MotionBasis), samples.dq, samples.ddq)
    predicted += known - of_log
    tau = samples.tau - of_log
    if samples.measured is not None:
        tau = np.where(samples.measured, tau, predicted)
    return LogPart(samples, tau, predicted, apart)


def _torque(
    run: Identification, theta: Float, samples: Samples, which: Callable[[Term, Float], bool]
) -> Float:
    # (T, n) of some terms with parameters theta (p,).
    tau = np.zeros_like(samples.tau)
    for term, own in run.terms.with_values(run.robot, theta):
        if which(term, own):
            tau += torque_of(term, run.robot, seen_by(term, samples), own)
    return tau


def _is_of_log(term: Term, _: Float) -> bool:
    return term.traits.kind is Kind.LOG or _is_constant(term) or term.traits.scale is Scale.FREES


def _is_constant(term: Term) -> bool:
    return isinstance(term, JointTerm) and term.traits.basis is MotionBasis.ONE


def _is_apart(run: Identification, term: Term, own: Float) -> bool:
    if _is_of_log(term, own):
        return False
    pieces = exported_parts(term, run.robot, own)
    return pieces is None or any(isinstance(piece, Lean) for piece in pieces)


def effects_apart(run: Identification, theta: Float, model: ExportModel) -> list[str]:
    """Names of the effects that no file holds, but that act on the robot."""
    found = [term.name for term, own in run.terms.with_values(run.robot, theta) if _is_apart(run, term, own)]
    return [*found, *(part.term for part in motors_of(model.mixed)[1])]


def of_measured(parts: Sequence[LogPart], values: Float) -> Float:
    """Values (n,) with nan for joints without a measured torque."""
    measured = parts[0].samples.measured
    return values if measured is None else np.where(measured, values, np.nan)


def relative_error(errors: Iterable[Float], sizes: Iterable[Float]) -> Float:
    """Root of the mean square of errors over that of sizes, (n,); parts of (T, n) each."""
    total, whole = (sum((np.asarray(x) ** 2).sum(axis=0) for x in parts) for parts in (errors, sizes))
    return np.asarray(np.sqrt(np.asarray(total) / np.maximum(np.asarray(whole), np.finfo(np.float64).tiny)))


# Torque and motion of exported files in MuJoCo and in pinocchio, along the samples of a log.

# Steps of integration, s, at most.
_STEP = 1e-3
# Elements of an MJCF that a replay does without.
_SEEN = (
    "geom",
    "asset",
    "contact",
    "sensor",
    "tendon",
    "keyframe",
    "actuator",
    "skin",
    "deformable",
    "site",
    "camera",
)


def in_mujoco(
    model: ExportModel, parts: Sequence[LogPart], windows: Sequence[tuple[int, int, int]], file: Path | None
) -> tuple[list[Float], Float]:
    """Torque (T, n) of each part by inverse dynamics, and the error (n,) of motion in windows under measured torque.

    windows: part, first and last sample.    file: MJCF in place of the model's own.
    """
    import mujoco

    text = (
        _without_shapes(file.read_bytes())
        if file is not None
        else new_mjcf(replace(model, robot=model.robot.with_servo(None))).decode()
    )
    theirs = mujoco.MjModel.from_xml_string(text)
    robot = model.robot
    data = mujoco.MjData(theirs)
    P = robot.projection
    flags = mujoco.mjtDisableBit
    # Torque comes from the log, not from the file's own actuators.
    theirs.opt.disableflags |= (
        int(flags.mjDSBL_CONTACT) | int(flags.mjDSBL_LIMIT) | int(flags.mjDSBL_ACTUATION)
    )
    driven = int(theirs.opt.disableflags)
    theirs.opt.disableflags = driven | int(flags.mjDSBL_CONSTRAINT)
    # Bodies are written depth first: joints stand where their names do.
    places = np.array([theirs.jnt_qposadr[j] for j in _order(mujoco, theirs, robot.tree_joint_names)])
    computed = []
    for part in parts:
        s = part.samples
        q, dq, ddq = robot.tree_motion(s.q, s.dq, s.ddq)
        tau = np.zeros_like(s.q)
        for k in range(len(s)):
            data.qpos[places], data.qvel[places], data.qacc[places] = q[k], dq[k], ddq[k]
            mujoco.mj_inverse(theirs, data)
            tau[k] = P.T @ data.qfrc_inverse[places]
        computed.append(tau + _dry(model, s.dq) + part.apart)
    theirs.opt.disableflags = driven
    off, moved = [], []
    for i, a, b in windows:
        s, tau = parts[i].samples, parts[i].tau - parts[i].apart
        count = max(1, round(1.0 / s.rate / _STEP))
        theirs.opt.timestep = 1.0 / s.rate / count
        mujoco.mj_resetData(theirs, data)
        q, dq, _ = robot.tree_motion(s.q[a : a + 1], s.dq[a : a + 1], s.ddq[a : a + 1])
        data.qpos[places], data.qvel[places] = q[0], dq[0]
        path = np.zeros((b - a, robot.n))
        for k in range(a, b):
            for m in range(count):
                share = (m + 0.5) / count
                data.qfrc_applied[places[robot.independent_bodies]] = (1.0 - share) * tau[k] + share * tau[
                    k + 1
                ]
                mujoco.mj_step(theirs, data)
            path[k - a] = data.qpos[places[robot.independent_bodies]]
        off.append(s.q[a + 1 : b + 1] - path)
        moved.append(s.q[a + 1 : b + 1] - s.q[a])
    return computed, of_measured(parts, relative_error(off, moved))


def in_pinocchio(
    model: ExportModel, parts: Sequence[LogPart], windows: Sequence[tuple[int, int, int]], file: Path | None
) -> tuple[list[Float], None]:
    """Torque (T, n) of each part by inverse dynamics; no motion.    file: URDF in place of the model's own."""
    import pinocchio as pin

    robot = model.robot
    theirs = pin.buildModelFromXML((file.read_bytes() if file is not None else new_urdf(model)).decode())
    theirs.gravity.linear = np.array(robot.gravity)
    data, P = theirs.createData(), robot.projection
    written = unique([xml_name(name) or "joint" for name in robot.tree_joint_names])
    joints = [theirs.joints[theirs.getJointId(name)] for name in written]
    computed = []
    full, v, a = np.zeros(theirs.nq), np.zeros(theirs.nv), np.zeros(theirs.nv)
    at = [joint.idx_v for joint in joints]
    for part in parts:
        s = part.samples
        q, dq, ddq = robot.tree_motion(s.q, s.dq, s.ddq)
        tau = np.zeros_like(s.q)
        for k in range(len(s)):
            for joint, x in zip(joints, q[k], strict=True):
                full[joint.idx_q : joint.idx_q + joint.nq] = x if joint.nq == 1 else (np.cos(x), np.sin(x))
            v[at], a[at] = dq[k], ddq[k]
            tau[k] = P.T @ pin.rnea(theirs, data, full, v, a)[at]
        turning = mixed_torque(_of_motors(model), (MotionBasis.ACCELERATION, MotionBasis.SPEED), s.dq, s.ddq)
        drives = model.rotor * s.ddq + model.viscous * s.dq + turning
        computed.append(tau + drives + _dry(model, s.dq) + spring_torque(model.springs, s.q) + part.apart)
    return computed, None


def _order(mujoco: Any, theirs: Any, names: Sequence[str]) -> list[int]:
    written = unique([xml_name(name) or "joint" for name in names])
    return [mujoco.mj_name2id(theirs, mujoco.mjtObj.mjOBJ_JOINT, name) for name in written]


def _dry(model: ExportModel, dq: Float) -> Float:
    # Of joints and of motors that move several, with the model's smoothed sign.
    signs = np.column_stack([smooth_sign(dq[:, j], float(w)) for j, w in enumerate(model.width)])
    return np.asarray(model.coulomb * signs + mixed_torque(_of_motors(model), (MotionBasis.SIGN,), dq, dq))


def _of_motors(model: ExportModel) -> list[Mixed]:
    left = {id(part) for part in motors_of(model.mixed)[1]}
    return [part for part in model.mixed if id(part) not in left]


def _without_shapes(text: bytes) -> str:
    # Of a file that dynid wrote: what is seen, touched or measured has no part in a replay, and its meshes would be
    # looked for beside the new file; a free base is held where the description puts it.
    root = ElementTree.fromstring(text)  # noqa: S314  # bytes of our own
    for parent in list(root.iter()):
        for child in list(parent):
            free = child.tag == "freejoint" or (child.tag == "joint" and child.get("type") == "free")
            if child.tag in _SEEN or free:
                parent.remove(child)
    return ElementTree.tostring(root, encoding="unicode")


# s: long enough for a wrong mass to show, short enough for the measured torque, without feedback, to hold the robot.
WINDOW = 0.25
# Windows over a log, evenly, at most.
_WINDOWS = 80


@dataclass(frozen=True, eq=False)
class TorqueReplayRow:
    """What one program makes of one description, by joint.

    program: MuJoCo, pinocchio, or dynid for the model with all of its effects.
    description: "identified"; "identified, in your file", the robot's own URDF or MJCF changed in place; "identified,
    with ...", what files cannot hold applied as a force beside; "as described", the robot's own; "bodies as described,
    all else identified", since descriptions often lack rotors and friction.
    torque: (n,) root of the mean square of measured less computed torque over that of the measured torque, filtered as
    in scores.    all_torque: the same of all joints together.
    motion: (n,) the same of position after each window's start, over that of the measured displacement from there, when
    the measured torque drives the robot; None where the program does not move it. Both nan for joints without a
    measured torque, which the model's own drives.
    why: what kept it from being replayed, "" for nothing.
    """

    program: str
    description: str
    torque: Float | None = None
    motion: Float | None = None
    why: str = ""
    all_torque: float | None = None

    def __post_init__(self) -> None:
        for name in ("torque", "motion"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, locked(getattr(self, name), (None,), name))


@dataclass(frozen=True, eq=False)
class TorqueReplay:
    """A log replayed by several programs.

    window: s, of motion under measured torque.    windows: their number.
    lacking: what the identified model has and neither file holds.
    made_consistent: whether the files hold the nearest physically consistent bodies in place of the run's own.
    """

    joint_names: tuple[str, ...]
    rows: tuple[TorqueReplayRow, ...]
    window: float
    windows: int
    lacking: tuple[str, ...] = ()
    made_consistent: bool = False

    @property
    def notes(self) -> tuple[str, ...]:
        """What keeps the files from being the model, a sentence each."""
        found = [f"Neither file holds {', '.join(self.lacking)}."] if self.lacking else []
        if self.made_consistent:
            found.append(
                "The run's own bodies are not physically consistent; the files hold the nearest ones that are."
            )
        return tuple(found)

    def lines(self) -> list[str]:
        """A table: errors by joint in percent."""
        wide = max(10, *(len(name) + 2 for name in self.joint_names))
        shown = [
            (f"{row.program}, {row.description}, {what}", values, total)
            for row in self.rows
            for what, values, total in (("torque", row.torque, row.all_torque), ("motion", row.motion, None))
            if values is not None
        ]
        head = max((len(name) for name, _, _ in shown), default=0)
        lines = [
            f"replayed: torque by inverse dynamics, and motion in {self.windows} windows of {self.window:g} s under "
            "measured torque, error in %",
            f"{'':<{head}}{'all':>8}" + "".join(f"{name:>{wide}}" for name in self.joint_names),
        ]
        for name, values, total in shown:
            whole = "" if total is None else _percent(total)
            lines.append(f"{name:<{head}}{whole:>8}" + "".join(f"{_percent(x):>{wide}}" for x in values))
        lines += [f"{row.program}, {row.description}: {row.why}" for row in self.rows if row.why]
        return [*lines, *self.notes]

    def plain(self) -> dict[str, Any]:
        """Plain data, as run folders keep it."""
        rows = [
            {
                "program": row.program,
                "description": row.description,
                "why": row.why,
                "all_torque": row.all_torque,
            }
            | {
                name: None if x is None else [None if np.isnan(one) else one for one in x.tolist()]
                for name, x in (("torque", row.torque), ("motion", row.motion))
            }
            for row in self.rows
        ]
        return {
            "of": "torque",
            "joints": list(self.joint_names),
            "window": self.window,
            "windows": self.windows,
            "rows": rows,
            "notes": list(self.notes),
        }

    def __repr__(self) -> str:
        return "\n".join(self.lines())


def replay_torque(run: Identification, log: Log, *, window: float = WINDOW) -> TorqueReplay:
    """Replays a log by the files that `export` writes: MJCF in MuJoCo, URDF in pinocchio, beside the description's own.

    The log is filtered as in the identification. Effects of the measurement (offsets, gains), which describe the log
    and not the robot, are taken off the measured torque first, for all rows alike. Rotors and
    springs, which URDF cannot hold, are added to pinocchio's torque; dry friction of inverse dynamics has the model's
    smoothed sign, that of motion in MuJoCo is its own. Whole effects that no file holds, as gas springs or coupled
    drives, stand in rows of their own, as the torque that they have along the measured motion. A program that is not
    installed, or does not take the model, is named in its row.
    window: s of motion from a measured state.

    Raises UsageError for a window that is not positive, UnfitDataError for a log without one.
    """
    if not (np.isfinite(window) and window > 0):
        raise UsageError("replay-window", found=f"a window of {window} s", expected="a time > 0")
    settings: Any = run.preparation["settings"]
    prepared = prepare(log, replace(Preparation(**settings), rate=None), Diagnostics())
    batches, filtered = list(prepared), prepared.parallel_filter()
    consistent = consistent_parameters(run)
    theta = run.estimate.parameters if consistent is None else consistent[0]
    model = replace(ExportModel.of_terms(run.robot, run.terms, theta), peak=peak_speeds(run))
    whole = [part_of(run, theta, model, one) for one in batches]
    starts = _windows(whole, window)
    names = tuple(dict.fromkeys(effects_apart(run, theta, model)))
    with_names = f"identified, with {listed(names)}" if names else ""
    cases = [_Case("identified", model)]
    if names:
        cases.append(_Case(with_names, model, applied=True))
    try:
        described = Dynamics.of_description(run.robot)
        bodies = replace(model, inertia=described.inertia)
        cases += [
            _Case("as described", described),
            _Case("bodies as described, all else identified", bodies, applied=bool(names)),
        ]
    except UsageError as error:
        cases.append(_Case("as described", None, why=f"not replayed: {error.found}"))
    torque, total = _torque_error(whole, [part.predicted for part in whole], filtered)
    rows = [TorqueReplayRow("dynid", "identified", torque, all_torque=total)]
    with tempfile.TemporaryDirectory(prefix="dynid-replay-") as folder:
        rows += _rows(cases, whole, starts, filtered, _own_file(run, Path(folder)))
    lacking = [*model.left_out, *beyond_joints(model, motors=True)]
    lacking += ["the shape of friction curves, but for the nearest viscous and Coulomb friction"] * bool(
        model.curves
    )
    return TorqueReplay(
        run.robot.joint_names,
        tuple(rows),
        window,
        len(starts),
        tuple(dict.fromkeys(lacking)),
        consistent is not None,
    )


@dataclass(frozen=True, eq=False)
class _Case:
    # applied: with the torque of what files cannot hold, as a force beside.
    name: str
    model: Dynamics | None
    why: str = ""
    file: Path | None = None
    applied: bool = False


def _rows(
    cases: Sequence[_Case],
    whole: Sequence[LogPart],
    starts: Sequence[tuple[int, int, int]],
    filtered: ParallelFilter,
    own: Path | None,
) -> list[TorqueReplayRow]:
    rows = []
    for label, program, suffix in (("MuJoCo", in_mujoco, ".xml"), ("pinocchio", in_pinocchio, ".urdf")):
        wanted = list(cases)
        if own is not None and own.suffix == suffix:
            wanted.insert(1, replace(cases[0], name="identified, in your file", file=own))
        for case in wanted:
            if case.model is None:
                rows.append(TorqueReplayRow(label, case.name, why=case.why))
                continue
            plain = _without_offset(case.model)
            parts = (
                whole if case.applied else [replace(part, apart=np.zeros_like(part.tau)) for part in whole]
            )
            try:
                computed, motion = program(plain, parts, starts, case.file)
                torque, total = _torque_error(whole, computed, filtered)
                rows.append(TorqueReplayRow(label, case.name, torque, motion, all_torque=total))
            except ImportError:
                rows.append(
                    TorqueReplayRow(label, case.name, why="not replayed: the program is not installed")
                )
            except (ValueError, RuntimeError) as error:  # bodies or files that it does not take
                rows.append(
                    TorqueReplayRow(
                        label, case.name, why=f"not replayed: {' '.join(str(error).split())[:200]}"
                    )
                )
    return rows


def _own_file(run: Identification, folder: Path) -> Path | None:
    """The robot's own URDF or MJCF changed in place, written into a folder; None where that cannot be replayed.

    Joints that are held stand elsewhere in the file.
    """
    if run.robot.locked:
        return None
    for kind, suffix in (("urdf", ".urdf"), ("mjcf", ".xml")):
        if edited_source(run.robot, None, kind) is not None:
            try:
                return export(run, folder / f"robot{suffix}", kind, diagnostics=Diagnostics()).files[0]
            except DynidError:
                return None  # as dynid export says
    return None


def _without_offset(model: Dynamics) -> ExportModel:
    fields = {name: getattr(model, name) for name in Dynamics.__dataclass_fields__}
    plain = ExportModel(**(fields | {"offset": np.zeros(model.robot.n)}))
    peak = getattr(model, "peak", None)
    return (plain if peak is None else replace(plain, peak=peak)).straightened(Diagnostics())


def _windows(parts: Sequence[LogPart], window: float) -> list[tuple[int, int, int]]:
    """Part, first and last sample of windows that count from end to end, at most _WINDOWS of them."""
    found = []
    for i, part in enumerate(parts):
        length = max(2, round(window * part.samples.rate))
        start, keep = 0, part.samples.keep
        while start + length < len(keep):
            bad = np.flatnonzero(~keep[start : start + length + 1])
            if len(bad):
                start += int(bad[-1]) + 1
                continue
            found.append((i, start, start + length))
            start += length
    if not found:
        raise UnfitDataError(
            "no-window", found=f"no {window:g} s of samples that count", expected="a longer stretch"
        )
    return [found[k] for k in np.unique(np.linspace(0, len(found) - 1, _WINDOWS).round().astype(int))]


def _torque_error(
    parts: Sequence[LogPart], computed: Sequence[Float], filtered: ParallelFilter
) -> tuple[Float, float]:
    # By joint and of all, low-passed and thinned as in scores, which both sides of the equation are.
    errors, sizes = [], []
    for part, tau in zip(parts, computed, strict=True):
        n, s = tau.shape[1], part.samples
        lines = np.ascontiguousarray(np.concatenate([(part.tau - tau).T, part.tau.T]))
        if s.measured is not None:
            lines[np.tile(~s.measured, 2)] = 0.0
        sound, _ = filtered.apply(lines, s.with_left_out)
        kept = s.keep[filtered.kept(s.with_left_out)]
        errors.append(sound[:n, kept].T)
        sizes.append(sound[n:, kept].T)
    together = relative_error([one.reshape(-1, 1) for one in errors], [one.reshape(-1, 1) for one in sizes])
    return of_measured(parts, relative_error(errors, sizes)), float(together[0])


def _percent(share: float) -> str:
    # A robot that falls away from its path is off by any factor.
    if np.isnan(share):
        return "-"
    return f"{100 * share:.3g}" if share < 10.0 else "> 1000"
