"""A motion worth recording, designed in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dynid.base.errors import UsageError
from dynid.excitation.criteria import Criterion
from dynid.excitation.folder import check_output, write_plan
from dynid.excitation.plan import Sheet
from dynid.excitation.plan_file import read_plan_file
from dynid.excitation.settings import MotionSettings
from dynid.identification.settings import DEFAULT_TERMS
from dynid.report.plan import plan_html
from dynid.robot.model import RobotModel
from dynid.run.result import Identification
from dynid.verbs.knowledge import Current, described, identified
from dynid.verbs.motion import bounds_of, check_output_settings, motion_of, per_joint


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
    """Designs a motion that determines the base parameters best, within the limits of joints, torque and space.

    The robot's own shapes are kept apart from one another and from the surroundings, and the motion is checked anew by
    the package coal where that is installed; `plan.checks` says what could not be checked.

    plan: motion.toml, or settings; everything below stands in place of its keys.
    seconds: length.    harmonics, frequency: of the Fourier series; Hz of the first harmonic.
    run: the current model, for torque limits; None = the description.    after: the same, and what it recorded counts.
    share: of every joint limit that is used.    start: (n,) pose at both ends.
    floor: height that everything stays above, m.    box: (2, 3) corners that it stays within, m.
    tool: (3,) its point in the last joint frame, m.    payload: mass at the tool, kg, for torque limits.
    radius: m, of capsules from joint to joint in place of the robot's own shapes, one or one a body.
    clearance: distance to be kept, m.    starts, iterations, seed: of the search.
    workers: processes; the motion does not depend on it.
    out: folder for the plan with the motion in `formats`; None = nothing is written.

    Raises UsageError for options that do not go together, UnfitDataError naming the bound that cannot be met.
    Source: Swevers et al. 1997.
    """
    if run is not None and after is not None:
        raise UsageError("run", found="run and after", expected="one of them", do="after takes the model too")
    own = (
        MotionSettings()
        if plan is None
        else plan
        if isinstance(plan, MotionSettings)
        else read_plan_file(plan)
    )
    settings = with_values(
        own,
        motion={"seconds": seconds, "harmonics": harmonics, "frequency": frequency, "start": _numbers(start)},
        limits={"share": share},
        surroundings={"floor": floor, "box": _numbers(box), "clearance": clearance},
        tool={"point": _numbers(tool), "payload": payload},
        shapes={"radius": _numbers(radius)},
        search={
            "starts": starts, "iterations": iterations, "seed": seed, "workers": workers or own.search.workers or 1,
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
    """What the description, or a run, gives."""
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
    """The settings with values in place of some keys; None = as it is."""
    changed = {
        name: replace(getattr(settings, name), **{key: x for key, x in values.items() if x is not None})
        for name, values in tables.items()
    }
    return replace(settings, **changed)


def _numbers(values: npt.ArrayLike | None) -> tuple[float, ...] | None:
    return None if values is None else tuple(float(x) for x in np.ravel(np.asarray(values, dtype=np.float64)))
