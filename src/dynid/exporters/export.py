"""The verb: a run in, files for other programs out, each read again before it is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from dynid.base.arrays import Float
from dynid.base.checked_toml import read_bytes
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import RefusedError, SolverError, UsageError
from dynid.dynamics.thresholds import Thresholds
from dynid.exporters.actuators import actuators_json
from dynid.exporters.c_code import write_c
from dynid.exporters.ensemble import Ensemble, Width, closest_real, sample_parameters, spread_on
from dynid.exporters.files import check_targets, write_files
from dynid.exporters.held_joints import unlocked
from dynid.exporters.mixed import motors_of, on_one_branch
from dynid.exporters.mjcf import new_mjcf
from dynid.exporters.mjcf_edit import NotEditable, edit_mjcf
from dynid.exporters.model import ExportModel, beyond_joints, note_left_out, peak_speeds, without
from dynid.exporters.named_files import Placed, place_mjcf, place_urdf
from dynid.exporters.names import c_identifier
from dynid.exporters.samples import samples_npz
from dynid.exporters.sdf import new_sdf, parameters_of
from dynid.exporters.tables import model_json, table
from dynid.exporters.urdf import edit_urdf
from dynid.exporters.urdf_new import new_urdf
from dynid.factor.base import random_states
from dynid.identification.further_log import held_out_log
from dynid.kernel import inverse_dynamics
from dynid.log.read import Log
from dynid.robot._mujoco import refused_by_mujoco
from dynid.robot.formats import read_robot_file
from dynid.robot.locking import lock_joints
from dynid.robot.mjcf import read_mjcf
from dynid.robot.model import RobotModel
from dynid.robot.reading import Reading
from dynid.robot.urdf import read_urdf
from dynid.robot.xacro import is_xacro
from dynid.robot.xml import MAX_BYTES, parse
from dynid.run.result import Identification
from dynid.terms.term import Terms

FORMATS = {
    "urdf": ".urdf",
    "mjcf": ".xml",
    "sdf": ".sdf",
    "c": ".c",
    "json": ".json",
    "actuators": ".json",
    "khalil": ".csv",
    "pinocchio": ".csv",
    "samples": ".npz",
}
_SUFFIXES = {
    ".urdf": "urdf",
    ".sdf": "sdf",
    ".xml": "mjcf",
    ".mjcf": "mjcf",
    ".c": "c",
    ".json": "json",
    ".npz": "samples",
}
_AGREE = 1e-10
_EDITED = {"urdf": (".urdf", ".xml"), "mjcf": (".xml", ".mjcf"), "samples": (".xml", ".mjcf")}
# What these hold has to be physically consistent: simulators refuse other bodies or run away.
_SIMULATED = ("urdf", "mjcf", "sdf", "samples")
_ROOTS = {"urdf": "robot", "mjcf": "mujoco", "samples": "mujoco"}


@dataclass(frozen=True)
class Exported:
    """Files that were written, and the ensemble behind them if there is one.

    moved: (g,) change of torque on the fitted motion, relative to the measured torque, where bodies were made real.
    """

    files: tuple[Path, ...]
    ensemble: Ensemble | None = None
    moved: Float | None = None


@dataclass(frozen=True)
class _Request:
    robot: RobotModel
    terms: Terms
    peak: Float
    kind: str
    source: Path | None
    reading: Reading
    allow_unphysical: bool
    diagnostics: Diagnostics
    thresholds: Thresholds | None = None
    in_mujoco: bool = True  # whether MuJoCo has to load what is written, shapes included


def export(
    run: Identification,
    to: str | Path,
    kind: str | None = None,
    *,
    source: str | Path | None = None,
    root: str | None = None,
    allow_unphysical: bool = False,
    feasible: bool = False,
    ensemble: int = 0,
    seed: int = 0,
    posterior: bool = False,
    width: Width | str = Width.ERROR,
    unseen: Log | None = None,
    thresholds: Thresholds | None = None,
    force: bool = False,
    diagnostics: Diagnostics | None = None,
) -> Exported:
    """Writes an identified model for other programs.

    kind: one of FORMATS; None = by the suffix of `to`.    source: URDF or MJCF to change in place; None = the run's own
    description, if that is in the wanted format, else a new one is written.    root: link that stands still in it; None
    = the run's.
    allow_unphysical: write URDF, MJCF and SDF as identified even where a body is no real one.
    feasible: the closest physically consistent parameters where a body is no real one, see `closest_real`, in any
    format; URDF, MJCF and SDF always hold these.
    ensemble: number of models drawn from the estimate's covariance, written beside each other with numbers; 0 = the
    estimate alone. They are projected on the feasible set unless `allow_unphysical`.    seed: of the draws.
    posterior: draw them from the posterior over physically consistent bodies instead.
    width: "error": they differ by as much as the model is wrong on data that it was not fitted on; "noise": by the
    covariance alone; see `sample_parameters`.
    unseen: log on which the spread of their torque is found; None = the one that the run was validated on, if it is
    still there.
    thresholds: for external torque, that C code is to hold as well.
    force: replace files.

    Raises UsageError for an unknown kind, RefusedError for what exists or is not physical, ResourceError if the
    target cannot be written, SolverError if a written file, read again, gives another torque.
    """
    sink = diagnostics if diagnostics is not None else Diagnostics()
    to, source = Path(to), None if source is None else Path(source)
    chosen = _kind(to, kind)
    if thresholds is not None and chosen != "c":
        raise UsageError(
            "thresholds-format", found=f"thresholds of external torque for {chosen}", expected="C code"
        )
    origin = edited_source(run.robot, source, chosen)
    reading = _reading(run.robot, root)
    request = _Request(
        run.robot, run.terms, peak_speeds(run), chosen, origin, reading, allow_unphysical, sink, thresholds
    )
    if chosen == "samples" and not ensemble:
        raise UsageError(
            "samples-ensemble",
            found="a file of samples without an ensemble",
            expected="a number of models",
            do="add --ensemble 200",
        )
    targets = [to] if not ensemble or chosen == "samples" else _numbered(to, ensemble)
    outputs = [path for target in targets for path in _outputs(target, chosen)]
    check_targets(outputs, _inputs(run.robot, source), force)
    draw = partial(sample_parameters, run, ensemble, seed, not allow_unphysical, posterior, width)
    drawn = _drawn(run, draw, unseen, sink) if ensemble else None
    thetas, moved = run.estimate.parameters[None], None
    if drawn is not None:
        thetas = drawn.parameters
    elif (feasible or (chosen in _SIMULATED and not allow_unphysical)) and ExportModel.of_run(
        run
    ).unphysical():
        theta, moved = closest_real(run)
        thetas = theta[None]
        joints = ", ".join(
            f"'{name}' {100 * part:.2g} %"
            for name, part in zip(run.estimate.group_names, moved, strict=True)
            if part > 0
        )
        sink.warn(
            "export-consistent",
            f"the run's own bodies cannot exist ({'; '.join(ExportModel.of_run(run).unphysical()[:2])}): the "
            "physically consistent ones that the data like best are written. Their torque on the fitted motion is "
            f"another by {joints}",
        )
    files: dict[Path, bytes] = {}
    if chosen == "samples":
        files[to] = _samples(request, to, thetas)
    else:
        for target, theta in zip(targets, thetas, strict=True):
            files |= _files(request, target, theta)
    write_files(files)
    return Exported(tuple(files), drawn, moved)


def export_parameters(
    robot: RobotModel,
    terms: Terms,
    theta: Float,
    to: str | Path,
    kind: str | None = None,
    *,
    source: str | Path | None = None,
    root: str | None = None,
    force: bool = False,
    diagnostics: Diagnostics | None = None,
) -> tuple[Path, ...]:
    """Writes a model without a run: terms with parameters theta (p,).    Everything else as for `export`."""
    sink = diagnostics if diagnostics is not None else Diagnostics()
    to, source = Path(to), None if source is None else Path(source)
    chosen = _kind(to, kind)
    check_targets(_outputs(to, chosen), _inputs(robot, source), force)
    origin = edited_source(robot, source, chosen)
    reading = _reading(robot, root)
    request = _Request(robot, terms, np.ones(robot.n), chosen, origin, reading, False, sink)
    files = _files(request, to, theta)
    write_files(files)
    return tuple(files)


def _reading(robot: RobotModel, root: str | None) -> Reading:
    return robot.reading if root is None else replace(robot.reading, root=root)


def _inputs(robot: RobotModel, source: Path | None) -> list[Path]:
    return [path for path in (source, Path(robot.source) if robot.source else None) if path is not None]


def _drawn(
    run: Identification, draw: Callable[[], Ensemble], unseen: Log | None, diagnostics: Diagnostics
) -> Ensemble:
    drawn = draw()
    log = unseen if unseen is not None else held_out_log(run, diagnostics)
    return drawn if log is None else spread_on(run, drawn, log, diagnostics)


def _kind(to: Path, kind: str | None) -> str:
    found = kind or _SUFFIXES.get(to.suffix.lower(), "")
    if found not in FORMATS:
        raise UsageError(
            "export-format",
            found=f"format '{kind}'" if kind else f"a target with the suffix '{to.suffix}'",
            expected="one of " + ", ".join(FORMATS),
            do="name it with --format",
        )
    if found == "c" and not set(to.name) <= set(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"
    ):
        raise UsageError(
            "c-file-name", found=f"file name {to.name!r}", expected="letters, digits, '_', '-' and '.' alone"
        )
    return found


def edited_source(robot: RobotModel, source: Path | None, kind: str) -> Path | None:
    """The file that an export changes in place, `source` or the robot's own; None where a new one is written."""
    if kind not in _EDITED:
        return None
    if source is not None:
        return source
    own = Path(robot.source)
    if own.suffix.lower() not in _EDITED[kind] or not own.is_file():
        return None
    # A file that ends in .xml may hold either; one that is to be expanded does not hold the numbers.
    element = parse(read_bytes(own, "a robot", MAX_BYTES), str(own))
    return own if element.tag == _ROOTS[kind] and not is_xacro(element) else None


