"""The verb: a run in, files for other programs out, each read again before it is kept."""

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

# Targets of an export: checked before anything is computed, written as a whole or not at all.


def check_targets(
    targets: Sequence[Path], inputs: Sequence[Path], force: bool | None, option: str = "--out"
) -> None:
    """Checks where files are to be written before anything is computed.

    force: whether existing files are replaced, None = the command has no --force.    option: that names the targets.

    Raises RefusedError for a target that exists (unless forced) or is an input, ResourceError for one that cannot be
    written. Folders that are missing are made once there is something to write.
    """
    sources = {path.resolve() for path in inputs}
    for target in targets:
        if target.resolve() in sources:
            raise RefusedError(
                "output-is-input", found=f"output '{target}' is the file to be read", expected="another file"
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
                found=f"'{folder}', which is a file, above '{target}'",
                expected=f"a folder for {option}",
            )
        if not os.access(folder, os.W_OK | os.X_OK):
            raise ResourceError(
                "cannot-write",
                found=f"no permission to write in '{folder}'",
                expected=f"a writable folder for {option}",
            )


def write_files(files: Mapping[Path, bytes]) -> None:
    """Writes every file beside its place, then moves all of them there; raises ResourceError if it cannot."""
    with staged_files(*files) as scratch:
        for path, data in zip(scratch, files.values(), strict=True):
            path.write_bytes(data)


FORMATS = {
    "urdf": ".urdf",
    "mjcf": ".xml",
    "sdf": ".sdf",
    "c": ".c",
    "json": ".json",
    "actuators": ".json",
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
}
_EDITED = {"urdf": (".urdf", ".xml"), "mjcf": (".xml", ".mjcf"), "samples": (".xml", ".mjcf")}
# What these hold has to be physically consistent: simulators refuse other bodies or run away.
_SIMULATED = ("urdf", "mjcf", "sdf", "samples")
_ROOTS = {"urdf": "robot", "mjcf": "mujoco", "samples": "mujoco"}


@dataclass(frozen=True)
class Exported:
    """Files that were written, and the ensemble behind them if there is one.

    moved: (g,) change of torque on the fitted motion, relative to the measured torque, where bodies were made
    physically consistent.
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
    """Writes an identified model for other programs.

    kind: one of FORMATS; None = by the suffix of `to`.    source: URDF or MJCF to change in place; None = the run's own
    description, if that is in the wanted format, else a new one is written.    root: link that stands still in it; None
    = the run's.
    allow_unphysical: write URDF, MJCF and SDF as identified even where a body is not physically
    consistent.
    feasible: the closest physically consistent parameters where a body is not, see `closest_consistent`, in any
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
    chosen = _format_of(to, kind)
    if thresholds is not None and chosen != "c":
        raise UsageError(
            "thresholds-format", found=f"thresholds of external torque for {chosen}", expected="C code"
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
            found="a file of samples without an ensemble",
            expected="a number of models",
            do="add --ensemble 200",
        )
    targets = [to] if not ensemble or chosen == "samples" else _numbered(to, ensemble)
    outputs = [path for target in targets for path in _outputs(target, chosen)]
    check_targets(outputs, _inputs(run.robot, source), force, "--to")
    draw = partial(sample_parameters, run, ensemble, seed, not allow_unphysical, posterior, width)
    drawn = _draw_ensemble(run, draw, unseen, sink) if ensemble else None
    thetas, moved = run.estimate.parameters[None], None
    if drawn is not None:
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
        f"the run's own bodies are not physically consistent ({faults}): those that are and fit the data best are "
        f"written. Their torque on the fitted motion is another by {joints}",
    )


def consistent_parameters(run: Identification) -> tuple[Float, Float] | None:
    """What URDF, MJCF and SDF hold where the run's own parameters are not physically consistent, else None.

    Parameters (p,) and the change of torque (g,), see `closest_consistent`.
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
    """Writes a model without a run: terms with parameters theta (p,).    Everything else as for `export`."""
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
            expected="one of " + ", ".join(FORMATS),
            do="name it with --format",
        )
    if chosen == "c" and not set(to.name) <= set(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"
    ):
        raise UsageError(
            "c-file-name", found=f"file name {to.name!r}", expected="letters, digits, '_', '-' and '.' alone"
        )
    return chosen


def edited_source(robot: RobotModel, source: Path | None, kind: str) -> Path | None:
    """The file that an export changes in place, `source` or the robot's own; None where a new one is written."""
    if kind not in _EDITED:
        return None
    if source is not None:
        return source
    robot_file = Path(robot.source)
    if robot_file.suffix.lower() not in _EDITED[kind] or not robot_file.is_file():
        return None
    # A file that ends in .xml may hold either; one that is to be expanded does not hold the numbers.
    element = parse(read_bytes(robot_file, "a robot", MAX_BYTES), str(robot_file))
    return robot_file if element.tag == _ROOTS[kind] and not is_xacro(element) else None


def _numbered(to: Path, count: int) -> list[Path]:
    digits = max(3, len(str(count)))
    return [to.with_name(f"{to.stem}_{i + 1:0{digits}d}{to.suffix}") for i in range(count)]


def _outputs(target: Path, kind: str) -> list[Path]:
    return [target, target.with_suffix(".h")] if kind == "c" else [target]


def _percentages(values: Float) -> str:
    return ", ".join(f"{100 * value:.3g}" for value in values)


def summary_lines(exported: Exported, run: Identification) -> list[str]:
    """What was written, in words."""
    files = [str(path) for path in exported.files]
    lines = [f"wrote {files[0]}" + (f" ... {files[-1]} ({len(files)} files)" if len(files) > 1 else "")]
    if exported.moved is not None:
        lines.append(
            "closest physically consistent bodies; change of the torque on the fitted motion, %: "
            + _percentages(exported.moved)
        )
    if exported.ensemble is not None:
        lines.append(
            f"spread of the torque on the fitted motion, %: {_percentages(exported.ensemble.spread)}"
        )
        if len(exported.ensemble.held_out):
            lines.append(
                f"set by the error on held-out blocks, %: {_percentages(exported.ensemble.held_out)}"
            )
        unseen = exported.ensemble.unseen
        if unseen is not None:
            names = few(unseen.trajectories, 3)
            lines.append(f"spread on unseen {names}, % by joint: {_percentages(unseen.spread)}")
            lines.append(f"error of the estimate there, % by joint: {_percentages(unseen.error)}")
    if any(path.suffix == ".c" for path in exported.files):
        name = c_identifier(run.robot.name)
        lines.append(f"functions {name}_torque, {name}_inverse_dynamics, ...; test: -DDYNID_TEST_MAIN")
    return lines
