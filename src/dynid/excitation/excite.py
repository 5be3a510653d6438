"""Design of a motion for identification in one call."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dynid.base import Float, Place, UsageError, dataclass, default_threads
from dynid.estimate import beyond_noise, noise_rows_a_sample, rows_a_sample
from dynid.excitation.collision import CollisionModel, collision_model
from dynid.excitation.design import (
    Criterion,
    Information,
    Problem,
    Task,
    check_size,
    check_start,
    draws,
    focus_on,
    loaded,
    payload_information,
    prediction_focus,
    with_free_knots,
)
from dynid.excitation.folder import check_output, plan_html, write_plan
from dynid.excitation.gradient import Whole
from dynid.excitation.limits import Bounds, MotionLimits, TorqueSpread, Workspace
from dynid.excitation.plan import (
    Progress,
    Sheet,
    Stop,
    coefficients_of,
    design_motion,
    information_after,
    information_of,
    prior_theta,
)
from dynid.excitation.sequences import poses_plan, sweep_plan
from dynid.excitation.settings import (
    Format,
    MotionSettings,
    MotionTable,
    PerJoint,
    SolidTable,
    read_plan_file,
    times,
)
from dynid.excitation.shapes import robot_shapes
from dynid.excitation.torque_plan import TorqueTask, design_torque
from dynid.robot import RobotModel, Shape, mesh_triangles
from dynid.run import Identification
from dynid.spatial import placement, rotation_rpy
from dynid.terms import DEFAULT_TERMS, Terms
from dynid.trajectories import Basis, FourierBasis, SplineBasis, Together, joints_of, read_motion

# Knowledge of the robot during a design: its file alone, or a run.

# Relative torque error of robot files, whose masses are approximate.
DESCRIBED_SHARE = 0.1


@dataclass(frozen=True)
class Current:
    """What is known of the robot: criterion, current parameters (p,), and torque reserve (share, spread, or both)."""

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
    """What the robot file alone provides.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    terms : Terms
        The model.
    criterion : Criterion
        The criterion.
    noise : ndarray, shape (n_joints,), optional, N m or N
        Expected torque noise.
    share : float, optional
        Relative torque error that limits allow for; DESCRIBED_SHARE without it.

    Returns
    -------
    Current
        Criterion, parameters and reserve.

    """
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
    """What a run provides: its parameters and, if it determines all of them, the uncertainty of their torque.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    run : Identification
        The run.
    criterion : Criterion
        The criterion.
    go_on : bool
        Whether the run's log counts too.
    noise : ndarray, shape (n_joints,), optional, N m or N
        Expected torque noise; the run's without it.
    share : float, optional
        Relative torque error that limits allow for.
    sigmas : float
        Torque reserve in standard deviations.
    place : Place, optional
        The run, for messages.

    Returns
    -------
    Current
        Criterion, parameters and reserve.

    Raises
    ------
    UsageError
        If the run is of another robot.

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
    """Joints whose residuals are correlated over much longer times than noise behind the same filter.

    There the model is wrong, by amounts that depend on the motion. A design that takes residuals for noise expects
    intervals for the next log that are too narrow, by up to 1.7 times in simulation.
    """
    residuals, used = run.training.residuals, run.preparation.get("settings")
    if residuals is None or not isinstance(used, Mapping):
        return ()
    white = noise_rows_a_sample(residuals.rate, used["cutoff"], used["order"])
    beyond = beyond_noise(rows_a_sample(residuals), white)
    return tuple(name for name, far in zip(residuals.joint_names, beyond, strict=True) if far)


def _deviation(run: Identification) -> Float:
    # Held-out error, where it is larger, is that of a new motion.
    every = [part.scores.rms for part in (run.training, *run.validations)]
    return np.asarray(np.nanmax(np.stack(every), axis=0))


def _check_same(robot: RobotModel, run: Identification, place: Place | None) -> None:
    names = [column.name for column in run.terms.columns(robot)]
    if (
        names != [column.name for column in run.estimate.columns]
        or run.robot.joint_names != robot.joint_names
    ):
        raise UsageError(
            "run-robot",
            found=f"a run of the robot '{run.robot.name}' with other joints or parameters",
            expected=f"a run of '{robot.name}' with the joints and terms given here",
            do="give the robot file that was identified",
            place=place or Place(),
        )