def _numbered(to: Path, count: int) -> list[Path]:
    digits = max(3, len(str(count)))
    return [to.with_name(f"{to.stem}_{i + 1:0{digits}d}{to.suffix}") for i in range(count)]


def _outputs(target: Path, kind: str) -> list[Path]:
    return [target, target.with_suffix(".h")] if kind == "c" else [target]


def _files(request: _Request, target: Path, theta: Float) -> dict[Path, bytes]:
    if request.kind == "json":
        return {target: model_json(request.robot, request.terms, theta)}
    model = replace(ExportModel.of_terms(request.robot, request.terms, theta), peak=request.peak)
    return dict(_WRITERS[request.kind](request, model, target))


def _urdf(request: _Request, model: ExportModel, target: Path) -> Mapping[Path, bytes]:
    model = model.straightened(request.diagnostics)
    note_left_out(model, "URDF", without(model, rotor=True), request.diagnostics)
    if not np.allclose(model.robot.gravity, (0.0, 0.0, -9.81), atol=1e-12):
        gravity = ", ".join(f"{g:g}" for g in model.robot.gravity)
        request.diagnostics.warn(
            "urdf-gravity", f"URDF has no gravity: set ({gravity}) m/s^2 where it is used"
        )
    if request.source is None:
        data = new_urdf(model)
    else:
        whole, notes = _whole(request, model, request.source)
        data, further = edit_urdf(whole, request.source, request.reading)
        _warn_shared((*notes, *further), request.diagnostics)
        placed = place_urdf(data, request.source, target)
        _note_absent(placed, target, request.diagnostics)
        data = placed.data
    if _physical(request, model.unphysical()):
        again = read_urdf(parse(data, str(target)), target, request.reading, Diagnostics())
        _require_same(model, _held(again, model.robot), target)
    return {target: data}


