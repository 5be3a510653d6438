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
from dynid.run import Identification, refuse_floating
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

# Torque of a log that exported files must reproduce: without effects of the measurement, and separately effects that no
# file represents.


@dataclass(frozen=True, eq=False)
class LogPart:
    """Consecutive samples and their torques, (T, n).

    tau: measured torque without effects of the measurement.    predicted: the same torque, predicted by the run.
    apart: torque of effects of the robot that no exported file represents.
    """

    samples: Samples
    tau: Float
    predicted: Float
    apart: Float


def part_of(run: Identification, theta: Float, model: ExportModel, samples: Samples) -> LogPart:
    """Compute the torques of a batch of samples.

    Parameters
    ----------
    run : Identification
        The run.
    theta : ndarray, shape (n_parameters,)
        Parameters of the exported files.
    model : ExportModel
        The model of the exported files.
    samples : Samples
        The batch.

    Returns
    -------
    LogPart
        Samples and torques.

    """
    # A log determines only the sum of offset and spring preload; the model has it in the spring.
    of_log = _torque(
        run, theta, samples, lambda term, values: _is_of_log(term, values) and not _is_constant(term)
    )
    of_log += model.offset
    predicted = _torque(run, run.estimate.parameters, samples, lambda _, __: True)
    known = run.terms.known_torque(run.robot, samples)
    apart = _torque(run, theta, samples, partial(_is_in_no_file, run)) + known
    apart += mixed_torque(motors_of(model.mixed)[1], tuple(MotionBasis), samples.dq, samples.ddq)
    predicted += known - of_log
    tau = samples.tau - of_log
    if samples.measured is not None:
        tau = np.where(samples.measured, tau, predicted)
    return LogPart(samples, tau, predicted, apart)


def _torque(
    run: Identification, theta: Float, samples: Samples, which: Callable[[Term, Float], bool]
) -> Float:
    # Torque (T, n) of selected terms with parameters theta (p,).
    tau = np.zeros_like(samples.tau)
    for term, values in run.terms.with_values(run.robot, theta):
        if which(term, values):
            tau += torque_of(term, run.robot, seen_by(term, samples), values)
    return tau


def _is_of_log(term: Term, _: Float) -> bool:
    return term.traits.kind is Kind.LOG or _is_constant(term) or term.traits.scale is Scale.FREES


def _is_constant(term: Term) -> bool:
    return isinstance(term, JointTerm) and term.traits.basis is MotionBasis.ONE


def _is_in_no_file(run: Identification, term: Term, values: Float) -> bool:
    if _is_of_log(term, values):
        return False
    pieces = exported_parts(term, run.robot, values)
    return pieces is None or any(isinstance(piece, Lean) for piece in pieces)


def effects_apart(run: Identification, theta: Float, model: ExportModel) -> list[str]:
    """Names of effects that act on the robot but that no file represents.

    Parameters
    ----------
    run : Identification
        The run.
    theta : ndarray, shape (n_parameters,)
        Parameters of the exported files.
    model : ExportModel
        The model of the exported files.

    Returns
    -------
    list of str
        The names.

    """
    names = [
        term.name
        for term, values in run.terms.with_values(run.robot, theta)
        if _is_in_no_file(run, term, values)
    ]
    return [*names, *(part.term for part in motors_of(model.mixed)[1])]


def nan_where_unmeasured(parts: Sequence[LogPart], values: Float) -> Float:
    """Values (n,) with nan for joints without measured torque."""
    measured = parts[0].samples.measured
    return values if measured is None else np.where(measured, values, np.nan)


def relative_error(errors: Iterable[Float], sizes: Iterable[Float]) -> Float:
    """R.m.s. of errors over r.m.s. of sizes, (n,), from parts of (T, n) each."""
    total, whole = (sum((np.asarray(x) ** 2).sum(axis=0) for x in parts) for parts in (errors, sizes))
    return np.asarray(np.sqrt(np.asarray(total) / np.maximum(np.asarray(whole), np.finfo(np.float64).tiny)))


# Torque and motion of exported files in MuJoCo and in pinocchio, along the samples of a log.

