"""What is known of the robot while a motion is designed: its description alone, or a run of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import Place, UsageError
from dynid.base.records import dataclass
from dynid.estimate.residuals import beyond_noise, noise_rows_a_sample, rows_a_sample
from dynid.excitation.after import information_after
from dynid.excitation.criteria import Criterion, Information
from dynid.excitation.left_out import Whole
from dynid.excitation.plan import information_of, prior_theta
from dynid.excitation.torque_spread import TorqueSpread
from dynid.robot.model import RobotModel
from dynid.run.result import Identification
from dynid.terms.term import Terms

# By so much may torque exceed that of a description, whose masses are rough.
DESCRIBED_SHARE = 0.1


@dataclass(frozen=True)
class Current:
    """Criterion, current parameters (p,), and what torque limits keep free: a share, a spread, or both."""

    information: Information
    theta: Float | None
    share: float
    spread: TorqueSpread | None = None


def described(
    robot: RobotModel,
    terms: Terms,
    criterion: Criterion,
    noise: Float | None = None,
    share: float | None = None,
) -> Current:
    """What the description alone gives.    share: by which torque may exceed it; None = DESCRIBED_SHARE."""
    information = information_of(robot, terms, noise)
    theta = prior_theta(robot, information.terms)
    return Current(
        replace(information, criterion=criterion), theta, DESCRIBED_SHARE if share is None else share
    )


def identified(
    robot: RobotModel,
    run: Identification,
    criterion: Criterion,
    *,
    go_on: bool = False,
    noise: Float | None = None,
    share: float | None = None,
    sigmas: float = 3.0,
    place: Place | None = None,
) -> Current:
    """What a run gives: its parameters and, where it informs all of them, the spread of their torque.

    go_on: whether what it recorded counts.    noise: (n,) deviations of the torque; None = those of the run.
    sigmas: standard deviations of torque that limits keep free.    place: of the run, for messages.
    Raises UsageError for a run of another robot.
    """
    _check_same(robot, run, place)
    residuals = run.training.residuals
    rows = None if residuals is None else rows_a_sample(residuals)
    if go_on:
        information = information_after(robot, run.terms, run.factors, run.estimate.sigma, rows)
    else:
        information = information_of(robot, run.terms, _deviation(run) if noise is None else noise)
    base = run.estimate.base
    apart = Whole(information.terms).parameters(robot)[base.independent]
    rank = information.base.rank + int(apart.sum())
    spread = TorqueSpread.of(base, run.estimate.covariance, _deviation(run), rank, sigmas)
    known = spread is not None and spread.complete
    rest = (0.0 if known else DESCRIBED_SHARE) if share is None else share
    return Current(replace(information, criterion=criterion), run.estimate.parameters, rest, spread)


def correlated_joints(run: Identification) -> tuple[str, ...]:
    """Joints whose residuals are correlated over far longer than noise that passed the same filter.

    There the model errs, by amounts that depend on the motion; a design that takes residuals for noise expects
    intervals of the next recording that are too narrow, by up to 1.7 times in simulation.
    """
    residuals, used = run.training.residuals, run.preparation.get("settings")
    if residuals is None or not isinstance(used, Mapping):
        return ()
    white = noise_rows_a_sample(residuals.rate, used["cutoff"], used["order"])
    beyond = beyond_noise(rows_a_sample(residuals), white)
    return tuple(name for name, far in zip(residuals.joint_names, beyond, strict=True) if far)


def _deviation(run: Identification) -> Float:
    # Held-out error counts where it is larger: it is what a motion that was not fitted will show.
    every = [one.scores.rms for one in (run.training, *run.validations)]
    return np.asarray(np.nanmax(np.stack(every), axis=0))


def _check_same(robot: RobotModel, run: Identification, place: Place | None) -> None:
    own = [column.name for column in run.terms.columns(robot)]
    if own != [column.name for column in run.estimate.columns] or run.robot.joint_names != robot.joint_names:
        raise UsageError(
            "run-robot",
            found=f"a run of the robot '{run.robot.name}' with other joints or parameters",
            expected=f"a run of '{robot.name}' as described",
            do="give the description that was identified",
            place=place or Place(),
        )
