"""A motion from its settings: bounds, what counts, family and search."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import Place, UsageError
from dynid.base.parallel import default_threads
from dynid.base.records import dataclass
from dynid.excitation.collision import CollisionModel, collision_model
from dynid.excitation.criteria import Information, focus_on
from dynid.excitation.design import Problem, Task, check_size, check_start, draws
from dynid.excitation.export import Format, times
from dynid.excitation.knots import with_free_knots
from dynid.excitation.limits import Bounds, MotionLimits, Workspace
from dynid.excitation.plan import Progress, Sheet, Stop, coefficients_of, design_motion
from dynid.excitation.quantities import loaded, payload_information, prediction_focus
from dynid.excitation.sequences import poses_plan, sweep_plan
from dynid.excitation.settings import MotionSettings, MotionTable, PerJoint, SolidTable
from dynid.excitation.shapes import robot_shapes
from dynid.excitation.torque_plan import design_torque
from dynid.excitation.torque_task import TorqueTask
from dynid.robot.mesh import mesh_triangles
from dynid.robot.model import RobotModel
from dynid.robot.shapes import Shape
from dynid.spatial.algebra import placement, rotation_rpy
from dynid.trajectories.basis import Basis, FourierBasis, SplineBasis
from dynid.trajectories.chain import Together
from dynid.trajectories.codec import joints_of, read_motion
from dynid.verbs.knowledge import Current

# A motion starts and ends at rest within so many seconds, or a fifth of its length.
RAMP_SECONDS, RAMP_SHARE = 2.0, 0.2
# Of a Fourier motion: its bandwidth, Hz, and how few and how many harmonics reach it. A first harmonic of one period
# in the motion lets poses vary slowly beside what is fast; see benchmarks/excitation.py.
BANDWIDTH, FEWEST, MOST = 0.8, 8, 16
# Torque sinusoids a joint, and their lowest frequency, Hz: random search suffers more from many of them.
SINUSOIDS, LOWEST = 5, 0.1
# Random motions on which the prediction of torque counts.
PREDICTED = 8


@dataclass(frozen=True)
class Following:
    """How a search is followed.    resume: plan folder to go on from."""

    progress: Progress | None = None
    stop: Stop | None = None
    resume: Path | None = None


def check_output_settings(settings: MotionSettings, robot: RobotModel) -> tuple[Format, ...]:
    """The formats; raises UsageError for one that cannot hold the motion, or a rate out of range, before all work."""
    output, motion = settings.output, settings.motion
    forms = tuple(Format(form) for form in output.formats)
    times(motion.seconds / min(output.stages, default=1.0), output.rate)
    for one in forms:
        one.check(robot.joint_names, motion.family == "torque-sines")
    return forms


def bounds_of(robot: RobotModel, settings: MotionSettings, current: Current) -> Bounds:
    """Limits of joints and torque, surroundings, and what must stay apart.

    Raises UsageError for numbers of another count, and as `robot_shapes`.
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
    own = robot_shapes(robot, None if radius is None else np.atleast_1d(radius))
    last = robot.n_bodies - 1
    held = tuple(_solid(one, last) for one in settings.tool.solids)
    shapes = replace(own, shapes=(*own.shapes, *held))
    obstacles = [
        Shape(
            one.label or f"obstacle {number}",
            -1,
            "box",
            placement(rotation_rpy(np.array(one.rpy)), np.array(one.xyz)),
            one.size,
        )
        for number, one in enumerate(around.obstacles, 1)
    ]
    return collision_model(robot, shapes, around.clearance, obstacles)


def _solid(one: SolidTable, body: int) -> Shape:
    frame = placement(rotation_rpy(np.array(one.rpy)), np.array(one.xyz))
    if one.mesh is not None:
        vertices, triangles = mesh_triangles(Path(one.mesh))
        return Shape("tool", body, "mesh", frame, (), one.scale * vertices, triangles)
    if one.box is not None:
        return Shape("tool", body, "box", frame, one.box)
    if one.cylinder is not None:
        return Shape("tool", body, "cylinder", frame, one.cylinder)
    return Shape("tool", body, "sphere", frame, (float(one.sphere or 0.0),))


def per_joint(value: PerJoint | None, robot: RobotModel, name: str) -> Float | None:
    """One number for all joints, or one each, as (n,); raises UsageError for another count."""
    if value is None:
        return None
    found = np.atleast_1d(np.asarray(value, dtype=np.float64))
    if len(found) not in (1, robot.n):
        raise UsageError(name, found=f"{len(found)} of {name}", expected=f"1 or {robot.n}")
    return np.broadcast_to(found, (robot.n,)).copy()


