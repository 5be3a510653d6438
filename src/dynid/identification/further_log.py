"""Further logs of a finished run: its own held-out ones, and torque equations prepared like the run's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dynid.base.arrays import Bool
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import DynidError
from dynid.factor.assemble import Assembly
from dynid.factor.blocking import Blocking
from dynid.factor.factor import Factors
from dynid.identification.experiment import Experiment, open_log
from dynid.log.read import Log
from dynid.robot.model import RobotModel
from dynid.rows.torque import TorqueRows
from dynid.run.blocks import block_seconds
from dynid.run.result import Identification
from dynid.run.validation import read_samples
from dynid.signals.prepare import prepare
from dynid.signals.settings import Preparation
from dynid.terms.term import Terms


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