def _mjcf(request: _Request, model: ExportModel, target: Path) -> Mapping[Path, bytes]:
    model = model.straightened(request.diagnostics)
    motors = motors_of(model.mixed)[0]
    apart = any(motor.inertia and not on_one_branch(model.robot, motor.weights) for motor in motors)
    further = ["the inertia of motors whose joints lie on two branches"] if apart else []
    note_left_out(model, "MJCF", [*without(model, rotor=False), *further], request.diagnostics)
    source = request.source
    physical = _physical(request, model.unphysical())
    try:
        if source is not None and motors:
            raise NotEditable("motors that move several joints need tendons")
        if source is None:
            data = new_mjcf(model)
        else:
            whole, notes = _whole(request, model, source)
            data, shared = edit_mjcf(whole, source, request.reading)
            data = _loading(request, data, source, target, physical and request.in_mujoco)
            _warn_shared((*notes, *shared), request.diagnostics)
    except NotEditable as reason:
        request.diagnostics.warn(
            "mjcf-new", f"'{source}' cannot be changed in place ({reason}): a new file holds the model"
        )
        data, source = new_mjcf(model), None
    if physical:
        reading = request.reading if source is not None else Reading()
        again = read_mjcf(parse(data, str(target)), target, reading, Diagnostics())
        _require_same(model, again if source is None else _held(again, model.robot), target)
    return {target: data}