# s: longest integration step; MuJoCo's dry friction needs it.
_STEP = 1e-3
# Elements of an MJCF file that do not affect a replay.
_NOT_REPLAYED = (
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
    """Inverse dynamics and driven motion in MuJoCo.

    Parameters
    ----------
    model : ExportModel
        The model.
    parts : sequence of LogPart
        The log.
    windows : sequence of tuple of int
        Part, first and last sample of each window of motion.
    file : Path or None
        MJCF file to use instead of the model.

    Returns
    -------
    torque : list of ndarray, shape (n_samples, n_joints)
        Inverse dynamics of each part.
    error : ndarray, shape (n_joints,)
        Relative error of the motion driven by the measured torque.

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
    # The log gives the torque, not the actuators of the file.
    theirs.opt.disableflags |= (
        int(flags.mjDSBL_CONTACT) | int(flags.mjDSBL_LIMIT) | int(flags.mjDSBL_ACTUATION)
    )
    driven = int(theirs.opt.disableflags)
    theirs.opt.disableflags = driven | int(flags.mjDSBL_CONSTRAINT)
    # MJCF orders joints depth first, so they are found by name.
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
        computed.append(tau + _dry_friction(model, s.dq) + part.apart)
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
    return computed, nan_where_unmeasured(parts, relative_error(off, moved))


def in_pinocchio(
    model: ExportModel, parts: Sequence[LogPart], windows: Sequence[tuple[int, int, int]], file: Path | None
) -> tuple[list[Float], None]:
    """Inverse dynamics in pinocchio.

    Parameters
    ----------
    model : ExportModel
        The model.
    parts : sequence of LogPart
        The log.
    windows : sequence of tuple of int
        Not used: pinocchio does not simulate motion.
    file : Path or None
        URDF file to use instead of the model.

    Returns
    -------
    torque : list of ndarray, shape (n_samples, n_joints)
        Inverse dynamics of each part.
    error : None
        No motion.

    """
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
        turning = mixed_torque(
            _motor_parts(model), (MotionBasis.ACCELERATION, MotionBasis.SPEED), s.dq, s.ddq
        )
        drives = model.rotor * s.ddq + model.viscous * s.dq + turning
        computed.append(
            tau + drives + _dry_friction(model, s.dq) + spring_torque(model.springs, s.q) + part.apart
        )
    return computed, None


def _order(mujoco: Any, theirs: Any, names: Sequence[str]) -> list[int]:
    written = unique([xml_name(name) or "joint" for name in names])
    return [mujoco.mj_name2id(theirs, mujoco.mjtObj.mjOBJ_JOINT, name) for name in written]


def _dry_friction(model: ExportModel, dq: Float) -> Float:
    # Dry friction of joints and of motors that move several, with the model's smoothed sign.
    signs = np.column_stack([smooth_sign(dq[:, j], float(w)) for j, w in enumerate(model.width)])
    return np.asarray(model.coulomb * signs + mixed_torque(_motor_parts(model), (MotionBasis.SIGN,), dq, dq))


def _motor_parts(model: ExportModel) -> list[Mixed]:
    left = {id(part) for part in motors_of(model.mixed)[1]}
    return [part for part in model.mixed if id(part) not in left]


def _without_shapes(text: bytes) -> str:
    # Shapes, contacts and sensors do not affect a replay, and meshes would be looked up next to the new file. A free
    # base is fixed where the file puts it.
    root = ElementTree.fromstring(text)  # noqa: S314  # bytes of our own
    for parent in list(root.iter()):
        for child in list(parent):
            free = child.tag == "freejoint" or (child.tag == "joint" and child.get("type") == "free")
            if child.tag in _NOT_REPLAYED or free:
                parent.remove(child)
    return ElementTree.tostring(root, encoding="unicode")


# s: long enough to reveal a wrong mass, short enough that the robot does not drift away under measured torque without
# feedback.
WINDOW = 0.25
# Maximum number of windows, spread evenly over the log: each costs simulation time.
_WINDOWS = 80


@dataclass(frozen=True, eq=False)
class TorqueReplayRow:
    """Errors of one program with one set of parameters, per joint.

    program: MuJoCo, pinocchio, or dynid for the model with all of its effects. description: "identified"; "identified,
    in your file", the robot's own URDF or MJCF edited in place; "identified, with ...", with the torque of effects
    that files cannot represent applied in addition; "as described", the robot file; "bodies as described, all else
    identified", since robot files often lack rotors and friction. torque: (n,) r.m.s. of measured minus computed
    torque over that of the measured torque, filtered as in scores. all_torque: the same over all joints. motion: (n,)
    the same for positions since the start of each window, over the measured displacement, when the measured torque
    drives the robot; None if the program simulates no motion. Both are nan for joints without measured torque, which
    the model drives. why: reason why it was not replayed, "" if it was.
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

    window: s, length of motion under measured torque.    windows: number of windows.
    lacking: effects of the identified model that no file represents.
    made_consistent: whether the files contain the nearest physically consistent links instead of the identified ones.
    """

    joint_names: tuple[str, ...]
    rows: tuple[TorqueReplayRow, ...]
    window: float
    windows: int
    lacking: tuple[str, ...] = ()
    made_consistent: bool = False

    @property
    def notes(self) -> tuple[str, ...]:
        """Differences between the files and the model, one sentence each."""
        notes = [f"Neither file can represent {', '.join(self.lacking)}."] if self.lacking else []
        if self.made_consistent:
            notes.append(
                "The identified links are not physically consistent; the files contain the nearest consistent ones."
            )
        return tuple(notes)

    def lines(self) -> list[str]:
        """A table of errors per joint, in percent."""
        wide = max(10, *(len(name) + 2 for name in self.joint_names))
        shown = [
            (f"{row.program}, {row.description}, {quantity}", values, total)
            for row in self.rows
            for quantity, values, total in (
                ("torque", row.torque, row.all_torque),
                ("motion", row.motion, None),
            )
            if values is not None
        ]
        head = max((len(name) for name, _, _ in shown), default=0)
        lines = [
            f"replay, error in %: torque by inverse dynamics; motion in {self.windows} windows of {self.window:g} s "
            "driven by the measured torque",
            f"{'':<{head}}{'all':>8}" + "".join(f"{name:>{wide}}" for name in self.joint_names),
        ]
        for name, values, total in shown:
            whole = "" if total is None else _percent(total)
            lines.append(f"{name:<{head}}{whole:>8}" + "".join(f"{_percent(x):>{wide}}" for x in values))
        lines += [f"{row.program}, {row.description}: {row.why}" for row in self.rows if row.why]
        return [*lines, *self.notes]

    def plain(self) -> dict[str, Any]:
        """Plain data, as stored in run folders."""
        rows = [
            {
                "program": row.program,
                "description": row.description,
                "why": row.why,
                "all_torque": row.all_torque,
            }
            | {
                name: None if x is None else [None if np.isnan(value) else value for value in x.tolist()]
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
    """Replay a log with the files that `export` writes, MJCF in MuJoCo and URDF in pinocchio, and with the robot file.

    The log is filtered as in the identification. Effects of the measurement (offsets, gains), which describe the log
    and not the robot, are subtracted from the measured torque first, for all rows alike. Rotors and springs, which
    URDF cannot represent, are added to pinocchio's torque. Dry friction has the model's smoothed sign in inverse
    dynamics, and MuJoCo's own law in its motion. Effects that no file represents, such as gas springs or coupled
    drives, are applied in rows of their own, as the torque that they have along the measured motion. If a program is
    not installed or rejects the model, its row says so.

    Parameters
    ----------
    run : Identification
        The run.
    log : Log
        The log.
    window : float, s
        Length of motion from a measured state.

    Returns
    -------
    TorqueReplay
        The errors.

    Raises
    ------
    UsageError
        If the window is not positive.
    UnfitDataError
        If the log has no window of usable samples.

    """
    if not (np.isfinite(window) and window > 0):
        raise UsageError("replay-window", found=f"a window of {window} s", expected="a time > 0")
    refuse_floating(run.robot, "a replay")
    settings: Any = run.preparation["settings"]
    prepared = prepare(log, replace(Preparation(**settings), rate=None), Diagnostics())
    batches, filtered = list(prepared), prepared.parallel_filter()
    consistent = consistent_parameters(run)
    theta = run.estimate.parameters if consistent is None else consistent[0]
    model = replace(ExportModel.of_terms(run.robot, run.terms, theta), peak=peak_speeds(run))
    whole = [part_of(run, theta, model, batch) for batch in batches]
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
    lacking += ["friction curves other than viscous and Coulomb friction"] * bool(model.curves)
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
    # applied: whether the torque of effects that files cannot represent is applied in addition.
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
    user_file: Path | None,
) -> list[TorqueReplayRow]:
    rows = []
    for label, program, suffix in (("MuJoCo", in_mujoco, ".xml"), ("pinocchio", in_pinocchio, ".urdf")):
        wanted = list(cases)
        if user_file is not None and user_file.suffix == suffix:
            wanted.insert(1, replace(cases[0], name="identified, in your file", file=user_file))
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
            except (ValueError, RuntimeError) as error:  # links or files that the program rejects
                rows.append(
                    TorqueReplayRow(
                        label, case.name, why=f"not replayed: {' '.join(str(error).split())[:200]}"
                    )
                )
    return rows


def _own_file(run: Identification, folder: Path) -> Path | None:
    """The robot's own URDF or MJCF edited in place, in a folder; None where it cannot be replayed.

    Locked joints have other positions in the file.
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
    """Part, first and last sample of windows of usable samples, at most _WINDOWS of them."""
    windows = []
    for i, part in enumerate(parts):
        length = max(2, round(window * part.samples.rate))
        start, keep = 0, part.samples.keep
        while start + length < len(keep):
            bad = np.flatnonzero(~keep[start : start + length + 1])
            if len(bad):
                start += int(bad[-1]) + 1
                continue
            windows.append((i, start, start + length))
            start += length
    if not windows:
        raise UnfitDataError(
            "no-window",
            found=f"no {window:g} s of consecutive usable samples",
            expected="a longer motion, or a shorter window",
        )
    return [windows[k] for k in np.unique(np.linspace(0, len(windows) - 1, _WINDOWS).round().astype(int))]


def _torque_error(
    parts: Sequence[LogPart], computed: Sequence[Float], filtered: ParallelFilter
) -> tuple[Float, float]:
    # Errors per joint and over all, low-passed and decimated as in scores.
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
    together = relative_error(
        [values.reshape(-1, 1) for values in errors], [values.reshape(-1, 1) for values in sizes]
    )
    return nan_where_unmeasured(parts, relative_error(errors, sizes)), float(together[0])


def _percent(share: float) -> str:
    # Without feedback a robot can leave its path by any factor.
    if np.isnan(share):
        return "-"
    return f"{100 * share:.3g}" if share < 10.0 else "> 1000"
