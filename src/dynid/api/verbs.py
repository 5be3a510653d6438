"""The main verbs as users call them: logs may be data frames, and results have methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dynid.api.measured import measured
from dynid.api.result import Result
from dynid.base.diagnostics import Diagnostics
from dynid.base.progress import Progress
from dynid.identification import pipeline
from dynid.identification.settings import Settings
from dynid.robot.model import RobotModel
from dynid.run import store
from dynid.run.result import Identification, Validation
from dynid.run.validation import validate as score_on


def identify(
    robot: RobotModel,
    log: Any,
    settings: Settings | None = None,
    *,
    validation: Any = None,
    truth: Mapping[str, float] | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    diagnostics: Diagnostics | None = None,
    accept: Sequence[str] = (),
) -> Result:
    """Identifies the robot's dynamics, tau = Y(q, dq, ddq) theta, and judges the model on data that was not fitted.

    log: a Log, or a data frame (pandas, polars, Arrow) with dynid's own column names.
    settings: model, equations, method, signals; None = the default.
    validation: a log or data frame that is held out; without one, contiguous blocks of the log are held out in turn.
    truth: parameter values by name, for simulated robots.    threads: of passes over the log and of
    simulations; None = one, and all processors; results do not depend on it.
    progress: called with (stage, seconds of data done).    diagnostics: receives the warnings, which the result holds
    as well.
    accept: codes of claims that are to warn, not to stop, beside those of the settings.

    Raises UnfitDataError if the log cannot support an identification or physics speaks against it, InputError if it
    cannot be read, UsageError for an accepted code that is not found.
    """
    channels = (settings or Settings()).model.channels()
    found = pipeline.identify(
        robot,
        measured(log, robot, channels),
        settings,
        validation=None if validation is None else measured(validation, robot, channels),
        truth=truth,
        threads=threads,
        progress=progress,
        diagnostics=diagnostics,
        accept=accept,
    )
    return Result.of(found)


def validate(
    result: Identification,
    log: Any,
    diagnostics: Diagnostics | None = None,
    threads: int | None = None,
    *,
    accept: Sequence[str] = (),
) -> Validation:
    """Scores an identified model on a log or data frame, filtered as in the identification.

    A log that the model was fitted on is scored under the name of training data, with a warning.
    accept: codes of claims that are to warn, not to stop, beside those accepted in the identification.
    Raises UnfitDataError if the log has no usable sample or physics speaks against it, UsageError for a code given here
    that is not found.
    """
    return score_on(
        result, measured(log, result.robot, result.terms.channels()), diagnostics, threads, accept=accept
    )


def load(folder: str | Path) -> Result:
    """Reads a run folder back.

    Raises InputError if it is not one or is damaged, ResourceError if it cannot be read.
    """
    return Result.of(store.load(Path(folder)))
