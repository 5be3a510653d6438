"""Open logs for an identification: columns detected by name and motion, or the logs of a finished run."""

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

# Logs without a column mapping, opened with the mapping of `dynid init` if it has no open question.


def open_training(
    experiment: Experiment,
    robot: str | Path,
    logs: Sequence[Path],
    diagnostics: Diagnostics,
    answers: Mapping[str, str] | None = None,
) -> tuple[Experiment, Log]:
    """Open the training logs of an experiment, with detected columns if nothing maps them.

    Columns that are neither dynid's own nor mapped under [log] are detected as by `dynid init`, with its locked joints
    and gains, if it has no open question. `answers` contains answers to its questions by key. Returns the experiment
    with the detected tables, and the log.

    Raises InputError as by `load_robot` and `open_log`, with the open questions; UsageError for answers together with
    [log].
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
            found=f"answers about columns together with [log] in {experiment.file}",
            expected="one of the two",
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
    """The experiment with the detected tables.    unknown: the error of opening the log without them."""
    from dynid.layouts.propose import found_tables  # imported late, since most logs have a mapping

    tables, remark = found_tables(model, robot, logs, answers, unknown)
    diagnostics.note(remark.code, remark.text, remark.place)
    return experiment.with_robot(tables.pop("robot", {})).with_values(tables)


# Further logs of a finished run: its training and validation logs, and equations prepared as in the run.


def torque_factors(
    run: Identification,
    log: Log,
    wanted: Bool,
    diagnostics: Diagnostics,
    threads: int,
    terms: Terms | None = None,
) -> Factors:
    """Factors of a log's torque equations per joint, filtered as in a run, on the log's own time grid.

    `wanted` (p,) selects the parameters whose columns are kept; `terms` replaces the run's terms.

    Raises
    ------
    UsageError
        For a log of other joints.

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
    """Factors of a log's torque equations per joint with these filters, on the log's own time grid.

    Samples are left out, and the log is cut into blocks, as in an identification. `wanted` (p,) selects the columns.

    Raises
    ------
    UsageError
        For a log of other joints.
    UnfitDataError
        For a log without a usable sample.

    """
    log = log.of_robot(robot)
    prepared = prepare(log, replace(preparation, rate=None), diagnostics)
    batches, _, rest = read_samples(prepared, diagnostics, terms.balances(robot), threads, None)
    seconds = block_seconds(prepared, still=rest.seconds)
    assembly = Assembly(robot, terms, TorqueRows(), wanted, prepared.parallel_filter(), Blocking(seconds))
    return assembly.factors(batches, threads)


def held_out_log(run: Identification, diagnostics: Diagnostics) -> Log | None:
    """Validation log of a run if its files exist unchanged; else None, with a warning if the run had such logs."""
    listed: Any = run.files.get("validate") or run.files.get("logs") or ()
    known = run.provenance.get("validation_logs")
    if not isinstance(known, Mapping) or not known:
        return None
    selection = Experiment.from_dict(run.experiment).data.validate_on
    log = _unchanged_log(run, known, listed, selection, diagnostics)
    if log is None:
        diagnostics.warn("held-out-gone", "the validation logs of the run are missing or were changed")
    return log


def training_log(run: Identification, diagnostics: Diagnostics) -> Log | None:
    """Training log of a run if its files exist unchanged; else None."""
    known, listed = run.provenance.get("logs"), run.files.get("logs")
    if not isinstance(known, Mapping) or not known or not isinstance(listed, Sequence):
        return None
    return _unchanged_log(run, known, listed, Experiment.from_dict(run.experiment).data.train, diagnostics)


def _unchanged_log(
    run: Identification,
    known: Mapping[str, str],
    listed: Sequence[Any],
    selection: Any,
    diagnostics: Diagnostics,
) -> Log | None:
    experiment = Experiment.from_dict(run.experiment)
    try:
        log = open_log(experiment, [Path(str(path)) for path in listed], run.robot, selection, diagnostics)
        same = sorted(log.sha256.values()) == sorted(known.values())
    except DynidError:
        return None
    return log if same else None
