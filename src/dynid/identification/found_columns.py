"""Logs whose columns nobody named, opened as `dynid init` would name them where it has nothing to ask."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import InputError, Place
from dynid.identification.experiment import Experiment, open_log
from dynid.log.read import Log
from dynid.robot.model import RobotModel

# Code of the note that says which columns were taken.
COLUMNS_FOUND = "columns-found"


def open_training(
    experiment: Experiment, robot: str | Path, logs: Sequence[Path], diagnostics: Diagnostics
) -> tuple[Experiment, Log]:
    """The logs that an experiment trains on, and the experiment with all that was read of them.

    robot: file of the description. Columns that are neither dynid's own nor named in [log] are taken as `dynid init`
    finds them, with the joints that it holds and the gains that it reads, if they have names and it has nothing to ask.

    Raises as `load_robot` and `open_log`, with what is left to ask.
    """
    model = experiment.robot(robot, diagnostics)
    try:
        return experiment, open_log(experiment, logs, model, experiment.data.train, diagnostics)
    except InputError as error:
        if error.identifier not in ("no-mapping", "no-effort") or experiment.content.log is not None:
            raise
        experiment = _with_columns(experiment, robot, model, logs[0], error, diagnostics)
    model = experiment.robot(robot, diagnostics)
    return experiment, open_log(experiment, logs, model, experiment.data.train, diagnostics)


def _with_columns(
    experiment: Experiment,
    robot: str | Path,
    model: RobotModel,
    log: Path,
    error: InputError,
    diagnostics: Diagnostics,
) -> Experiment:
    """The experiment with the tables of a proposal; raises the error, with the questions, where it has any."""
    # Loaded here alone: most logs are read by a mapping.
    from dynid.layouts.excerpt import excerpt
    from dynid.layouts.nameless import is_nameless
    from dynid.layouts.propose import propose
    from dynid.layouts.write import columns_in_words, experiment_text

    if is_nameless(excerpt(log, model.joint_names)):
        raise error
    proposal, call = propose(model, log), f"dynid init {robot} {log}"
    if proposal.open:
        asked = "; ".join(f"{one.key}: {one.question}" for one in proposal.open)
        raise InputError(
            error.identifier,
            found=f"{error.found}; the names of the columns leave open: {asked}",
            expected=error.expected,
            do=error.do if call in error.do else f"{error.do}, or let `{call}` ask",
            place=error.place,
        ) from error
    tables = tomllib.loads(experiment_text(proposal, call))
    diagnostics.note(
        COLUMNS_FOUND,
        f"columns, as their names and the motion say: {columns_in_words(proposal)}. "
        f"`{call}` says why and writes them into a file that can be changed",
        Place(file=str(log)),
    )
    return experiment.with_robot(tables.pop("robot", {})).with_values(tables)
