"""What torque sinusoids have to keep: the model's motion under them, its variants, and the margins to all bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import UnfitDataError, UsageError
from dynid.base.records import dataclass
from dynid.excitation.constraints import Margin, margins
from dynid.excitation.criteria import Information
from dynid.excitation.design import worst_broken
from dynid.excitation.limits import Bounds
from dynid.excitation.swing import Swings, swing
from dynid.simulation.forward import ForwardModel
from dynid.trajectories.torque_sines import TorqueSinusoids

RATE, MOST_SUBSTEPS, PROBED = 100.0, 8, 3.0
VARIANTS, LARGEST, SWING, EXACT = 4, 0.6, 0.6, 1e-3

Stop = Callable[[], bool]
Motion = tuple[Float, Float, Float]


@dataclass(frozen=True)
class TorqueTask:
    """Torque sinusoids to be designed.

    duration, ramp: s.    lowest, highest: of the frequencies, Hz.    count: N sinusoids a joint.
    start: (n,) pose at rest, None = the pose of least potential energy within the limits.
    Raises UsageError for numbers out of range, UnfitDataError where the model's masses or friction are not known.
    """

    information: Information
    bounds: Bounds
    duration: float
    count: int
    lowest: float
    highest: float
    ramp: float
    start: Float | None = None

    def __post_init__(self) -> None:
        numbers = (self.duration, self.lowest, self.highest, self.ramp)
        if not (
            all(math.isfinite(x) and x > 0 for x in numbers)
            and self.lowest <= self.highest
            and self.count > 0
        ):
            raise UsageError(
                "torque-sines",
                found=f"{self.count} sinusoids of {self.lowest:g} to {self.highest:g} Hz in {self.duration:g} s",
                expected="one or more, frequencies and times above 0",
            )
        if self.bounds.theta is None:
            raise UnfitDataError(
                "torque-sines-model",
                found="a description without masses",
                expected="a model that says what motion torque makes",
                do="give a run of the robot with --run",
            )
        if not np.isfinite(self.bounds.limits.torque).all():
            raise UsageError(
                "no-limits",
                found="a joint without a torque limit",
                expected="one each",
                do="give limits.torque",
            )

    @property
    def times(self) -> Float:
        """Times (T,) of the table."""
        return np.arange(math.ceil(self.duration * RATE) + 1) / RATE

    @cached_property
    def models(self) -> tuple[ForwardModel, ...]:
        """The current model, and VARIANTS about it: drawn from its covariance, or wrong by the constant share."""
        information, bounds = self.information, self.bounds
        every = [np.asarray(bounds.theta), *_variants(self)]
        return tuple(ForwardModel(information.robot, information.terms, theta) for theta in every)

    @cached_property
    def pose(self) -> Float:
        """Where it starts at rest, (n,)."""
        return _lowest(self) if self.start is None else np.asarray(self.start, dtype=np.float64)

    @cached_property
    def offset(self) -> Float:
        """Torque (n,) that holds the pose."""
        return np.asarray(self.models[0].equations(self.pose[None], np.zeros((1, len(self.pose))))[1][0])

    def sines(self, x: Float) -> TorqueSinusoids:
        """The torque of variables (3, n, N) in (0, 1): amplitudes, frequencies, phases."""
        room = LARGEST * np.maximum(self.bounds.limits.torque - np.abs(self.offset), 0.0)
        amplitude = x[0] * room[:, None] / self.count
        frequency = self.lowest * (self.highest / self.lowest) ** x[1]
        return TorqueSinusoids(self.offset, amplitude, frequency, 2.0 * np.pi * x[2], self.ramp)

    def swung(
        self,
        model: ForwardModel,
        candidates: Sequence[TorqueSinusoids],
        finer: int = 1,
        stop: Stop | None = None,
    ) -> Swings:
        """What a model makes of torque."""
        return swing(model, candidates, self.pose, self.times, self.substeps * finer, stop)

    @cached_property
    def substeps(self) -> int:
        """Steps from row to row at which a few strong torques move the arm as with twice as many."""
        rng = np.random.default_rng(0)
        sines = [self.sines(rng.uniform(0.2, 1.0, (3, len(self.pose), self.count))) for _ in range(4)]
        t = self.times[self.times <= PROBED]
        count, before = 1, swing(self.models[0], sines, self.pose, t, 1).q
        while count < MOST_SUBSTEPS:
            after = swing(self.models[0], sines, self.pose, t, 2 * count).q
            if np.abs(after - before).max() <= EXACT * max(1.0, np.abs(after).max()):
                return count
            count, before = 2 * count, after
        return MOST_SUBSTEPS

    def margins(self, sines: TorqueSinusoids, motion: Motion, smooth: bool = True) -> tuple[Margin, ...]:
        """Margins of one motion (three of (T, n)) and of the commanded torque, which is exact whatever the model.

        smooth: whether jerk counts; an arm that the torque does not hold exactly starts with a step of it.
        """
        information, t = self.information, self.times
        q, dq, ddq = motion
        free = replace(self.bounds, theta=None, spread=None)
        jerk = np.gradient(ddq, t, axis=0) if smooth else None
        found = margins(information.robot, information.terms, free, t, q, dq, ddq, jerk)
        return (*found, *_torque_margins(self, sines))


def check_start(task: TorqueTask) -> None:
    """Raises UsageError for a pose of other joints, UnfitDataError for one that breaks a bound at rest."""
    n = task.information.robot.n
    if task.pose.shape != (n,):
        raise UsageError("array-shape", found=f"a start pose of {task.pose.size}", expected=f"{n} joints")
    q, zero = task.pose[None], np.zeros((1, n))
    information = task.information
    exact = replace(task.bounds, uncertainty=0.0, spread=None)
    found = margins(information.robot, information.terms, exact, np.zeros(1), q, zero, zero, zero)
    bad = worst_broken(found)
    if bad is not None:
        raise UnfitDataError(
            "start-collides" if bad.what == "self-collision" else "start-pose",
            found=f"a start pose that breaks a bound: {bad}",
            expected="a pose that the robot can rest in",
            do="choose another start",
        )


def _torque_margins(task: TorqueTask, sines: TorqueSinusoids) -> list[Margin]:
    tau, limit = sines.torque(task.times), task.bounds.limits.torque
    found = []
    for j, name in enumerate(task.information.robot.joint_names):
        i = int(np.abs(tau[:, j]).argmax())
        room = float(1.0 - abs(tau[i, j]) / limit[j])
        found.append(Margin("torque", name, float(tau[i, j]), float(limit[j]), room, float(task.times[i])))
    return found


def _variants(task: TorqueTask) -> list[Float]:
    bounds, rng = task.bounds, np.random.default_rng(0)
    theta = np.asarray(bounds.theta)
    if bounds.spread is not None:
        root = bounds.spread.root
        return [theta + root @ rng.standard_normal(root.shape[1]) for _ in range(VARIANTS)]
    found = []
    for _ in range(VARIANTS):
        wrong = 1.0 + bounds.uncertainty * rng.uniform(-1.0, 1.0, len(theta))
        first = 0
        for term in task.information.terms:
            width = len(term.columns(task.information.robot))
            if term.of_bodies:
                # Whole bodies heavier or lighter, so that each variant is physically consistent.
                wrong[first : first + width] = np.repeat(wrong[first : first + width : 10], 10)
            first += width
        found.append(theta * wrong)
    return found


def _lowest(task: TorqueTask) -> Float:
    # Downhill by gravity's torque from the middle, a step short of the limits, so that it can swing to both sides.
    limits, model = task.bounds.limits, task.models[0]
    middle, half = 0.5 * (limits.lower + limits.upper), 0.5 * (limits.upper - limits.lower)
    pose, zero = np.array(middle), np.zeros((1, len(middle)))
    room = task.bounds.limits.torque
    for _ in range(400):
        gravity = model.equations(pose[None], zero)[1][0]
        step = np.clip(gravity / room, -0.2, 0.2)
        pose = np.clip(pose - 0.5 * step, middle - SWING * half, middle + SWING * half)
    return pose
