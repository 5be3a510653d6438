"""Formats of exported files: what each can represent, what it omits, and a check of each file by reading it back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import RefusedError, SolverError, UsageError
from dynid.base.records import dataclass
from dynid.dynamics.observer import Thresholds
from dynid.exporters.c_code import write_c
from dynid.exporters.expression import motors_of, on_one_branch
from dynid.exporters.isaaclab import isaaclab_config
from dynid.exporters.mjcf import NotEditable, edit_mjcf, new_mjcf, samples_npz, with_cranks, with_mjx_options
from dynid.exporters.model import (
    ExportModel,
    beyond_joints,
    beyond_robot_file,
    exportable_springs,
    note_left_out,
)
from dynid.exporters.sdf import new_sdf, parameters_of
from dynid.exporters.tables import actuators_json, model_json, table
from dynid.exporters.urdf import edit_urdf, new_urdf, unlocked, with_same_base
from dynid.exporters.xml_edit import Placed, place_mjcf, place_urdf
from dynid.factor.base import random_states
from dynid.kernel import inverse_dynamics
from dynid.log.mapping import PERCENT, LogSection, calibration_json, channel_map, motor_of, moved
from dynid.robot.formats import read_robot_file
from dynid.robot.load import lock_joints
from dynid.robot.mjcf import read_mjcf, refused_by_mujoco
from dynid.robot.model import RobotModel
from dynid.robot.options import Reading
from dynid.robot.urdf import read_urdf
from dynid.robot.xml import parse
from dynid.terms.exports import spring_torque
from dynid.terms.spring import described_springs
from dynid.terms.term import Terms

# Largest change of torque after reading a file back, relative to the largest torque.
_AGREE = 1e-10


@dataclass(frozen=True)
class Request:
    """What to export, in which format, and where to report."""

    robot: RobotModel
    terms: Terms
    peak: Float
    kind: str
    source: Path | None
    reading: Reading
    allow_unphysical: bool
    diagnostics: Diagnostics
    thresholds: Thresholds | None = None
    log: LogSection | None = None  # mapping of the log behind the model
    in_mujoco: bool = True  # whether MuJoCo must load the file, shapes included
    reach: Float | None = None  # (n, 2) lowest and highest positions in the log, None = unknown
    members: Float | None = None  # (n_models, n_parameters) ensemble whose spread the file contains


def files_of(request: Request, target: Path, theta: Float) -> dict[Path, bytes]:
    """Write one model in memory, and read it back where the format can be read.

    `request`: robot, terms and format; `target`: path of the main file; `theta` (n_parameters,). Result: the files.
    """
    if request.kind == "json":
        return {target: model_json(request.robot, request.terms, theta)}
    model = replace(ExportModel.of_terms(request.robot, request.terms, theta), peak=request.peak)
    if request.reach is not None:
        model = replace(model, reach=request.reach)
    return dict(_WRITERS[request.kind](request, model, target))


def _urdf(request: Request, model: ExportModel, target: Path) -> Mapping[Path, bytes]:
    model = model.straightened(request.diagnostics)
    note_left_out(model, "URDF", beyond_robot_file(model, rotor=True), request.diagnostics)
    if not np.allclose(model.robot.gravity, (0.0, 0.0, -9.81), atol=1e-12):
        gravity = ", ".join(f"{g:g}" for g in model.robot.gravity)
        request.diagnostics.warn(
            "urdf-gravity",
            f"URDF cannot store gravity: set ({gravity}) m/s^2 in the program that loads the file",
        )
    if request.source is None:
        data = new_urdf(model)
    else:
        whole, notes = _with_locked_joints(request, model, request.source)
        data, further = edit_urdf(whole, request.source, request.reading)
        _warn_shared((*notes, *further), request.diagnostics)
        placed = place_urdf(data, request.source, target)
        _note_absent(placed, target, request.diagnostics)
        data = placed.data
    if _physical(request, model.unphysical()):
        again = read_urdf(parse(data, str(target)), target, request.reading, Diagnostics())
        _require_same(model, _with_same_locks(again, model.robot), target)
    return {target: data}


def _mjcf(request: Request, model: ExportModel, target: Path) -> Mapping[Path, bytes]:
    model = model.straightened(request.diagnostics)
    motors = motors_of(model.mixed)[0]
    apart = any(motor.inertia and not on_one_branch(model.robot, motor.weights) for motor in motors)
    further = ["the inertia of motors that move joints of two branches"] if apart else []
    springs = exportable_springs(model, several=True)
    tree, cranks = with_cranks(model)
    note_left_out(
        tree, "MJCF", [*beyond_robot_file(tree, rotor=False), *further], request.diagnostics, springs
    )
    source = request.source
    physical = _physical(request, model.unphysical())
    try:
        if source is not None and cranks:
            raise NotEditable("motors behind bars or rods have cranks of their own")
        if source is not None and model.robot.floats:
            raise NotEditable("its base floats")
        if source is not None and motors:
            raise NotEditable("motors that move several joints need tendons")
        if source is None:
            data = new_mjcf(model)
        else:
            whole, notes = _with_locked_joints(request, model, source)
            data, shared = edit_mjcf(whole, source, request.reading)
            data = _accepted_by_mujoco(request, data, source, target, physical and request.in_mujoco)
            _warn_shared((*notes, *shared), request.diagnostics)
    except NotEditable as reason:
        request.diagnostics.warn(
            "mjcf-new", f"'{source}' cannot be edited in place ({reason}): the model is written as a new file"
        )
        data, source = new_mjcf(model), None
    if physical:
        reading = request.reading if source is not None else Reading()
        again = read_mjcf(parse(data, str(target)), target, reading, Diagnostics())
        again = again if source is None else _with_same_locks(again, model.robot)
        again = with_same_base(again, model.robot)
        _require_same(model, again, target)
        _require_same_springs(model, again, target)
    return {target: data}


def _playground(request: Request, model: ExportModel, target: Path) -> Mapping[Path, bytes]:
    data, refused = with_mjx_options(_mjcf(request, model, target)[target], target)
    if refused:
        request.diagnostics.warn(
            "mjx-unsupported", f"MJX refuses what '{target.name}' contains: {', '.join(refused)}"
        )
    return {target: data}


def samples_of(request: Request, target: Path, thetas: Float) -> bytes:
    """Write many models in one NumPy archive, for a compiled MJCF.

    `request`: robot and terms; `thetas` (n_models, n_parameters).
    """
    request = replace(request, diagnostics=Diagnostics(), kind="mjcf", in_mujoco=False)
    models = [files_of(request, target, theta)[target] for theta in thetas]
    reading = request.reading if request.source is not None else Reading()
    return samples_npz(models, request.source or target, reading, request.diagnostics)


def _with_locked_joints(
    request: Request, model: ExportModel, source: Path
) -> tuple[ExportModel, tuple[str, ...]]:
    # The file has joints that the run locked: their links keep the file's parameters.
    if not model.robot.locked:
        return model, ()
    described = with_same_base(read_robot_file(source, request.reading, Diagnostics()), model.robot)
    locked_joints = {
        name: value for name, value in model.robot.locked.items() if name in described.joint_names
    }
    return unlocked(model, described, lock_joints(described, locked_joints)) if locked_joints else (model, ())


def _with_same_locks(again: RobotModel, robot: RobotModel) -> RobotModel:
    locked_joints = {name: value for name, value in robot.locked.items() if name in again.joint_names}
    again = lock_joints(again, locked_joints).robot if locked_joints else again
    return with_same_base(again, robot)


def _sdf(request: Request, model: ExportModel, target: Path) -> Mapping[Path, bytes]:
    model = model.straightened(request.diagnostics)
    springs = exportable_springs(model, several=False)
    note_left_out(model, "SDF", beyond_robot_file(model, rotor=True), request.diagnostics, springs)
    data = new_sdf(model)
    if _physical(request, model.unphysical()):
        inertia, frames = parameters_of(data)
        _require_same(model, replace(model.robot, inertia_prior=inertia, T_parent_joint=frames), target)
    return {target: data}


def _warn_shared(notes: Sequence[str], diagnostics: Diagnostics) -> None:
    for note in notes:
        diagnostics.warn("export-shared", note)


def _note_absent(placed: Placed, target: Path, diagnostics: Diagnostics) -> None:
    if not placed.absent:
        return
    more = len(placed.absent) - 1
    named = f"'{placed.absent[0][:80]}'" + (f" and {more} more" if more else "")
    kept = f"their {placed.dropped} shapes stand in comments" if placed.dropped else "the references are kept"
    diagnostics.warn(
        "absent-shapes",
        f"mesh or texture files do not exist ({named}): in '{target.name}' {kept}; inertias and joints are complete",
    )


def _accepted_by_mujoco(request: Request, data: bytes, source: Path, target: Path, checked: bool) -> bytes:
    # MuJoCo reads the shapes too: if it rejects the file because of them, the file is written without them.
    placed = place_mjcf(data, source, target)
    refusal = refused_by_mujoco(placed.data.decode(), target.resolve().parent) if checked else ""
    if not refusal:
        _note_absent(placed, target, request.diagnostics)
        return placed.data
    placed = place_mjcf(data, source, target, shapes=False)
    if refused_by_mujoco(placed.data.decode(), target.resolve().parent):
        raise NotEditable(f"MuJoCo rejects it: {refusal}")
    request.diagnostics.warn(
        "absent-shapes",
        f"MuJoCo rejects a shape ({refusal[:160]}): in '{target.name}' the {placed.dropped} shapes loaded from "
        "files stand in comments; inertias and joints are complete",
    )
    return placed.data


def _actuators(request: Request, model: ExportModel, target: Path) -> Mapping[Path, bytes]:
    model = model.straightened(request.diagnostics)
    note_left_out(model, "a file of actuators", beyond_joints(model), request.diagnostics)
    return {target: actuators_json(model)}


def _isaaclab(request: Request, model: ExportModel, target: Path) -> Mapping[Path, bytes]:
    # The configuration contains rotors, friction and gains, so what the URDF alone lacks is not lost.
    notes = Diagnostics()
    beside = target.with_suffix(".urdf")
    files = _urdf(replace(request, diagnostics=notes), model, beside)
    for note in notes:
        if note.code != "export-left-out":
            request.diagnostics.warn(note.code, note.text, note.place)
    model = model.straightened(Diagnostics())
    lost = [*model.left_out, *beyond_joints(model), *(["springs of joints"] if model.springs else [])]
    note_left_out(model, "Isaac Lab's configuration", beyond_joints(model), request.diagnostics)
    members = [
        replace(ExportModel.of_terms(request.robot, request.terms, theta), peak=request.peak).straightened(
            Diagnostics()
        )
        for theta in (request.members if request.members is not None else ())
    ]
    return {target: isaaclab_config(model, beside.name, lost, members), **files}


def _lerobot(request: Request, model: ExportModel, target: Path) -> Mapping[Path, bytes]:
    position = request.log.position if request.log is not None else None
    if request.log is None or position is None or not isinstance(position.calibration, dict):
        raise UsageError(
            "no-calibration",
            found="a run whose log has no motor calibration",
            expected="an experiment that names the file of lerobot-calibrate",
            do='add calibration = "FILE.json" to position under [log] and identify again, or choose another format',
        )
    robot, motors = request.robot, position.calibration
    angles: dict[str, float] = {}
    for joint, channel in channel_map(request.log, robot).position.items():
        motor = motor_of(channel.column, joint, motors)
        zero = float(model.zeros[robot.joint_names.index(joint)])
        if motor is not None and zero:
            backwards = bool(motors[motor].drive_mode) and position.unit == PERCENT
            angles[motor] = zero * position.sign.get(joint, 1) * (-1 if backwards else 1)
    again, left = moved(motors, angles)
    for name in left:
        request.diagnostics.warn(
            "calibration-turn",
            f"motor '{name}': a shift by {np.degrees(angles[name]):.2f} deg would leave one turn of its encoder, "
            "so its calibration is unchanged",
        )
    if not angles:
        request.diagnostics.warn(
            "calibration-same", "the model has no zero offsets: the calibration is written unchanged"
        )
    return {target: calibration_json(again)}


def _c(request: Request, model: ExportModel, target: Path) -> Mapping[Path, bytes]:
    note_left_out(model, "C code", (), request.diagnostics, model.springs)
    header = target.with_suffix(".h")
    code = write_c(model, header.name, request.thresholds)
    return {target: code.source.encode("ascii"), header: code.header.encode("ascii")}


def _table(request: Request, model: ExportModel, target: Path) -> Mapping[Path, bytes]:
    model = model.straightened(request.diagnostics)
    note_left_out(model, "the table", beyond_joints(model), request.diagnostics)
    return {target: table(model, request.kind)}


_Writer = Callable[[Request, ExportModel, Path], Mapping[Path, bytes]]
_WRITERS: dict[str, _Writer] = {
    "urdf": _urdf, "mjcf": _mjcf, "playground": _playground, "sdf": _sdf, "c": _c, "actuators": _actuators,
    "isaaclab": _isaaclab, "lerobot": _lerobot, "khalil": _table, "pinocchio": _table,
}  # fmt: skip


def _physical(request: Request, faults: tuple[str, ...]) -> bool:
    for fault in faults:
        request.diagnostics.warn("unphysical", fault)
    if faults and not request.allow_unphysical:
        raise RefusedError(
            "unphysical",
            found="; ".join(faults[:4]) + ("; ..." if len(faults) > 4 else ""),
            expected="physically consistent links, since simulators reject others or diverge",
            do="pass --allow-unphysical to export them anyway",
        )
    return not faults


def _require_same(model: ExportModel, again: RobotModel, target: Path) -> None:
    # The file may have another order of joints, so they are matched by name.
    robot = model.robot
    samples = random_states(robot, 16, 3)
    motion = robot.tree_motion(samples.q, samples.dq, samples.ddq)
    order = _order(robot, again)
    wanted = _rigid(robot, model.inertia, motion)[:, order]
    q, dq, ddq = (np.ascontiguousarray(part[:, order]) for part in motion)
    reread = _rigid(replace(again, gravity=robot.gravity), again.inertia_prior, (q, dq, ddq))
    _require_close(reread, wanted, target)


def _require_same_springs(model: ExportModel, again: RobotModel, target: Path) -> None:
    # Only springs of single joints: those over several are tendons, which the reader skips. The reader treats a joint
    # that follows others as independent: its position follows from theirs, and its torque acts on them.
    robot = model.robot
    q = random_states(robot, 16, 3).q
    if not set(robot.joint_names) <= set(again.joint_names) <= set(robot.tree_joint_names):
        return
    order = [robot.tree_joint_names.index(name) for name in again.joint_names]
    at = robot.tree_motion(q, q, q)[0][:, order]
    reread = spring_torque(described_springs(again), at) @ robot.projection[order]
    _require_close(reread, spring_torque(exportable_springs(model, several=False), q), target)


def _require_close(reread: Float, wanted: Float, target: Path) -> None:
    worst = float(np.abs(reread - wanted).max())
    if not worst <= _AGREE * max(float(np.abs(wanted).max()), 1.0):
        raise SolverError(
            "export-differs",
            found=f"torque that changes by {worst:.3g} N m when '{target.name}' is read back",
            expected=f"at most {_AGREE:g} of the largest torque",
            do="please report this",
        )


def _rigid(robot: RobotModel, inertia: Float, motion: tuple[Float, Float, Float]) -> Float:
    return inverse_dynamics(robot.tree, inertia, *motion)


def _order(robot: RobotModel, again: RobotModel) -> list[int]:
    known = {name: i for i, name in enumerate(robot.tree_joint_names)}
    if set(known) == set(again.tree_joint_names):
        return [known[name] for name in again.tree_joint_names]
    return list(range(robot.n_bodies))
