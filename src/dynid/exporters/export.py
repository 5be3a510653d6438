"""The export: from a run to files for other programs, each read back before it is kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import RefusedError, ResourceError, UsageError
from dynid.base.files import read_bytes, refuse_existing, staged_files
from dynid.base.records import dataclass, few
from dynid.dynamics.observer import Thresholds
from dynid.exporters.ensemble import Ensemble, Width, closest_consistent, sample_parameters, spread_on
from dynid.exporters.formats import Request, files_of, samples_of
from dynid.exporters.model import ExportModel, c_identifier, peak_speeds, reached_positions
from dynid.identification.experiment import Experiment
from dynid.identification.logs import held_out_log
from dynid.log.read import Log
from dynid.robot.model import RobotModel
from dynid.robot.options import Reading
from dynid.robot.xacro import is_xacro
from dynid.robot.xml import MAX_BYTES, parse
from dynid.run.result import Identification
from dynid.terms.term import Terms

# Output files: checked before any computation, and written completely or not at all.


def check_targets(
    targets: Sequence[Path], inputs: Sequence[Path], force: bool | None, option: str = "--out"
) -> None:
    """Check before any computation that files can be written.

    Missing folders are made later, once there is something to write.

    `inputs`: files that are read and must not be overwritten; `force`: whether existing files are replaced; None for
    commands without --force; `option`: name of the option that gives the targets, for messages. Raises RefusedError if
    a target exists (without force) or is an input; ResourceError if a target cannot be written.
    """
    sources = {path.resolve() for path in inputs}
    for target in targets:
        if target.resolve() in sources:
            raise RefusedError(
                "output-is-input", found=f"output '{target}' is also an input", expected="another file"
            )
        if target.is_dir():
            raise RefusedError(
                "output-exists", found=f"output '{target}' is a folder", expected="a file name"
            )
        if not force:
            refuse_existing(
                target, f"choose another {option}" + (", or --force to replace it" if force is False else "")
            )
        folder = next(parent for parent in target.resolve().parents if parent.exists())
        if not folder.is_dir():
            raise ResourceError(
                "cannot-write",
                found=f"'{target}' would lie below '{folder}', which is a file",
                expected=f"a folder for {option}",
            )
        if not os.access(folder, os.W_OK | os.X_OK):
            raise ResourceError(
                "cannot-write",
                found=f"no permission to write in '{folder}'",
                expected=f"a writable folder for {option}",
            )


def write_files(files: Mapping[Path, bytes]) -> None:
    """Write all files, or none: each is written to a scratch file first; raises ResourceError if that fails."""
    with staged_files(*files) as scratch:
        for path, data in zip(scratch, files.values(), strict=True):
            path.write_bytes(data)


FORMATS = {
    "urdf": ".urdf",
    "mjcf": ".xml",
    "playground": ".xml",
    "sdf": ".sdf",
    "c": ".c",
    "json": ".json",
    "actuators": ".json",
    "isaaclab": ".py",
    "lerobot": ".json",
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
    ".py": "isaaclab",
}
# One file for a whole ensemble: the models as rows, or the ranges of their parameters.
_WHOLE = ("samples", "isaaclab")
_EDITED = {
    "urdf": (".urdf", ".xml"),
    "isaaclab": (".urdf", ".xml"),
    "mjcf": (".xml", ".mjcf"),
    "playground": (".xml", ".mjcf"),
    "samples": (".xml", ".mjcf"),
}
# Formats for simulators, which reject links that are not physically consistent, or diverge.
_SIMULATED = ("urdf", "mjcf", "playground", "sdf", "samples", "isaaclab")
_ROOTS = {
    "urdf": "robot", "isaaclab": "robot", "mjcf": "mujoco", "playground": "mujoco", "samples": "mujoco",
}  # fmt: skip


@dataclass(frozen=True)
class Exported:
    """Files that were written.

    Parameters
    ----------
    files : tuple of Path
        The files.
    ensemble : Ensemble, optional
        The ensemble of which they are.
    moved : ndarray, shape (n_groups,), optional
        Change of torque on the fitted motion, relative to the measured torque, if links were made physically
        consistent.

    """

    files: tuple[Path, ...]
    ensemble: Ensemble | None = None
    moved: Float | None = None


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
    """Write an identified model for other programs.

    Every file is read back and must give the same torque.

    Parameters
    ----------
    run : Identification
        The run.
    to : str or Path
        File to write; the name of a format alone writes a file of that name.
    kind : str, optional
        One of FORMATS; by the suffix of `to` without it.
    source : str or Path, optional
        URDF or MJCF to edit in place. Without it the run's own robot file is edited if it has the format, else a new
        file is written.
    root : str, optional
        Fixed link in that file; the run's without it.
    allow_unphysical : bool
        Write URDF, MJCF and SDF as identified even if a link is not physically consistent.
    feasible : bool
        In any format write the closest physically consistent parameters (`closest_consistent`) if a link is not
        consistent. URDF, MJCF and SDF always do.
    ensemble : int
        Number of models to draw from the covariance, written as numbered files; 0 for the estimate alone. They are
        projected on the feasible set unless `allow_unphysical`.
    seed : int
        Seed of the draws.
    posterior : bool
        Draw from the posterior over physically consistent links instead.
    width : Width or str
        "error" or "noise", see `sample_parameters`.
    unseen : Log, optional
        Held-out log on which the torque spread is computed; without it the run's validation log, if it still exists.
    thresholds : Thresholds, optional
        Thresholds of external torque that C code contains too.
    force : bool
        Replace existing files.
    diagnostics : Diagnostics, optional
        Receives the warnings.

    Returns
    -------
    Exported
        The written files.

    Raises
    ------
    UsageError
        If the kind is unknown.
    RefusedError
        If a file exists, or a link is not physically consistent.
    ResourceError
        If the target cannot be written.
    SolverError
        If a written file gives another torque when it is read back.

    """
    sink = diagnostics if diagnostics is not None else Diagnostics()
    to, source = Path(to), None if source is None else Path(source)
    if kind is None and to.name in FORMATS:
        kind, to = to.name, to.with_suffix(FORMATS[to.name])
    chosen = _format_of(to, kind)
    if thresholds is not None and chosen != "c":
        raise UsageError(
            "thresholds-format",
            found=f"thresholds of external torque with format {chosen}",
            expected="format c",
        )
    origin = edited_source(run.robot, source, chosen)
    reading = _reading(run.robot, root)
    section = Experiment.from_dict(run.experiment).content.log if chosen == "lerobot" else None
    request = Request(
        run.robot,
        run.terms,
        peak_speeds(run),
        chosen,
        origin,
        reading,
        allow_unphysical,
        sink,
        thresholds,
        section,
        reach=reached_positions(run),
    )
    if chosen == "samples" and not ensemble:
        raise UsageError(
            "samples-ensemble",
            found="format samples without an ensemble",
            expected="a number of models",
            do="add --ensemble 200",
        )
    targets = [to] if not ensemble or chosen in _WHOLE else _numbered(to, ensemble)
    outputs = [path for target in targets for path in _outputs(target, chosen)]
    check_targets(outputs, _inputs(run.robot, source), force, "--to")
    draw = partial(sample_parameters, run, ensemble, seed, not allow_unphysical, posterior, width)
    drawn = _draw_ensemble(run, draw, unseen, sink) if ensemble else None
    thetas, moved = run.estimate.parameters[None], None
    if drawn is not None and chosen == "isaaclab":
        request = replace(request, members=drawn.parameters)
    if drawn is not None and chosen != "isaaclab":
        thetas = drawn.parameters
    elif (feasible or (chosen in _SIMULATED and not allow_unphysical)) and (
        consistent := consistent_parameters(run)
    ):
        theta, moved = consistent
        thetas = theta[None]
        _report_consistent(run, moved, sink)
    files: dict[Path, bytes] = {}
    if chosen == "samples":
        files[to] = samples_of(request, to, thetas)
    else:
        for target, theta in zip(targets, thetas, strict=True):
            files |= files_of(request, target, theta)
    write_files(files)
    return Exported(tuple(files), drawn, moved)


def _report_consistent(run: Identification, moved: Float, diagnostics: Diagnostics) -> None:
    joints = ", ".join(
        f"'{name}' {100 * part:.2g} %"
        for name, part in zip(run.estimate.group_names, moved, strict=True)
        if part > 0
    )
    faults = "; ".join(ExportModel.of_run(run).unphysical()[:2])
    diagnostics.warn(
        "export-consistent",
        f"the identified links are not physically consistent ({faults}): the closest consistent ones are written. "
        f"Change of torque on the fitted motion: {joints}",
    )


def consistent_parameters(run: Identification) -> tuple[Float, Float] | None:
    """Parameters for simulators if the run's own are not physically consistent, else None.

    Returns
    -------
    tuple of ndarray, or None
        Parameters (n_parameters,) and relative change of torque (n_groups,), see `closest_consistent`.

    """
    return closest_consistent(run) if ExportModel.of_run(run).unphysical() else None


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
    """Write a model without a run: terms with parameters theta, shape (n_parameters,).

    All other parameters, and the errors, are those of `export`.
    """
    sink = diagnostics if diagnostics is not None else Diagnostics()
    to, source = Path(to), None if source is None else Path(source)
    chosen = _format_of(to, kind)
    check_targets(_outputs(to, chosen), _inputs(robot, source), force, "--to")
    origin = edited_source(robot, source, chosen)
    reading = _reading(robot, root)
    request = Request(robot, terms, np.ones(robot.n), chosen, origin, reading, False, sink)
    files = files_of(request, to, theta)
    write_files(files)
    return tuple(files)


def _reading(robot: RobotModel, root: str | None) -> Reading:
    return robot.reading if root is None else replace(robot.reading, root=root)


def _inputs(robot: RobotModel, source: Path | None) -> list[Path]:
    return [path for path in (source, Path(robot.source) if robot.source else None) if path is not None]


def _draw_ensemble(
    run: Identification, draw: Callable[[], Ensemble], unseen: Log | None, diagnostics: Diagnostics
) -> Ensemble:
    drawn = draw()
    log = unseen if unseen is not None else held_out_log(run, diagnostics)
    return drawn if log is None else spread_on(run, drawn, log, diagnostics)


def _format_of(to: Path, kind: str | None) -> str:
    chosen = kind or _SUFFIXES.get(to.suffix.lower(), "")
    if chosen not in FORMATS:
        raise UsageError(
            "export-format",
            found=f"format '{kind}'" if kind else f"a target with the suffix '{to.suffix}'",
            expected="one of "
            + ", ".join(FORMATS)
            + "; table, or a file .csv, .tex, .md or .xlsx, for publications",
            do="name it with --format",
        )
    if chosen == "c" and not set(to.name) <= set(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"
    ):
        raise UsageError(
            "c-file-name", found=f"file name {to.name!r}", expected="only letters, digits, '_', '-' and '.'"
        )
    return chosen


def edited_source(robot: RobotModel, source: Path | None, kind: str) -> Path | None:
    """Find the file that an export edits in place.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    source : Path or None
        File that the user gave.
    kind : str
        Format of the export.

    Returns
    -------
    Path or None
        `source`, or the robot's own file if it has the format; None if a new file is written.

    """
    if kind not in _EDITED:
        return None
    if source is not None:
        return source
    robot_file = Path(robot.source)
    if robot_file.suffix.lower() not in _EDITED[kind] or not robot_file.is_file():
        return None
    # An .xml file may be URDF or MJCF; the numbers of a xacro file are not in the file.
    element = parse(read_bytes(robot_file, "a robot", MAX_BYTES), str(robot_file))
    return robot_file if element.tag == _ROOTS[kind] and not is_xacro(element) else None


def _numbered(to: Path, count: int) -> list[Path]:
    digits = max(3, len(str(count)))
    return [to.with_name(f"{to.stem}_{i + 1:0{digits}d}{to.suffix}") for i in range(count)]


def _outputs(target: Path, kind: str) -> list[Path]:
    beside = {"c": ".h", "isaaclab": ".urdf"}
    return [target, target.with_suffix(beside[kind])] if kind in beside else [target]


def _percentages(values: Float) -> str:
    return ", ".join(f"{100 * value:.3g}" for value in values)


def summary_lines(exported: Exported, run: Identification) -> list[str]:
    """Lines for the terminal: what was written."""
    files = [str(path) for path in exported.files]
    lines = [f"wrote {files[0]}" + (f" ... {files[-1]} ({len(files)} files)" if len(files) > 1 else "")]
    if exported.moved is not None:
        lines.append(
            "links made physically consistent; change of torque on the fitted motion, %: "
            + _percentages(exported.moved)
        )
    if exported.ensemble is not None:
        lines.append(
            f"torque spread of the models on the fitted motion, %: {_percentages(exported.ensemble.spread)}"
        )
        if len(exported.ensemble.held_out):
            lines.append(f"matched to the held-out error, %: {_percentages(exported.ensemble.held_out)}")
        unseen = exported.ensemble.unseen
        if unseen is not None:
            names = few(unseen.trajectories, 3)
            lines.append(
                f"torque spread of the models on held-out {names}, % per joint: {_percentages(unseen.spread)}"
            )
            lines.append(f"torque error of the estimate there, % per joint: {_percentages(unseen.error)}")
    if any(path.suffix == ".c" for path in exported.files):
        name = c_identifier(run.robot.name)
        lines.append(f"functions {name}_torque, {name}_inverse_dynamics, ...; test: -DDYNID_TEST_MAIN")
    return lines
