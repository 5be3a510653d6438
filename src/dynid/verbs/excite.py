"""A motion worth recording, designed in one call; and what is known of the robot while it is designed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dynid.base.arrays import Float
from dynid.base.errors import Place, UsageError
from dynid.estimate.residuals import rows_a_sample
from dynid.excitation.after import information_after
from dynid.excitation.capsules import link_capsules
from dynid.excitation.criteria import Criterion, Information
from dynid.excitation.design import Task
from dynid.excitation.export import Format
from dynid.excitation.folder import check_output, write_plan
from dynid.excitation.limits import Bounds, MotionLimits, Workspace
from dynid.excitation.plan import Plan, design_motion, information_of, prior_theta
from dynid.excitation.quantities import loaded
from dynid.excitation.torque_spread import TorqueSpread
from dynid.identification.settings import DEFAULT_TERMS
from dynid.report.plan import plan_html
from dynid.robot.model import RobotModel
from dynid.run.result import Identification
from dynid.terms.term import Terms
from dynid.trajectories.basis import FourierBasis

# By so much may torque exceed that of a description, whose masses are rough.
DESCRIBED_SHARE = 0.1
# A motion starts and ends at rest within so many seconds, or a fifth of its length.
RAMP_SECONDS, RAMP_SHARE = 2.0, 0.2


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
    spread = TorqueSpread.of(
        run.estimate.base, run.estimate.covariance, _deviation(run), information.base.rank, sigmas
    )
    known = spread is not None and spread.complete
    rest = (0.0 if known else DESCRIBED_SHARE) if share is None else share
    return Current(replace(information, criterion=criterion), run.estimate.parameters, rest, spread)


def excite(
    robot: RobotModel,
    *,
    seconds: float = 30.0,
    harmonics: int = 5,
    frequency: float = 0.1,
    run: Identification | None = None,
    after: Identification | None = None,
    share: float = 0.95,
    start: npt.ArrayLike | None = None,
    floor: float | None = None,
    box: npt.ArrayLike | None = None,
    tool: npt.ArrayLike | None = None,
    payload: float = 0.0,
    radius: npt.ArrayLike | None = None,
    clearance: float = 0.02,
    starts: int = 4,
    iterations: int = 80,
    seed: int = 0,
    workers: int = 1,
    out: str | Path | None = None,
    formats: Sequence[str] = ("csv",),
) -> Plan:
    """Designs a Fourier motion that determines the base parameters best, within the limits of joints, torque and space.

    seconds: length.    harmonics, frequency: of the series; Hz of the first harmonic.
    run: the current model, for torque limits; None = the description.    after: the same, and what it recorded counts.
    share: of every joint limit that is used.    start: (n,) pose at both ends.
    floor: height that points stay above, m.    box: (2, 3) corners that points stay within, m.
    tool: (3,) its point in the last joint frame, m.    payload: mass at the tool, kg, for torque limits.
    radius: of the links' capsules, one or each, m; None = links are not compared.    clearance: between them, m.
    starts, iterations: of the search.    workers: processes; the motion does not depend on it.
    out: folder for the plan with the motion in `formats`; None = nothing is written.

    Raises UsageError for options that do not go together, UnfitDataError naming the bound that cannot be met.
    Source: Swevers et al. 1997.
    """
    if run is not None and after is not None:
        raise UsageError("run", found="run and after", expected="one of them", do="after takes the model too")
    if unknown := [form for form in formats if form not in [*Format]]:
        raise UsageError("format", found=f"format '{unknown[0]}'", expected="one of " + ", ".join(Format))
    forms = tuple(Format(form) for form in formats)
    if out is not None:
        check_output(Path(out), (), force=False)
    known = run if after is None else after
    current = (
        described(robot, DEFAULT_TERMS, Criterion.LOGDET)
        if known is None
        else identified(robot, known, Criterion.LOGDET, go_on=after is not None)
    )
    tip = None if tool is None else np.asarray(tool, dtype=np.float64)
    capsules = None if radius is None else link_capsules(robot, np.atleast_1d(radius), tip, clearance)
    theta = current.theta
    if theta is not None and payload > 0:
        theta = loaded(robot, current.information.terms, theta, payload, np.zeros(3) if tip is None else tip)
    space = Workspace.of(robot, floor, box, tip, capsules)
    bounds = Bounds(
        MotionLimits.of(robot, share=share),
        theta,
        current.share,
        space,
        capsules,
        clearance,
        None if theta is None else current.spread,
    )
    basis = FourierBasis(seconds, harmonics, frequency, min(RAMP_SECONDS, RAMP_SHARE * seconds))
    home = None if start is None else np.asarray(start, dtype=np.float64)
    plan = design_motion(
        Task(basis, current.information, bounds, home), starts, iterations, seed, workers=workers
    )
    if out is not None:
        settings = {"seed": seed, "starts": starts, "iterations": iterations, "share": share}
        write_plan(plan, Path(out), forms, 100.0, settings, plan_html(plan))
    return plan


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
