"""What dynid excite knows of the robot: the description alone, or a run with its parameters and their covariance."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynid.base.arrays import Float
    from dynid.base.diagnostics import Diagnostics
    from dynid.excitation.criteria import Criterion
    from dynid.robot.model import RobotModel
    from dynid.verbs.excite import Current


@dataclass(frozen=True)
class Knowledge:
    """The options that say what is known; run is the current model, after the same with all that it recorded."""

    config: Path | None
    run: Path | None
    after: Path | None
    uncertainty: float | None
    sigmas: float
    noise: str | None


def as_in_run(model: RobotModel, folder: Path | None, diagnostics: Diagnostics) -> RobotModel:
    """The robot with those joints held that a run had held; folder None = as it is."""
    from dynid.robot.locking import locked
    from dynid.run.store import load

    held = {} if folder is None else load(folder).robot.locked
    values = {joint: value for joint, value in held.items() if joint in model.joint_names}
    return locked(model, values, "", diagnostics)


def current_of(model: RobotModel, given: Knowledge, criterion: Criterion) -> Current:
    """Criterion and model: of the description, of a run, or of a run and what it recorded.

    Raises UsageError for options that do not go together, or a run of another robot.
    """
    from dynid.base.errors import UsageError

    if given.run is not None and given.after is not None:
        raise UsageError(
            "run", found="--run and --after", expected="one of them", do="--after takes the model too"
        )
    if given.after is not None and given.noise is not None:
        raise UsageError("noise", found="--noise with --after", expected="the deviations of that run alone")
    folder = given.run if given.after is None else given.after
    if folder is None:
        return _described(model, given, criterion)
    return _identified(model, folder, given, criterion)


def _described(model: RobotModel, given: Knowledge, criterion: Criterion) -> Current:
    from dynid.identification.experiment import Experiment
    from dynid.verbs.excite import described

    terms = Experiment.read(given.config).terms()
    return described(model, terms, criterion, _noise(model, given), given.uncertainty)


def _identified(model: RobotModel, folder: Path, given: Knowledge, criterion: Criterion) -> Current:
    from dynid.base.errors import Place
    from dynid.run.store import load
    from dynid.verbs.excite import identified

    return identified(
        model,
        load(folder),
        criterion,
        go_on=given.after is not None,
        noise=_noise(model, given),
        share=given.uncertainty,
        sigmas=given.sigmas,
        place=Place(file=str(folder)),
    )


def _noise(model: RobotModel, given: Knowledge) -> Float | None:
    import numpy as np

    from dynid.base.errors import UsageError
    from dynid.cli.excite_parts import numbers

    found = numbers(given.noise, "--noise")
    if found is not None and len(found) not in (1, model.n):
        raise UsageError("noise", found=f"{len(found)} deviations", expected=f"1 or {model.n}")
    return None if found is None else np.broadcast_to(found, (model.n,)).copy()
