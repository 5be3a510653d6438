"""Logs opened for an identification: with columns found by name and motion, or as further logs of a finished run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dynid.base.arrays import Bool
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import DynidError, InputError, UsageError
from dynid.factor.assemble import Assembly
from dynid.factor.blocking import Blocking
from dynid.factor.factor import Factors
from dynid.identification.experiment import Experiment, open_log
from dynid.log.files import tables_kept_open
from dynid.log.own_columns import UNNAMED
from dynid.log.read import Log
from dynid.robot.model import RobotModel
from dynid.rows.torque import TorqueRows
from dynid.run.blocks import block_seconds
from dynid.run.result import Identification
from dynid.run.validation import read_samples
from dynid.signals.prepare import prepare
from dynid.signals.settings import Preparation
from dynid.terms.term import Terms

# Logs whose columns nobody named, opened as `dynid init` would name them where it has nothing to ask.


def open_training(
    experiment: Experiment,
    robot: str | Path,
    logs: Sequence[Path],
    diagnostics: Diagnostics,
    answers: Mapping[str, str] | None = None,
) -> tuple[Experiment, Log]:
    """The logs that an experiment trains on, and the experiment with all that was read of them.

    robot: file of the description.    answers: to questions of `dynid init`, by key. Columns that have names and are
    neither dynid's own nor in [log] are taken as `dynid init` finds them, with the joints that it holds and the gains
    that it reads, if it has nothing left to ask.

    Raises as `load_robot` and `open_log`, with what is left to ask, and UsageError for answers beside a [log].
    """
    with tables_kept_open():
        return _opened(experiment, robot, logs, diagnostics, answers)


def _opened(
    experiment: Experiment,
    robot: str | Path,
    logs: Sequence[Path],
    diagnostics: Diagnostics,
    answers: Mapping[str, str] | None,
) -> tuple[Experiment, Log]:
    model = experiment.robot(robot, diagnostics)
    named = experiment.content.log is not None
    unknown = None
    if answers and named:
        raise UsageError(
            "answer",
            found=f"answers about columns, and {experiment.file}, which names them under [log]",
            expected="one of them",
        )
    if not answers:
        try:
            return experiment, open_log(experiment, logs, model, experiment.data.train, diagnostics)
        except InputError as error:
            if named or error.identifier not in UNNAMED:
                raise
            unknown = error
    experiment = _with_columns(experiment, robot, model, logs, answers or {}, unknown, diagnostics)
    model = experiment.robot(robot, diagnostics)
    return experiment, open_log(experiment, logs, model, experiment.data.train, diagnostics)


def _with_columns(
    experiment: Experiment,
    robot: str | Path,
    model: RobotModel,
    logs: Sequence[Path],
    answers: Mapping[str, str],
    unknown: InputError | None,
    diagnostics: Diagnostics,
) -> Experiment:
    """The experiment with the tables of a proposal.    unknown: what stands against the log without them."""
    from dynid.layouts.propose import found_tables  # here alone: most logs are read by a mapping

    tables, remark = found_tables(model, robot, logs, answers, unknown)
    diagnostics.note(remark.code, remark.text, remark.place)
    return experiment.with_robot(tables.pop("robot", {})).with_values(tables)


# Further logs of a finished run: its own held-out ones, and torque equations prepared like the run's.


def torque_factors(
    run: Identification,
    log: Log,
    wanted: Bool,
    diagnostics: Diagnostics,
    threads: int,
    terms: Terms | None = None,
) -> Factors:
    """Factors of a log's torque equations by joint, filtered as in the run, on the log's own time grid.

    wanted: (p,) mask of the parameters whose columns are kept.    terms: in place of the run's.
    Raises UsageError for a log of other joints.
    """
    diagnostics.accept(run.accepted)
    settings: Any = run.preparation["settings"]
    return factors_of(
        run.robot, terms or run.terms, Preparation(**settings), log, wanted, diagnostics, threads
    )


def factors_of(
    robot: RobotModel,
    terms: Terms,
    preparation: Preparation,
    log: Log,
    wanted: Bool,
    diagnostics: Diagnostics,
    threads: int,
) -> Factors:
    """Factors of a log's torque equations by joint, filtered as given, on the log's own time grid.

    What a first log leaves out is left out here, and blocks of time are as long as they would be there.
    wanted: (p,) mask of the parameters whose columns are kept.
    Raises UsageError for a log of other joints, UnfitDataError for one without a usable sample.
    """
    log = log.of_robot(robot)
    prepared = prepare(log, replace(preparation, rate=None), diagnostics)
    batches, _, rest = read_samples(prepared, diagnostics, terms.balances(robot), threads, None)
    seconds = block_seconds(prepared, still=rest.seconds)
    assembly = Assembly(robot, terms, TorqueRows(), wanted, prepared.parallel_filter(), Blocking(seconds))
    return assembly.factors(batches, threads)


def held_out_log(run: Identification, diagnostics: Diagnostics) -> Log | None:
    """The log that a run was validated on, if its files are still there and unchanged; None else, with a note."""
    listed: Any = run.files.get("validate") or run.files.get("logs") or ()
    known = run.provenance.get("validation_logs")
    if not isinstance(known, Mapping) or not known:
        return None
    selection = Experiment.from_dict(run.experiment).data.validate_on
    log = _unchanged(run, known, listed, selection, diagnostics)
    if log is None:
        diagnostics.warn(
            "held-out-gone", "the logs that the run was validated on are not there any more, or were changed"
        )
    return log


def training_log(run: Identification, diagnostics: Diagnostics) -> Log | None:
    """The log that a run was fitted to, if its files are still there and unchanged; None else."""
    known, listed = run.provenance.get("logs"), run.files.get("logs")
    if not isinstance(known, Mapping) or not known or not isinstance(listed, Sequence):
        return None
    return _unchanged(run, known, listed, Experiment.from_dict(run.experiment).data.train, diagnostics)


def _unchanged(
    run: Identification,
    known: Mapping[str, str],
    listed: Sequence[Any],
    selection: Any,
    diagnostics: Diagnostics,
) -> Log | None:
    experiment = Experiment.from_dict(run.experiment)
    try:
        log = open_log(experiment, [Path(str(one)) for one in listed], run.robot, selection, diagnostics)
        same = sorted(log.sha256.values()) == sorted(known.values())
    except DynidError:
        return None
    return log if same else None