# A motion from its settings: limits, criterion, family and search.

# s, and share of the length: ramp from rest and to rest, the shorter of both.
RAMP_SECONDS, RAMP_SHARE = 2.0, 0.2
# Hz: bandwidth of a Fourier motion, and its fewest and most harmonics. A first harmonic with one period in the motion
# adds slow changes of pose to fast motion; see benchmarks/excitation.py.
BANDWIDTH, FEWEST, MOST = 0.8, 8, 16
# Torque sinusoids per joint, and their lowest frequency, Hz: random search needs few variables.
SINUSOIDS, LOWEST = 5, 0.1
# Random motions on which the prediction of torque is evaluated.
PREDICTED = 8


@dataclass(frozen=True)
class Following:
    """How a search is followed.    resume: plan folder from which to continue."""

    progress: Progress | None = None
    stop: Stop | None = None
    resume: Path | None = None


def check_output_settings(settings: MotionSettings, robot: RobotModel) -> tuple[Format, ...]:
    """The file formats; raises UsageError before all work if one cannot store the motion, or a rate is out of range."""
    output, motion = settings.output, settings.motion
    forms = tuple(Format(form) for form in output.formats)
    times(motion.seconds / min(output.stages, default=1.0), output.rate)
    for wanted_form in forms:
        wanted_form.check(robot.joint_names, motion.family == "torque-sines")
    return forms


def bounds_of(robot: RobotModel, settings: MotionSettings, current: Current) -> Bounds:
    """Limits of joints and torque, surroundings, and pairs that must stay apart.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    settings : MotionSettings
        The settings.
    current : Current
        What is known of the robot.

    Returns
    -------
    Bounds
        The limits.

    Raises
    ------
    UsageError
        If a list has the wrong length; further errors as for `robot_shapes`.

    """
    given, around, tool = settings.limits, settings.surroundings, settings.tool
    limits = MotionLimits.of(
        robot,
        share=given.share,
        **{
            name: None if (value := getattr(given, name)) is None else np.atleast_1d(value)
            for name in ("velocity", "acceleration", "jerk", "torque", "lower", "upper")
        },
    )
    tip = None if tool.point is None else np.array(tool.point)
    theta = current.theta
    if theta is not None and tool.payload > 0:
        at = np.zeros(3) if tip is None else tip
        theta = loaded(robot, current.information.terms, theta, tool.payload, at)
    collision = _collision(robot, settings)
    corners = None if around.box is None else np.reshape(around.box, (2, 3))
    space = Workspace.of(robot, around.floor, corners, tip, collision, around.planes)
    return Bounds(
        limits,
        theta,
        current.share,
        space,
        collision,
        around.clearance,
        None if theta is None else current.spread,
        tip,
        np.inf if given.tcp_speed is None else given.tcp_speed,
    )


def _collision(robot: RobotModel, settings: MotionSettings) -> CollisionModel:
    radius, around = settings.shapes.radius, settings.surroundings
    link_shapes = robot_shapes(robot, None if radius is None else np.atleast_1d(radius))
    last = robot.n_bodies - 1
    tool_shapes = tuple(_solid(entry, last) for entry in settings.tool.solids)
    shapes = replace(link_shapes, shapes=(*link_shapes.shapes, *tool_shapes))
    obstacles = [
        Shape(
            entry.label or f"obstacle {number}",
            -1,
            "box",
            placement(rotation_rpy(np.array(entry.rpy)), np.array(entry.xyz)),
            entry.size,
        )
        for number, entry in enumerate(around.obstacles, 1)
    ]
    return collision_model(robot, shapes, around.clearance, obstacles)


def _solid(solid: SolidTable, body: int) -> Shape:
    frame = placement(rotation_rpy(np.array(solid.rpy)), np.array(solid.xyz))
    if solid.mesh is not None:
        vertices, triangles = mesh_triangles(Path(solid.mesh))
        return Shape("tool", body, "mesh", frame, (), solid.scale * vertices, triangles)
    if solid.box is not None:
        return Shape("tool", body, "box", frame, solid.box)
    if solid.cylinder is not None:
        return Shape("tool", body, "cylinder", frame, solid.cylinder)
    return Shape("tool", body, "sphere", frame, (float(solid.sphere or 0.0),))


