"""The motion of dynid excite from its options: family, what counts, and the search."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynid.base.arrays import Float
    from dynid.excitation.criteria import Information
    from dynid.excitation.design import Task
    from dynid.excitation.limits import Bounds
    from dynid.excitation.plan import Sheet
    from dynid.trajectories.basis import Basis

PREDICTED = 8


@dataclass(frozen=True)
class Wanted:
    """What kind of motion is asked for."""

    family: str
    time: float
    motions: int
    focus: Sequence[str]
    harmonics: int
    frequency: float
    pieces: int
    start: str | None
    speeds: str
    joints: Sequence[str]
    poses: int
    knots: str | None = None
    free_knots: int = 0
    resume: Path | None = None


@dataclass(frozen=True)
class Search:
    """How long it is sought.    workers: None = all processors."""

    starts: int
    iterations: int
    seed: int
    workers: int | None


def focused(
    information: Information, focus: Sequence[str], bounds: Bounds, basis: Basis, home: Float | None
) -> Information:
    """The criterion for chosen quantities alone: parameters, predicted torque, or a payload."""
    from dataclasses import replace

    from dynid.base.errors import UsageError
    from dynid.excitation.criteria import focus_on
    from dynid.excitation.quantities import payload_information, prediction_focus

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

    from dynid.base.errors import UsageError
    from dynid.trajectories.codec import joints_of, read_motion

    trajectory = read_motion(Path(path)).trajectory
    if joints_of(trajectory) != information.robot.n:
        raise UsageError(
            "focus", found=f"a motion of {joints_of(trajectory)} joints", expected=f"{information.robot.n}"
        )
    return [trajectory.motion(np.linspace(0.0, trajectory.duration, 1000))]


def _drawn(
    information: Information, bounds: Bounds, basis: Basis, home: Float | None
) -> list[tuple[Float, Float, Float]]:
    from dynid.excitation.design import Problem, Task, check_size, check_start, draws

    task = Task(basis, information, bounds, home)
    check_size(task)
    check_start(task)
    problem = Problem(task)
    found = []
    for X in draws(problem, 2 * PREDICTED, 1)[:PREDICTED]:
        q, dq, ddq = (B @ X for B in problem.values[:3])
        found.append((q, dq, ddq))
    return found


def plan_of(wanted: Wanted, search: Search, information: Information, bounds: Bounds) -> Sheet:
    """The plan of any family.    Raises UsageError for options that mean nothing to it."""
    from dynid.cli.excite_parts import numbers

    home = numbers(wanted.start, "--start", information.robot.n)
    own = wanted.family == "spline" and wanted.motions == 1
    searched = wanted.family in ("fourier", "spline")
    _refuse_with(
        wanted.family,
        {
            "--knots": wanted.knots is not None and wanted.family != "spline",
            "--free-knots": wanted.free_knots > 0 and not own,
            "--resume": wanted.resume is not None and not searched,
        },
    )
    if wanted.family in ("sweep", "poses", "torque-sines"):
        _refuse_with(
            wanted.family,
            {
                "--motions": wanted.motions != 1,
                "--focus": bool(wanted.focus) and wanted.family != "torque-sines",
                "--start": home is not None and wanted.family == "poses",
            },
        )
    if wanted.family == "sweep":
        return _swept(wanted, information, bounds, home)
    if wanted.family == "poses":
        from dynid.excitation.sequences import poses_plan

        return poses_plan(information, bounds, wanted.poses, search.seed)
    if wanted.family == "torque-sines":
        return _commanded(wanted, search, information, bounds, home)
    return _designed(wanted, search, information, bounds, home)


def _swept(wanted: Wanted, information: Information, bounds: Bounds, home: Float | None) -> Sheet:
    from dynid.cli.excite_parts import required
    from dynid.excitation.sequences import sweep_plan

    shares = [float(x) for x in required(wanted.speeds, "--speeds")]
    return sweep_plan(information, bounds, shares, wanted.joints, home)


def _commanded(
    wanted: Wanted, search: Search, information: Information, bounds: Bounds, home: Float | None
) -> Sheet:
    from dynid.cli.common import progress_bar
    from dynid.excitation.torque_plan import design_torque
    from dynid.excitation.torque_task import TorqueTask
    from dynid.trajectories.basis import FourierBasis

    time, highest, ramp = wanted.time, wanted.frequency * wanted.harmonics, min(2.0, 0.2 * wanted.time)
    if wanted.focus:
        basis = FourierBasis(time, wanted.harmonics, wanted.frequency, ramp)
        information = focused(information, wanted.focus, bounds, basis, None)
    task = TorqueTask(information, bounds, time, wanted.harmonics, wanted.frequency, highest, ramp, home)
    with progress_bar(search.starts * search.iterations) as advance, interruptible() as stop:
        return design_torque(task, search.starts, search.iterations, search.seed, _progress_to(advance), stop)


def _designed(
    wanted: Wanted, search: Search, information: Information, bounds: Bounds, home: Float | None
) -> Sheet:
    from dynid.base.parallel import default_threads
    from dynid.cli.common import progress_bar
    from dynid.excitation.design import Task
    from dynid.excitation.knots import with_free_knots
    from dynid.excitation.plan import design_motion

    basis = _basis(wanted)
    task = Task(basis, focused(information, wanted.focus, bounds, basis, home), bounds, home)
    if wanted.free_knots:
        task = with_free_knots(task, wanted.free_knots, search.seed)
    first = None if wanted.resume is None else _resumed(task, wanted.resume)
    with progress_bar(search.starts * search.iterations) as advance, interruptible() as stop:
        return design_motion(
            task,
            search.starts,
            search.iterations,
            search.seed,
            workers=search.workers or default_threads(),
            progress=_progress_to(advance),
            stop=stop,
            first=first,
        )


def _resumed(task: Task, folder: Path) -> Float:
    from dynid.base.errors import Place, UsageError
    from dynid.excitation.plan import coefficients_of
    from dynid.trajectories.codec import read_motion

    found, robot = read_motion(folder), task.information.robot
    if found.joints and found.joints != robot.joint_names:
        raise UsageError(
            "resume",
            found=f"a plan of the joints {', '.join(found.joints)}",
            expected=", ".join(robot.joint_names),
            place=Place(file=str(folder)),
        )
    return coefficients_of(task.basis, found.trajectory)


def _progress_to(advance: Callable[[str, float], None] | None) -> Callable[[int, int, float], None]:
    done = 0

    def update(now: int, _most: int, _best: float) -> None:
        nonlocal done
        if advance is not None and now > done:
            advance("iterations", float(now - done))
            done = now

    return update


def _basis(wanted: Wanted) -> Basis:
    from dynid.base.errors import UsageError
    from dynid.cli.excite_parts import required
    from dynid.trajectories.basis import FourierBasis, SplineBasis
    from dynid.trajectories.chain import Together

    time = wanted.time
    if wanted.family == "fourier":
        basis: Basis = FourierBasis(time, wanted.harmonics, wanted.frequency, min(2.0, 0.2 * time))
    elif wanted.family == "spline":
        breaks = required(wanted.knots, "--knots") if wanted.knots is not None else ()
        basis = SplineBasis(time, wanted.pieces, tuple(float(x) for x in breaks))
    else:
        raise UsageError(
            "family",
            found=f"family '{wanted.family}'",
            expected="fourier, spline, sweep, poses or torque-sines",
        )
    return basis if wanted.motions == 1 else Together((basis,) * wanted.motions)


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """A function that says whether Ctrl-C was pressed: the first ends the search, the second the command."""
    from dynid.cli.common import say

    asked = []
    before = signal.getsignal(signal.SIGINT)

    def once(_number: int, _frame: object) -> None:
        asked.append(True)
        signal.signal(signal.SIGINT, before)
        say("interrupted: the best motion so far will be written", err=True)

    signal.signal(signal.SIGINT, once)
    try:
        yield lambda: bool(asked)
    finally:
        signal.signal(signal.SIGINT, before)


def _refuse_with(family: str, given: Mapping[str, bool]) -> None:
    from dynid.base.errors import UsageError

    for option, there in given.items():
        if there:
            raise UsageError("family", found=f"{option} with family '{family}'", expected="it left out")
