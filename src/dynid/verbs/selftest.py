"""What an identification recovers where its model is true: the run's model at its log's own motion, fitted again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import UnfitDataError, UsageError
from dynid.base.parallel import ordered_map, pass_threads
from dynid.base.progress import Progress
from dynid.base.records import dataclass
from dynid.estimate.residuals import Residuals
from dynid.identification.experiment import Experiment
from dynid.identification.further_log import training_log
from dynid.identification.pipeline import identify
from dynid.log.read import Log
from dynid.robot.model import RobotModel
from dynid.run.result import Identification
from dynid.signals.noise import MotionNoise
from dynid.signals.past import WithPast
from dynid.signals.prepare import Prepared, prepare
from dynid.signals.samples import Samples
from dynid.signals.settings import Preparation
from dynid.terms.term import Column, Of

_ORDER = (Of.BODY, Of.JOINT, Of.ROBOT)


@dataclass(frozen=True)
class Recovered:
    """How base parameters of one link, or of one joint's friction and drive, came out.

    count: of parameters.    inside: of those whose true value lies in the 95 % interval.
    worst: greatest error, in half widths of the interval.
    """

    group: str
    count: int
    inside: int
    worst: float


@dataclass(frozen=True, eq=False)
class SelfTest:
    """A run's model, simulated and identified.

    refit: the identification.    truth: (b,) true values of its base parameters.
    missing: parameters of the run's model that the refit left out.
    torque_error: (n,) r.m.s. error of its torque over that of the true torque, without noise, on the same motion.
    """

    run: Identification
    refit: Identification
    truth: Float
    missing: tuple[str, ...]
    torque_error: Float

    @property
    def missed(self) -> Float:
        """(b,) distance from the true values, in half widths of the 95 % intervals."""
        estimate = self.refit.estimate
        half = np.maximum(estimate.half_width(), np.finfo(np.float64).tiny)
        return np.abs(estimate.value - self.truth) / half

    @property
    def share(self) -> float:
        """Share of true values inside their 95 % intervals."""
        return float((self.missed <= 1.0).mean())

    @property
    def groups(self) -> tuple[Recovered, ...]:
        """Base parameters by link, then by joint; each counts where its leading parameter belongs."""
        estimate, missed = self.refit.estimate, self.missed
        found: dict[str, list[float]] = {}
        leading = [estimate.columns[place] for place in estimate.base.independent]
        order = sorted(range(len(leading)), key=lambda k: (_ORDER.index(leading[k].of), leading[k].owner))
        for k in order:
            found.setdefault(self._group(leading[k]), []).append(float(missed[k]))
        return tuple(
            Recovered(group, len(own), sum(one <= 1.0 for one in own), max(own))
            for group, own in found.items()
        )

    def _group(self, column: Column) -> str:
        robot = self.refit.robot
        if column.of is Of.BODY:
            return f"link {robot.body_names[column.owner]}"
        return (
            f"friction and drive of {robot.joint_names[column.owner]}" if column.of is Of.JOINT else "robot"
        )

    def lines(self) -> list[str]:
        """The result in words."""
        groups = self.groups
        width = max(len(one.group) for one in groups)
        inside = sum(one.inside for one in groups)
        rows = [
            f"  {one.group:<{width}}  {one.inside:3d} of {one.count:<3d}  {one.worst:6.2f}" for one in groups
        ]
        errors = ", ".join(
            f"{name} {100 * one:.3g} %"
            for name, one in zip(self.refit.robot.joint_names, self.torque_error.tolist(), strict=True)
        )
        lines = [
            f"the model of '{self.run.robot.name}', simulated at its log's own motion with the noise of its residuals "
            "and positions, and identified as the run was:",
            f"  {'':<{width}}  inside their 95 % intervals; greatest error in half widths",
            *rows,
            f"all: {inside} of {len(self.truth)} true values inside their 95 % intervals ({100 * self.share:.0f} %)",
            f"error on data that were not fitted: {100 * _error(self.refit):.3g} % "
            f"(the run: {100 * _error(self.run):.3g} %)",
            f"error of the torque without noise: {errors}",
        ]
        if self.missing:
            lines.append(f"not in the model that was chosen: {', '.join(self.missing)}")
        return lines


def selftest(
    run: Identification,
    log: Log | None = None,
    *,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress | None = None,
    diagnostics: Diagnostics | None = None,
) -> SelfTest:
    """Simulates a run's model along its log's filtered motion, adds noise, and identifies as the run's experiment says.

    Torque noise is made of blocks of the run's own residuals: as strong, as coloured, as alike between joints. Noise
    of positions, and of velocities where these were measured, is white and as strong as in the log.
    log: that of the run, or another of the same robot; None = the run's, if its files are there and unchanged.

    Raises UsageError where there is no log, or one with motors' encoders, of which torque alone says too little;
    UnfitDataError for a run without residuals.
    """
    sink = diagnostics if diagnostics is not None else Diagnostics()
    log = log if log is not None else training_log(run, sink)
    if log is None:
        raise UsageError(
            "no-log",
            found="a run whose log is not there any more",
            expected="its log",
            do="name one after the run",
        )
    residuals = run.training.residuals
    if residuals is None:
        raise UnfitDataError(
            "no-residuals", found="a run without residuals", expected="those of its training data"
        )
    log = log.of_robot(run.robot)
    settings: Any = run.preparation["settings"]
    prepared = prepare(log, replace(Preparation(**settings), rate=None), Diagnostics())
    batches = WithPast(
        ordered_map(prepared.process, prepared.windows(), pass_threads(threads)), run.robot.drive
    )
    motion = [_whole(own) for own in _by_segment(batches)]
    if any(samples.theta is not None for samples in motion):
        raise UsageError(
            "selftest-elastic", found="a log with encoders at the motors", expected="one encoder a joint"
        )
    theta = run.estimate.consistent if len(run.estimate.consistent) else run.estimate.parameters
    torque = [run.terms.torque(run.robot, samples, theta) for samples in motion]
    block = float(np.median([one.length for one in run.factors.blocks]))
    simulated = _log(run.robot, residuals, block, prepared, motion, torque, np.random.default_rng(seed))
    refit = identify(
        run.robot,
        simulated,
        replace(Experiment.from_dict(run.experiment).settings(), accept=()),
        threads=threads,
        progress=progress,
        diagnostics=sink,
    )
    true = {column.name: value for column, value in zip(run.estimate.columns, theta.tolist(), strict=True)}
    names = [column.name for column in refit.estimate.columns]
    # What the run's model does not have is zero there.
    values = np.array([true.get(name, 0.0) for name in names])
    error, size = np.zeros((2, run.robot.n))
    for samples, exact in zip(motion, torque, strict=True):
        again = refit.terms.torque(refit.robot, samples, refit.estimate.parameters)
        error += ((again - exact) ** 2).sum(axis=0)
        size += (exact**2).sum(axis=0)
    missing = tuple(name for name, value in true.items() if value and name not in names)
    truth = refit.estimate.base.B @ values
    return SelfTest(run, refit, truth, missing, np.sqrt(error / np.where(size > 0, size, np.nan)))


def _error(run: Identification) -> float:
    judged = run.validations[0] if run.validations else run.training
    return float(judged.scores.total_relative)


def _by_segment(batches: WithPast) -> Iterator[list[Samples]]:
    own: list[Samples] = []
    for samples in batches:
        if own and own[-1].segment != samples.segment:
            yield own
            own = []
        own.append(samples)
    if own:
        yield own


def _whole(parts: Sequence[Samples]) -> Samples:
    """The batches of a segment as one; those of a log begin where the one before has ended."""
    first = parts[0]
    if len(parts) == 1:
        return first
    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(one, name) for one in parts])
        for name in ("t", "q", "dq", "ddq", "tau", "keep")
    }
    for name in ("theta", "dtheta", "ddtheta", "temperature"):
        if getattr(first, name) is not None:
            arrays[name] = np.concatenate([getattr(one, name) for one in parts])
    extra = {key: np.concatenate([one.extra[key] for one in parts]) for key in first.extra}
    return replace(first, **arrays, extra=extra, gate=None, left_out={})


def _log(
    robot: RobotModel,
    residuals: Residuals,
    block: float,
    prepared: Prepared,
    motion: Sequence[Samples],
    torque: Sequence[Float],
    rng: np.random.Generator,
) -> Log:
    """The log of the simulated robot, a trajectory a segment."""
    noise = MotionNoise.of(prepared)
    q = [one.q + noise.position * rng.standard_normal(one.q.shape) for one in motion]
    dq = [one.dq + noise.velocity * rng.standard_normal(one.dq.shape) for one in motion]
    tau = [exact + _drawn(residuals, block, one.t, rng) for one, exact in zip(motion, torque, strict=True)]
    names = [np.full(len(one), f"segment {k}") for k, one in enumerate(motion)]
    temperature = [one.temperature for one in motion if one.temperature is not None]
    return Log.from_arrays(
        robot,
        np.concatenate([one.t for one in motion]),
        np.concatenate(q),
        np.concatenate(tau),
        np.concatenate(dq) if noise.measured else None,
        temperature=np.concatenate(temperature) if len(temperature) == len(motion) else None,
        extra={key: np.concatenate([one.extra[key] for one in motion]) for key in motion[0].extra},
        trajectory=np.concatenate(names),
        name="selftest",
    )


def _drawn(residuals: Residuals, block: float, t: Float, rng: np.random.Generator) -> Float:
    """Noise (T, n) at times t, made of blocks of the residuals, each from a random place and of a random sign.

    All joints alike: what they have in common stays so. The fit took from the residuals what the motion's columns
    explain, which repeats itself with a periodic motion; random signs bring it back, where a shift would not.
    Source: Liu 1988 (random signs), Künsch 1989 (blocks).
    """
    error = np.nan_to_num(residuals.error_counted)
    rows = min(max(round(block * residuals.rate), 1), len(error))
    count = int(np.ceil((t[-1] - t[0]) * residuals.rate)) + 2
    parts = []
    for _ in range(-(-count // rows)):
        start = int(rng.integers(len(error) - rows + 1))
        parts.append(rng.choice((-1.0, 1.0)) * error[start : start + rows])
    drawn = np.concatenate(parts)
    place = (t - t[0]) * residuals.rate
    return np.stack([np.interp(place, np.arange(len(drawn)), line) for line in drawn.T], axis=1)