def per_joint(value: PerJoint | None, robot: RobotModel, name: str) -> Float | None:
    """One number for all joints, or one per joint, as (n,); raises UsageError for another count."""
    if value is None:
        return None
    values = np.atleast_1d(np.asarray(value, dtype=np.float64))
    if len(values) not in (1, robot.n):
        raise UsageError(name, found=f"{len(values)} numbers in {name}", expected=f"1 or {robot.n}")
    return np.broadcast_to(values, (robot.n,)).copy()


def motion_of(
    settings: MotionSettings,
    information: Information,
    bounds: Bounds,
    following: Following | None = None,
) -> Sheet:
    """Design a motion of any family.

    Parameters
    ----------
    settings : MotionSettings
        The settings.
    information : Information
        The criterion.
    bounds : Bounds
        The limits.
    following : Following, optional
        Progress, stop and an earlier motion.

    Returns
    -------
    Sheet
        The motion.

    Raises
    ------
    UsageError
        If a setting has no meaning for the family; further errors as for the designs.

    """
    wanted, search, following = settings.motion, settings.search, following or Following()
    home = None if wanted.start is None else np.array(wanted.start)
    if home is not None and len(home) != information.robot.n:
        raise UsageError(
            "start",
            found=f"motion.start of {len(home)} numbers",
            expected=f"{information.robot.n}, one per joint",
        )
    _check_family(wanted, following)
    if wanted.family == "sweep":
        return sweep_plan(information, bounds, wanted.speeds, wanted.joints, home)
    if wanted.family == "poses":
        return poses_plan(information, bounds, wanted.poses, search.seed)
    if wanted.family == "torque-sines":
        return _torque_motion(settings, information, bounds, home, following)
    basis = _basis(wanted)
    task = Task(basis, focused(information, wanted.focus, bounds, basis, home), bounds, home)
    if wanted.free_knots:
        task = with_free_knots(task, wanted.free_knots, search.seed)
    return design_motion(
        task,
        search.starts,
        search.iterations,
        search.seed,
        workers=search.workers or default_threads(),
        progress=following.progress,
        stop=following.stop,
        first=None if following.resume is None else _earlier_coefficients(task, following.resume),
    )


def _torque_motion(
    settings: MotionSettings,
    information: Information,
    bounds: Bounds,
    home: Float | None,
    following: Following,
) -> Sheet:
    wanted, search, seconds = settings.motion, settings.search, settings.motion.seconds
    harmonics = wanted.harmonics or SINUSOIDS
    lowest = wanted.frequency or LOWEST
    ramp, highest = min(RAMP_SECONDS, RAMP_SHARE * seconds), lowest * harmonics
    if wanted.focus:
        basis = FourierBasis(seconds, harmonics, lowest, ramp)
        information = focused(information, wanted.focus, bounds, basis, None)
    task = TorqueTask(information, bounds, seconds, harmonics, lowest, highest, ramp, home)
    return design_torque(
        task, search.starts, search.iterations, search.seed, following.progress, following.stop
    )


def _check_family(wanted: MotionTable, following: Following) -> None:
    plain_spline = wanted.family == "spline" and wanted.motions == 1
    searched = wanted.family in ("fourier", "spline")
    there: Mapping[str, bool] = {
        "motion.knots": wanted.knots is not None and wanted.family != "spline",
        "motion.free_knots": wanted.free_knots > 0 and not plain_spline,
        "--resume": following.resume is not None and not searched,
        "motion.motions": wanted.motions != 1 and not searched,
        "motion.focus": bool(wanted.focus) and wanted.family in ("sweep", "poses"),
        "motion.start": wanted.start is not None and wanted.family == "poses",
    }
    for key, given in there.items():
        if given:
            raise UsageError(
                "family",
                found=f"{key} with family '{wanted.family}', which does not use it",
                expected="a family that uses it",
                do=f"remove {key}, or choose another motion.family",
            )


def _basis(wanted: MotionTable) -> Basis:
    seconds = wanted.seconds
    if wanted.family == "fourier":
        basis: Basis = fourier_basis(seconds, wanted.harmonics, wanted.frequency)
    else:
        basis = SplineBasis(seconds, wanted.pieces, wanted.knots or ())
    return basis if wanted.motions == 1 else Together((basis,) * wanted.motions)