def _samples(request: _Request, target: Path, thetas: Float) -> bytes:
    request = replace(request, diagnostics=Diagnostics(), kind="mjcf", in_mujoco=False)
    models = [_files(request, target, theta)[target] for theta in thetas]
    reading = request.reading if request.source is not None else Reading()
    return samples_npz(models, request.source or target, reading, request.diagnostics)


def _whole(request: _Request, model: ExportModel, source: Path) -> tuple[ExportModel, tuple[str, ...]]:
    # The model with the joints of the file that it holds, which stay as they are described.
    if not model.robot.locked:
        return model, ()
    described = read_robot_file(source, request.reading, Diagnostics())
    held = {name: value for name, value in model.robot.locked.items() if name in described.joint_names}
    return unlocked(model, described, lock_joints(described, held)) if held else (model, ())


def _held(again: RobotModel, robot: RobotModel) -> RobotModel:
    held = {name: value for name, value in robot.locked.items() if name in again.joint_names}
    return lock_joints(again, held).robot if held else again


def _sdf(request: _Request, model: ExportModel, target: Path) -> Mapping[Path, bytes]:
    model = model.straightened(request.diagnostics)
    note_left_out(model, "SDF", without(model, rotor=True), request.diagnostics)
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
    diagnostics.warn(
        "absent-shapes",
        f"files that the description names are not there ({named}): '{target.name}' is written without the "
        f"{placed.dropped} shapes that they show; inertias and joints are complete",
    )


def _loading(request: _Request, data: bytes, source: Path, target: Path, checked: bool) -> bytes:
    # MuJoCo reads the shapes as well: a file that it refuses for their sake is written without them.
    placed = place_mjcf(data, source, target)
    refusal = refused_by_mujoco(placed.data.decode(), target.resolve().parent) if checked else ""
    if not refusal:
        _note_absent(placed, target, request.diagnostics)
        return placed.data
    placed = place_mjcf(data, source, target, shapes=False)
    if refused_by_mujoco(placed.data.decode(), target.resolve().parent):
        raise NotEditable(f"MuJoCo refuses it: {refusal}")
    request.diagnostics.warn(
        "absent-shapes",
        f"MuJoCo refuses a shape ({refusal[:160]}): '{target.name}' is written without the {placed.dropped} "
        "shapes that are read from files; inertias and joints are complete",
    )
    return placed.data


def _actuators(request: _Request, model: ExportModel, target: Path) -> Mapping[Path, bytes]:
    model = model.straightened(request.diagnostics)
    note_left_out(model, "a file of actuators", beyond_joints(model), request.diagnostics)
    return {target: actuators_json(model)}


def _c(request: _Request, model: ExportModel, target: Path) -> Mapping[Path, bytes]:
    note_left_out(model, "C code", (), request.diagnostics)
    header = target.with_suffix(".h")
    code = write_c(model, header.name, request.thresholds)
    return {target: code.source.encode("ascii"), header: code.header.encode("ascii")}