def motion_of(
    settings: MotionSettings,
    information: Information,
    bounds: Bounds,
    following: Following | None = None,
) -> Sheet:
    """The motion of any family.    Raises UsageError for settings that mean nothing to it, and as the designs do."""
    wanted, search, following = settings.motion, settings.search, following or Following()
    home = None if wanted.start is None else np.array(wanted.start)
    if home is not None and len(home) != information.robot.n:
        raise UsageError(
            "start", found=f"motion.start of {len(home)}", expected=f"{information.robot.n} joints"
        )
    _check_family(wanted, following)
    if wanted.family == "sweep":
        return sweep_plan(information, bounds, wanted.speeds, wanted.joints, home)
    if wanted.family == "poses":
        return poses_plan(information, bounds, wanted.poses, search.seed)
    if wanted.family == "torque-sines":
        return _commanded(settings, information, bounds, home, following)
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
        first=None if following.resume is None else _resumed(task, following.resume),
    )


def _commanded(
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
    own = wanted.family == "spline" and wanted.motions == 1
    searched = wanted.family in ("fourier", "spline")
    there: Mapping[str, bool] = {
        "motion.knots": wanted.knots is not None and wanted.family != "spline",
        "motion.free_knots": wanted.free_knots > 0 and not own,
        "--resume": following.resume is not None and not searched,
        "motion.motions": wanted.motions != 1 and not searched,
        "motion.focus": bool(wanted.focus) and wanted.family in ("sweep", "poses"),
        "motion.start": wanted.start is not None and wanted.family == "poses",
    }
    for key, given in there.items():
        if given:
            raise UsageError("family", found=f"{key} with family '{wanted.family}'", expected="it left out")


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
    """Fourier series of a length, s, by default of one period in it and harmonics up to BANDWIDTH.

    frequency: of the first harmonic, Hz.
    """
    first = max(1.0 / seconds, BANDWIDTH / MOST) if frequency is None else frequency
    # The share keeps a whole number of harmonics from being rounded up.
    count = math.ceil(BANDWIDTH / first * (1.0 - 1e-9))
    return FourierBasis(
        seconds, harmonics or min(max(count, FEWEST), MOST), first, min(RAMP_SECONDS, RAMP_SHARE * seconds)
    )


def _resumed(task: Task, folder: Path) -> Float:
    found, robot = read_motion(folder), task.information.robot
    if found.joints and found.joints != robot.joint_names:
        raise UsageError(
            "resume",
            found=f"a plan of the joints {', '.join(found.joints)}",
            expected=", ".join(robot.joint_names),
            place=Place(file=str(folder)),
        )
    return coefficients_of(task.basis, found.trajectory)


def focused(
    information: Information, focus: Sequence[str], bounds: Bounds, basis: Basis, home: Float | None
) -> Information:
    """The criterion for chosen quantities alone: parameters, predicted torque, or a payload."""
    if not focus:
        return information
    special = [name for name in focus if name == "payload" or name.split(":")[0] == "torque"]
    if special and len(focus) > 1:
        raise UsageError("focus", found=", ".join(focus), expected=f"'{special[0]}' alone")
    if not special:
        return replace(information, focus=focus_on(information.base, focus))
    if focus[0] == "payload":
        return payload_information(information)
    named = focus[0].partition(":")[2]
    predicted = _motion_named(information, named) if named else _drawn(information, bounds, basis, home)
    return replace(information, focus=prediction_focus(information, predicted))


def _motion_named(information: Information, path: str) -> list[tuple[Float, Float, Float]]:
    trajectory = read_motion(Path(path)).trajectory
    if joints_of(trajectory) != information.robot.n:
        raise UsageError(
            "focus", found=f"a motion of {joints_of(trajectory)} joints", expected=f"{information.robot.n}"
        )
    return [trajectory.motion(np.linspace(0.0, trajectory.duration, 1000))]


def _drawn(
    information: Information, bounds: Bounds, basis: Basis, home: Float | None
) -> list[tuple[Float, Float, Float]]:
    task = Task(basis, information, bounds, home)
    check_size(task)
    check_start(task)
    problem = Problem(task)
    found = []
    for X in draws(problem, 2 * PREDICTED, 1)[:PREDICTED]:
        q, dq, ddq = (B @ X for B in problem.values[:3])
        found.append((q, dq, ddq))
    return found