def fourier_basis(
    seconds: float, harmonics: int | None = None, frequency: float | None = None
) -> FourierBasis:
    """Fourier series of a given length, by default with one period in it and harmonics up to BANDWIDTH.

    Parameters
    ----------
    seconds : float, s
        Length.
    harmonics : int, optional
        Number of harmonics.
    frequency : float, optional, Hz
        First harmonic.

    Returns
    -------
    FourierBasis
        The family.

    """
    first = max(1.0 / seconds, BANDWIDTH / MOST) if frequency is None else frequency
    # The factor prevents rounding errors from adding a harmonic.
    count = math.ceil(BANDWIDTH / first * (1.0 - 1e-9))
    return FourierBasis(
        seconds, harmonics or min(max(count, FEWEST), MOST), first, min(RAMP_SECONDS, RAMP_SHARE * seconds)
    )


def _earlier_coefficients(task: Task, folder: Path) -> Float:
    earlier, robot = read_motion(folder), task.information.robot
    if earlier.joints and earlier.joints != robot.joint_names:
        raise UsageError(
            "resume",
            found=f"a plan of the joints {', '.join(earlier.joints)}",
            expected=", ".join(robot.joint_names),
            place=Place(file=str(folder)),
        )
    return coefficients_of(task.basis, earlier.trajectory)


def focused(
    information: Information, focus: Sequence[str], bounds: Bounds, basis: Basis, home: Float | None
) -> Information:
    """The criterion for selected quantities only: parameters, predicted torque, or a payload.

    Parameters
    ----------
    information : Information
        The criterion.
    focus : sequence of str
        Names of parameters, "torque", "torque:MOTION" or "payload".
    bounds : Bounds
        The limits of random motions for "torque".
    basis : Basis
        Family of these motions.
    home : ndarray, shape (n_joints,), optional
        Their start pose.

    Returns
    -------
    Information
        The criterion.

    """
    if not focus:
        return information
    special = [name for name in focus if name == "payload" or name.split(":")[0] == "torque"]
    if special and len(focus) > 1:
        raise UsageError("focus", found=", ".join(focus), expected=f"only '{special[0]}'")
    if not special:
        return replace(information, focus=focus_on(information.base, focus))
    if focus[0] == "payload":
        return payload_information(information)
    named = focus[0].partition(":")[2]
    predicted = (
        _planned_motion(information, named) if named else _random_motions(information, bounds, basis, home)
    )
    return replace(information, focus=prediction_focus(information, predicted))


def _planned_motion(information: Information, path: str) -> list[tuple[Float, Float, Float]]:
    trajectory = read_motion(Path(path)).trajectory
    if joints_of(trajectory) != information.robot.n:
        raise UsageError(
            "focus", found=f"a motion of {joints_of(trajectory)} joints", expected=f"{information.robot.n}"
        )
    return [trajectory.motion(np.linspace(0.0, trajectory.duration, 1000))]


def _random_motions(
    information: Information, bounds: Bounds, basis: Basis, home: Float | None
) -> list[tuple[Float, Float, Float]]:
    task = Task(basis, information, bounds, home)
    check_size(task)
    check_start(task)
    problem = Problem(task)
    motions = []
    for X in draws(problem, 2 * PREDICTED, 1)[:PREDICTED]:
        q, dq, ddq = (B @ X for B in problem.values[:3])
        motions.append((q, dq, ddq))
    return motions


