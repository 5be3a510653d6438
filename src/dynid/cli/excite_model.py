"""What dynid excite knows of the robot: the description alone, or a run with its parameters and their covariance."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynid.base.arrays import Float
    from dynid.excitation.criteria import Criterion
    from dynid.robot.model import RobotModel
    from dynid.run.result import Identification

from dynid.cli.excite_parts import Current

SHARE = 0.1


@dataclass(frozen=True)
class Knowledge:
    """The options that say what is known; run is the current model, after the same with all that it recorded."""

    config: Path | None
    run: Path | None
    after: Path | None
    uncertainty: float | None
    sigmas: float
    noise: str | None


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
    from dynid.excitation.plan import information_of, prior_theta
    from dynid.identification.experiment import Experiment

    information = information_of(model, Experiment.read(given.config).terms(), _noise(model, given))
    theta = prior_theta(model, information.terms)
    return Current(replace(information, criterion=criterion), theta, _share(given, known=False))


def _identified(model: RobotModel, folder: Path, given: Knowledge, criterion: Criterion) -> Current:
    from dynid.estimate.residuals import rows_a_sample
    from dynid.excitation.after import information_after
    from dynid.excitation.plan import information_of
    from dynid.excitation.torque_spread import TorqueSpread
    from dynid.run.store import load

    run = load(folder)
    _check_same(model, run, folder)
    residuals = run.training.residuals
    rows = None if residuals is None else rows_a_sample(residuals)
    if given.after is not None:
        information = information_after(model, run.terms, run.factors, run.estimate.sigma, rows)
    else:
        noise = _noise(model, given)
        information = information_of(model, run.terms, _residual(run) if noise is None else noise)
    spread = TorqueSpread.of(
        run.estimate.base, run.estimate.covariance, _residual(run), information.base.rank, given.sigmas
    )
    share = _share(given, known=spread is not None and spread.complete)
    information = replace(information, criterion=criterion)
    return Current(information, run.estimate.parameters, share, spread)


def _noise(model: RobotModel, given: Knowledge) -> Float | None:
    import numpy as np

    from dynid.base.errors import UsageError
    from dynid.cli.excite_parts import numbers

    found = numbers(given.noise, "--noise")
    if found is not None and len(found) not in (1, model.n):
        raise UsageError("noise", found=f"{len(found)} deviations", expected=f"1 or {model.n}")
    return None if found is None else np.broadcast_to(found, (model.n,)).copy()


def _share(given: Knowledge, known: bool) -> float:
    if given.uncertainty is not None:
        return given.uncertainty
    return 0.0 if known else SHARE


def _residual(run: Identification) -> Float:
    # Held-out error counts where it is larger: it is what a motion that was not fitted will show.
    import numpy as np

    every = [one.scores.rms for one in (run.training, *run.validations)]
    return np.asarray(np.nanmax(np.stack(every), axis=0))


def _check_same(model: RobotModel, run: Identification, folder: Path) -> None:
    from dynid.base.errors import Place, UsageError

    own = [column.name for column in run.terms.columns(model)]
    if own != [column.name for column in run.estimate.columns] or run.robot.joint_names != model.joint_names:
        raise UsageError(
            "run-robot",
            found=f"a run of the robot '{run.robot.name}' with other joints or parameters",
            expected=f"a run of '{model.name}' as described",
            do="give the description that was identified",
            place=Place(file=str(folder)),
        )
