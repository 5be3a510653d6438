"""Options of dynid excite as the objects that a plan is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from dynid.arrays import Float
    from dynid.excite.basis import Basis
    from dynid.excite.capsules import Capsules
    from dynid.excite.criteria import Information
    from dynid.excite.limits import Bounds
    from dynid.excite.plan import Sheet
    from dynid.robot.model import RobotModel

Word = TypeVar("Word", bound=StrEnum)
PREDICTED, STATES = 8, 2000


@dataclass(frozen=True)
class Given:
    """The bounds as the command line has them."""

    share: float
    velocity: str | None
    acceleration: str | None
    jerk: str | None
    torque: str | None
    lower: str | None
    upper: str | None
    uncertainty: float
    payload: float
    floor: float | None
    box: str | None
    planes: Sequence[str]
    tool: str | None
    radius: str | None
    shapes: bool
    packages: Path | None
    root: str | None
    clearance: float


def model_of(
    model: RobotModel, config: Path | None, after: Path | None, criterion: str
) -> tuple[Information, Float | None]:
    """Criterion and current parameters: of the description, or of a run and what it had recorded."""
    from dataclasses import replace

    from dynid.excite.after import information_after, rows_a_sample
    from dynid.excite.criteria import Criterion
    from dynid.excite.plan import information_of, prior_theta
    from dynid.recipe import Experiment
    from dynid.store import load

    chosen = word(criterion, Criterion, "criterion")
    if after is None:
        information = information_of(model, Experiment.read(config).terms())
        return replace(information, criterion=chosen), prior_theta(model, information.terms)
    run = load(after)
    residuals = run.training.residuals
    correlation = None if residuals is None else rows_a_sample(residuals)
    information = information_after(model, run.terms, run.factors, run.estimate.sigma, correlation)
    return replace(information, criterion=chosen), run.estimate.parameters


def bounds_of(
    model: RobotModel, file: Path, information: Information, theta: Float | None, given: Given
) -> Bounds:
    """Limits of joints and torque, surroundings, capsules."""
    import numpy as np

    from dynid.excite.limits import Bounds, MotionLimits, Workspace
    from dynid.excite.quantities import loaded

    limits = MotionLimits.of(
        model,
        acceleration=numbers(given.acceleration, "--acceleration"),
        jerk=numbers(given.jerk, "--jerk"),
        share=given.share,
        velocity=numbers(given.velocity, "--velocity"),
        lower=numbers(given.lower, "--lower"),
        upper=numbers(given.upper, "--upper"),
        torque=numbers(given.torque, "--torque"),
    )
    tip = numbers(given.tool, "--tool", 3)
    corners = numbers(given.box, "--box", 6)
    capsules = _capsules(model, file, given, tip)
    if theta is not None and given.payload > 0:
        theta = loaded(model, information.terms, theta, given.payload, np.zeros(3) if tip is None else tip)
    planes = [required(text, "--plane", 4) for text in given.planes]
    space = Workspace.of(
        model, given.floor, None if corners is None else corners.reshape(2, 3), tip, capsules, planes
    )
    return Bounds(limits, theta, given.uncertainty, space, capsules, given.clearance)


def _capsules(model: RobotModel, file: Path, given: Given, tip: Float | None) -> Capsules | None:
    from dynid.errors import UsageError
    from dynid.excite.capsules import link_capsules
    from dynid.excite.shapes import shape_capsules

    if given.shapes and given.radius is not None:
        raise UsageError("capsules", found="--shapes and --radius", expected="one of them")
    if given.shapes:
        return shape_capsules(model, file, given.packages, given.root, given.clearance)
    radius = numbers(given.radius, "--radius")
    return None if radius is None else link_capsules(model, radius, tip, given.clearance)


def focused(
    information: Information, focus: Sequence[str], bounds: Bounds, basis: Basis, home: Float | None
) -> Information:
    """The criterion for chosen quantities alone: parameters, predicted torque, or a payload."""
    from dataclasses import replace

    from dynid.errors import UsageError
    from dynid.excite.criteria import focus_on
    from dynid.excite.quantities import payload_information, prediction_focus

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
    predicted = _motion_of(information, named) if named else _drawn(information, bounds, basis, home)
    return replace(information, focus=prediction_focus(information, predicted))


def _motion_of(information: Information, path: str) -> list[tuple[Float, Float, Float]]:
    import numpy as np

    from dynid.errors import UsageError
    from dynid.excite.codec import joints_of, read_motion

    trajectory = read_motion(Path(path)).trajectory
    if joints_of(trajectory) != information.robot.n:
        raise UsageError(
            "focus", found=f"a motion of {joints_of(trajectory)} joints", expected=f"{information.robot.n}"
        )
    return [trajectory.motion(np.linspace(0.0, trajectory.duration, 1000))]


def _drawn(
    information: Information, bounds: Bounds, basis: Basis, home: Float | None
) -> list[tuple[Float, Float, Float]]:
    from dynid.excite.design import Problem, Task, check_size, check_start, draws

    task = Task(basis, information, bounds, home)
    check_size(task)
    check_start(task)
    problem = Problem(task)
    found = []
    for X in draws(problem, 2 * PREDICTED, 1)[:PREDICTED]:
        q, dq, ddq = (B @ X for B in problem.values[:3])
        found.append((q, dq, ddq))
    return found


def family_of(family: str, time: float, harmonics: int, frequency: float, pieces: int, motions: int) -> Basis:
    """The family of motions, or several of it from one pose."""
    from dynid.errors import UsageError
    from dynid.excite.basis import FourierBasis, SplineBasis
    from dynid.excite.chain import Together

    if family == "fourier":
        basis: Basis = FourierBasis(time, harmonics, frequency, min(2.0, 0.2 * time))
    elif family == "spline":
        basis = SplineBasis(time, pieces)
    else:
        expected = "fourier, spline, sweep or poses"
        raise UsageError("family", found=f"family '{family}'", expected=expected)
    return basis if motions == 1 else Together((basis,) * motions)


def refuse_with(family: str, given: Mapping[str, bool]) -> None:
    """Raises UsageError for options that mean nothing to a family of motions."""
    from dynid.errors import UsageError

    for option, there in given.items():
        if there:
            raise UsageError("family", found=f"{option} with family '{family}'", expected="it left out")


def word(text: str, kind: type[Word], what: str) -> Word:
    """The member of an enumeration; raises UsageError that lists them."""
    from dynid.errors import UsageError

    try:
        return kind(text)
    except ValueError as error:
        known = ", ".join(kind)
        raise UsageError(what, found=f"{what} '{text}'", expected=f"one of {known}") from error


def numbers(text: str | None, option: str, count: int | None = None) -> Float | None:
    """Numbers with commas between; raises UsageError for other text or another count."""
    return None if text is None else required(text, option, count)


def required(text: str, option: str, count: int | None = None) -> Float:
    """The same where the option has a default."""
    import numpy as np

    from dynid.errors import UsageError

    try:
        values = np.array([float(part) for part in text.split(",")])
    except ValueError:
        values = np.zeros(0)
    if not len(values) or not np.isfinite(values).all() or (count is not None and len(values) != count):
        expected = "numbers with commas between" if count is None else f"{count} numbers with commas between"
        raise UsageError("option-numbers", found=f"{option} '{text}'", expected=expected)
    return values


def lines(plan: Sheet) -> list[str]:
    """What is printed: figures, the tightest bound of each kind, what was not checked."""
    from dynid.excite.plan import Plan
    from dynid.report.plan import ALL_TOLD

    information, bounds = plan.information, plan.bounds
    told = [
        f"{information.robot.name}: {plan.trajectory.duration:.4g} s for {information.base.rank} base parameters"
    ]
    if plan.figures.condition < ALL_TOLD:
        told[0] += (
            f", condition number {plan.figures.condition:.3g}, log determinant {plan.figures.logdet:.4g}"
        )
    if isinstance(plan, Plan):
        name = "of the chosen quantities" if information.focus is not None else str(information.criterion)
        told.append(
            f"criterion {name}: {plan.first:.4g} drawn, {plan.value:.4g} designed "
            f"({plan.starts} starts, {plan.iterations} iterations{', stopped' if plan.stopped else ''})"
        )
    if information.recorded is not None and len(information.recorded):
        told.append(_shrunk(plan))
    told.append("tightest bounds:")
    for kind in dict.fromkeys(m.what for m in plan.margins):
        told.append(f"  {min((m for m in plan.margins if m.what == kind), key=lambda m: m.margin)}")
    if bounds.theta is None:
        told.append("not checked: torque (the description holds no masses)")
    if bounds.workspace is None or not bounds.workspace.names:
        told.append("not checked: surroundings (give --floor, --box, --plane)")
    if bounds.capsules is None:
        told.append("not checked: self-collision (give --radius or --shapes)")
    elif bounds.capsules.left_out:
        pairs = ", ".join(bounds.capsules.left_out_names(information.robot))
        told.append(f"not compared, as their capsules are too close in most poses: {pairs}")
    return told


def _shrunk(plan: Sheet) -> str:
    import numpy as np

    from dynid.excite.quantities import shrinkage

    seconds = plan.trajectory.duration
    motion = plan.trajectory.motion(np.linspace(0.0, seconds, STATES))
    share = shrinkage(plan.information, motion, seconds)
    return (
        f"expected of the intervals of the run: {np.median(share):.2f} of their width is left in the median, "
        f"{share.min():.2f} at best, {share.max():.2f} at worst"
    )