def excite(
    robot: RobotModel,
    *,
    plan: str | Path | MotionSettings | None = None,
    seconds: float | None = None,
    harmonics: int | None = None,
    frequency: float | None = None,
    run: Identification | None = None,
    after: Identification | None = None,
    share: float | None = None,
    start: npt.ArrayLike | None = None,
    floor: float | None = None,
    box: npt.ArrayLike | None = None,
    tool: npt.ArrayLike | None = None,
    payload: float | None = None,
    radius: npt.ArrayLike | None = None,
    clearance: float | None = None,
    starts: int | None = None,
    iterations: int | None = None,
    seed: int | None = None,
    workers: int | None = None,
    out: str | Path | None = None,
    formats: Sequence[str] | None = None,
) -> Sheet:
    """Design a motion that determines the base parameters best, within the limits of joints, torque and space.

    The robot's shapes stay apart from one another and from the surroundings. The finished motion is verified with the
    package coal if it is installed; `plan.checks` says what could not be checked.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    plan : str, Path or MotionSettings, optional
        motion.toml, or settings; the other parameters replace its keys.
    seconds : float, optional, s
        Length of the motion.
    harmonics : int, optional
        Harmonics of the Fourier series.
    frequency : float, optional, Hz
        First harmonic.
    run : Identification, optional
        Run whose model is used for torque limits; the robot file without it.
    after : Identification, optional
        The same, and its log counts too: designs what to record next.
    share : float, optional
        Share of every joint limit that the motion may use.
    start : array_like, shape (n_joints,), optional, rad or m
        Pose at both ends.
    floor : float, optional, m
        Height of the floor.
    box : array_like, shape (2, 3), optional, m
        Corners of a box that the robot stays within.
    tool : array_like, shape (3,), optional, m
        Tool point in the last joint frame.
    payload : float, optional, kg
        Mass at the tool point, for torque limits.
    radius : array_like, optional, m
        Radius of capsules that replace the robot's shapes, one number or one per link.
    clearance : float, optional, m
        Distance that links keep.
    starts, iterations, seed : int, optional
        Size and seed of the search.
    workers : int, optional
        Number of processes; the motion does not depend on it.
    out : str or Path, optional
        Folder to write the plan to; nothing is written without it.
    formats : sequence of str, optional
        File formats of the motion.

    Returns
    -------
    Sheet
        The plan.

    Raises
    ------
    UsageError
        If options exclude one another.
    UnfitDataError
        If a limit cannot be met; it names the limit.

    References
    ----------
    Swevers et al. 1997.

    """
    if run is not None and after is not None:
        raise UsageError(
            "run",
            found="both run and after",
            expected="one of them",
            do="keep after, which uses the model too",
        )
    given = (
        MotionSettings()
        if plan is None
        else plan
        if isinstance(plan, MotionSettings)
        else read_plan_file(plan)
    )
    settings = with_values(
        given,
        motion={"seconds": seconds, "harmonics": harmonics, "frequency": frequency, "start": _numbers(start)},
        limits={"share": share},
        surroundings={"floor": floor, "box": _numbers(box), "clearance": clearance},
        tool={"point": _numbers(tool), "payload": payload},
        shapes={"radius": _numbers(radius)},
        search={
            "starts": starts, "iterations": iterations, "seed": seed, "workers": workers or given.search.workers or 1,
        },
        output={"formats": None if formats is None else tuple(formats)},
    )  # fmt: skip
    check_output_settings(settings, robot)
    if out is not None:
        check_output(Path(out), (), force=False)
    current = known_of(robot, settings, run, after)
    made = motion_of(settings, current.information, bounds_of(robot, settings, current))
    if out is not None:
        write_plan(made, Path(out), settings, plan_html(made))
    return made


def known_of(
    robot: RobotModel, settings: MotionSettings, run: Identification | None, after: Identification | None
) -> Current:
    """What the robot file, or a run, provides.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    settings : MotionSettings
        The settings.
    run, after : Identification, optional
        As for `excite`.

    Returns
    -------
    Current
        Criterion, parameters and reserve.

    """
    limits, criterion = settings.limits, Criterion(settings.motion.criterion)
    noise = per_joint(limits.noise, robot, "limits.noise")
    known = run if after is None else after
    if known is None:
        return described(robot, DEFAULT_TERMS, criterion, noise, limits.uncertainty)
    return identified(
        robot,
        known,
        criterion,
        go_on=after is not None,
        noise=noise,
        share=limits.uncertainty,
        sigmas=limits.sigmas,
    )


def with_values(settings: MotionSettings, **tables: dict[str, Any]) -> MotionSettings:
    """The settings with some keys replaced; None leaves a key as it is."""
    changed = {
        name: replace(getattr(settings, name), **{key: x for key, x in values.items() if x is not None})
        for name, values in tables.items()
    }
    return replace(settings, **changed)


def _numbers(values: npt.ArrayLike | None) -> tuple[float, ...] | None:
    return None if values is None else tuple(float(x) for x in np.ravel(np.asarray(values, dtype=np.float64)))