def _table(request: _Request, model: ExportModel, target: Path) -> Mapping[Path, bytes]:
    model = model.straightened(request.diagnostics)
    note_left_out(model, "the table", beyond_joints(model), request.diagnostics)
    return {target: table(model, request.kind)}


_Writer = Callable[[_Request, ExportModel, Path], Mapping[Path, bytes]]
_WRITERS: dict[str, _Writer] = {
    "urdf": _urdf, "mjcf": _mjcf, "sdf": _sdf, "c": _c, "actuators": _actuators, "khalil": _table,
    "pinocchio": _table,
}  # fmt: skip


def _physical(request: _Request, faults: tuple[str, ...]) -> bool:
    for fault in faults:
        request.diagnostics.warn("unphysical", fault)
    if faults and not request.allow_unphysical:
        raise RefusedError(
            "unphysical",
            found="; ".join(faults[:4]) + ("; ..." if len(faults) > 4 else ""),
            expected="bodies that exist: simulators refuse others or run away",
            do="pass --allow-unphysical to have them all the same",
        )
    return not faults


def _require_same(model: ExportModel, again: RobotModel, target: Path) -> None:
    # Joints may stand in another order in the file: they are matched by name.
    robot = model.robot
    samples = random_states(robot, 16, 3)
    motion = robot.tree_motion(samples.q, samples.dq, samples.ddq)
    order = _order(robot, again)
    wanted = _rigid(robot, model.inertia, motion)[:, order]
    q, dq, ddq = (np.ascontiguousarray(part[:, order]) for part in motion)
    found = _rigid(replace(again, gravity=robot.gravity), again.inertia_prior, (q, dq, ddq))
    worst = float(np.abs(found - wanted).max())
    if not worst <= _AGREE * max(float(np.abs(wanted).max()), 1.0):
        raise SolverError(
            "export-differs",
            found=f"torque that differs by {worst:.3g} N m when '{target.name}' is read again",
            expected=f"at most {_AGREE:g} of the greatest torque",
            do="please report this",
        )


def _rigid(robot: RobotModel, inertia: Float, motion: tuple[Float, Float, Float]) -> Float:
    return inverse_dynamics(robot.tree, inertia, *motion)


def _order(robot: RobotModel, again: RobotModel) -> list[int]:
    known = {name: i for i, name in enumerate(robot.tree_joint_names)}
    if set(known) == set(again.tree_joint_names):
        return [known[name] for name in again.tree_joint_names]
    return list(range(robot.n_bodies))


def _shares(values: Float) -> str:
    return ", ".join(f"{100 * value:.3g}" for value in values)


def summary_lines(exported: Exported, run: Identification) -> list[str]:
    """What was written, in words."""
    files = [str(path) for path in exported.files]
    lines = [f"wrote {files[0]}" + (f" ... {files[-1]} ({len(files)} files)" if len(files) > 1 else "")]
    if exported.moved is not None:
        lines.append(
            "closest physically consistent bodies; change of the torque on the fitted motion, %: "
            + _shares(exported.moved)
        )
    if exported.ensemble is not None:
        lines.append(f"spread of the torque on the fitted motion, %: {_shares(exported.ensemble.spread)}")
        if len(exported.ensemble.held_out):
            lines.append(f"set by the error on held-out blocks, %: {_shares(exported.ensemble.held_out)}")
        unseen = exported.ensemble.unseen
        if unseen is not None:
            names = ", ".join(unseen.trajectories[:3]) + (", ..." if len(unseen.trajectories) > 3 else "")
            lines.append(f"spread on unseen {names}, % by joint: {_shares(unseen.spread)}")
            lines.append(f"error of the estimate there, % by joint: {_shares(unseen.error)}")
    if any(path.suffix == ".c" for path in exported.files):
        name = c_identifier(run.robot.name)
        lines.append(f"functions {name}_torque, {name}_inverse_dynamics, ...; test: -DDYNID_TEST_MAIN")
    return lines
