"""Logs whose columns nobody named, opened as `dynid init` would name them where it has nothing to ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import InputError, UsageError
from dynid.identification.experiment import Experiment, open_log
from dynid.log.own_columns import UNNAMED
from dynid.log.read import Log
from dynid.robot.model import RobotModel


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
    from dynid.layouts.found import found_tables  # here alone: most logs are read by a mapping

    tables, remark = found_tables(model, robot, logs, answers, unknown)
    diagnostics.note(remark.identifier, remark.text, remark.place)
    return experiment.with_robot(tables.pop("robot", {})).with_values(tables)
