"""Logs whose columns nobody named, opened as `dynid init` would name them where it has nothing to ask."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import InputError, Place, UsageError
from dynid.identification.experiment import Experiment, open_log
from dynid.log.read import Log
from dynid.robot.model import RobotModel

# Code of the note that says which columns were taken.
COLUMNS_FOUND = "columns-found"


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
            if named or error.identifier not in ("no-mapping", "no-effort"):
                raise
            unknown = error
    experiment = _with_columns(experiment, robot, model, logs[0], answers or {}, unknown, diagnostics)
    model = experiment.robot(robot, diagnostics)
    return experiment, open_log(experiment, logs, model, experiment.data.train, diagnostics)


def _with_columns(
    experiment: Experiment,
    robot: str | Path,
    model: RobotModel,
    log: Path,
    answers: Mapping[str, str],
    unknown: InputError | None,
    diagnostics: Diagnostics,
) -> Experiment:
    """The experiment with the tables of a proposal.

    unknown: what stands against the log without them, raised with the questions that are open.
    """
    # Loaded here alone: most logs are read by a mapping.
    from dynid.layouts.excerpt import excerpt
    from dynid.layouts.nameless import is_nameless
    from dynid.layouts.propose import propose
    from dynid.layouts.write import answer_option, columns_in_words, experiment_text

    if unknown is not None and is_nameless(excerpt(log, model.joint_names)):
        raise unknown
    proposal = propose(model, log, answers)
    given = "".join(f" --answer '{key}={value}'" for key, value in answers.items())
    call = f"dynid init {robot} {log}{given}"
    if proposal.open:
        asked = "; ".join(f"{one.key}: {one.question} ({answer_option(one)})" for one in proposal.open)
        error = unknown or InputError(
            "no-mapping", found="answers to some questions", expected="to all", place=Place(file=str(log))
        )
        raise InputError(
            error.identifier,
            found=f"{error.found}; the names of the columns leave open: {asked}",
            expected=error.expected,
            do=error.do
            if call in error.do
            else f"{error.do or 'answer the others, too'}, or let `{call}` ask",
            place=error.place,
        ) from unknown
    tables = tomllib.loads(experiment_text(proposal, call))
    diagnostics.note(
        COLUMNS_FOUND,
        f"columns, as their names and the motion say: {columns_in_words(proposal)}. "
        f"`{call}` says why and writes them into a file that can be changed",
        Place(file=str(log)),
    )
    return experiment.with_robot(tables.pop("robot", {})).with_values(tables)
