"""Measured torque and motion of a log, replayed by exported files in MuJoCo and in pinocchio."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.arrays import Float, locked
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import DynidError, UnfitDataError, UsageError
from dynid.base.overview import listed
from dynid.base.records import dataclass
from dynid.dynamics import Dynamics
from dynid.exporters.export import consistent_parameters, edited_source, export
from dynid.exporters.model import ExportModel, beyond_joints, peak_speeds
from dynid.exporters.torque_replay_programs import in_mujoco, in_pinocchio
from dynid.exporters.torque_replay_samples import LogPart, effects_apart, of_measured, part_of, relative_error
from dynid.log.read import Log
from dynid.run.result import Identification
from dynid.signals.parallel import ParallelFilter
from dynid.signals.prepare import prepare
from dynid.signals.settings import Preparation

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
