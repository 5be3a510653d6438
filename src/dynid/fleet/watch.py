"""Online estimation: rows of a running log in, an estimate that follows them out."""

from __future__ import annotations

from dataclasses import field

import numpy as np

from dynid.base import Bool, Float, Int, UsageError, dataclass
from dynid.estimate import (
    Forgetting,
    ParameterTrajectory,
    RecursiveLeastSquares,
    TrajectoryRecorder,
    beyond_noise,
    rows_alike_of,
)
from dynid.factor import structural_base
from dynid.fleet.stream import RowStream, StreamRows, Thinner
from dynid.robot import RobotModel
from dynid.rows import Equations, MomentumRows, Rows
from dynid.signals import Samples
from dynid.terms import DEFAULT_TERMS, Terms

# Schemes that read no acceleration and no second encoder: a stream has neither.
STREAMED = ("momentum", "energy", "filtered_power")
# Periods of the cut-off for which rows before a batch are kept; equations hold without them, and only weigh less.
SETTLING = 1.0
# Kept rows in a period of the cut-off; the trapezoidal rule over them errs by 3e-4 for motion at the cut-off.
OVERSAMPLING = 100.0
# Residuals a period of the cut-off, and s of them, from which it is found how long they stay alike.
RESIDUALS_A_PERIOD, RESIDUAL_SECONDS = 10.0, 60.0
# Least deviation of a group of equations over the greatest one's, and over the usual torque, and the least share of
# equations that are free: what a few equations leave by chance neither rules the others nor counts as certainty.
LEAST_DEVIATION, NO_DEVIATION, LEAST_FREE = 1e-3, 1e-12, 1e-2


@dataclass(frozen=True)
class WatchSettings:
    """How a running log is followed.

    rows: equations without acceleration.    batch: s of rows that are taken in at once.
    rest: rad/s (m/s), rows in which every joint is slower are left out.    variance: of the parameters at the start.

    Raises UsageError for values out of range and rows that need accelerations or motor positions.
    """

    terms: Terms = DEFAULT_TERMS
    rows: Rows = field(default_factory=MomentumRows)
    forgetting: Forgetting = field(default_factory=Forgetting)
    batch: float = 0.5
    rest: float = 0.02
    variance: float = 1e6
    seed: int = 0

    def __post_init__(self) -> None:
        if not (self.batch > 0 and self.rest >= 0):
            raise UsageError(
                "watch", found=f"batch = {self.batch}, rest = {self.rest}", expected="batch > 0, rest >= 0"
            )
        if self.rows.name not in STREAMED:
            raise UsageError(
                "watch-rows",
                found=f"{self.rows.name} rows for a stream of positions, torques and velocities",
                expected="one of " + ", ".join(STREAMED),
                do='set rows = "momentum" under [model], or leave rows out',
            )


class Watcher:
    """Takes rows of time, position, torque and perhaps velocity, and keeps an estimate of the base parameters.

    Each batch is filtered together with the rows before it, as long as the filter remembers; so rows need not be kept.
    A step of more than six sampling times begins a new stretch, whose filters start anew. Rows far closer together than
    the equations' filter needs are thinned out, torque and velocity averaged.

    Each group of equations (a joint, for most rows) weighs 1 / (k s^2) by the deviation s of its residuals and the
    number k of rows that carry the information of one independent row, see `rows_alike`; both are found anew with every
    batch. k is that of white noise behind the rows' filter at least, and larger where the model errs along the motion.
    """

    def __init__(self, robot: RobotModel, settings: WatchSettings | None = None) -> None:
        """Finds the base parameters of the robot; no row is needed."""
        self.robot, self.settings = robot, settings or WatchSettings()
        s = self.settings
        if s.terms.channels():
            raise UsageError(
                "watch-channels", found=", ".join(s.terms.channels()), expected="terms without extra channels"
            )
        self.base = structural_base(robot, s.terms, s.rows, s.seed)
        self.estimate = RecursiveLeastSquares(
            self.base.independent, variance=s.variance, forgetting=s.forgetting
        )
        self.recorder = TrajectoryRecorder(self.base.formulas())
        self.seconds = 0.0
        groups = len(s.rows.groups(robot))
        self.alike, self.spread = np.ones(groups), np.ones(groups)
        self._trail = ResidualTrail()
        self._squares, self._measured = 0.0, 0
        self._stream = RowStream(robot)
        self._thinner: Thinner | None = None
        self._rows = self._early = StreamRows.none(robot.n)
        # Number, over the whole stream, of the first row that is kept.
        self._fresh = self._first = 0

    @property
    def names(self) -> tuple[str, ...]:
        """Base parameters as formulas."""
        return self.base.formulas()

    @property
    def time(self) -> float:
        """Time of the last estimate, s of the log's clock."""
        return self.recorder.time

    @property
    def trajectory(self) -> ParameterTrajectory:
        """The estimate after every batch."""
        return self.recorder.trajectory

    @property
    def usual_torque(self) -> float:
        """Root mean square of the measured torque over all joints while they moved, N m (N)."""
        return float(np.sqrt(self._squares / max(self._measured, 1)))

    @property
    def rows_a_second(self) -> float:
        """Equations a second of motion of one joint."""
        if self._stream.step is None or self._thinner is None:
            return 1.0
        return 1.0 / (self._stream.step * self._thinner.every)

    @property
    def variance(self) -> float:
        """Of an independent equation, in units of the weights: P times it is the covariance of the estimate."""
        return float(np.exp(2.0 * np.log(self.spread).mean()))

    @property
    def correlated(self) -> tuple[str, ...]:
        """Groups of equations whose residuals are correlated over far longer than noise: there the model errs."""
        beyond = beyond_noise(self.alike, self.white)
        return tuple(
            name for name, far in zip(self.settings.rows.groups(self.robot), beyond, strict=True) if far
        )

    def feed(self, t: Float, q: Float, tau: Float, dq: Float | None = None) -> bool:
        """Takes in rows: t (T,), q, tau and dq (T, n); returns whether the estimate has changed.

        Raises UnfitDataError that names the row if time does not rise or a value is missing.
        """
        changed = False
        for apart, rows in self._stream.take(StreamRows(t, q, tau, dq)):
            changed |= self._accept(apart, rows)
        return changed

    def finish(self) -> bool:
        """Takes in what is left at the end of the log."""
        return self._take(self._fresh)

    def _accept(self, apart: bool, rows: StreamRows) -> bool:
        step = self._stream.step
        if step is None:
            self._early = self._early.then(rows)
            return False
        if self._thinner is None:
            self._thinner = Thinner(self._every(step), self.robot.n)
            rows, self._early = self._early.then(rows), StreamRows.none(self.robot.n)
        changed = False
        if apart:
            changed = self._take(self._fresh)
            # Numbers are left out, so that residuals before and after count as two stretches.
            self._first += len(self._rows) + 2 * self._every_residual
            self._rows, self._fresh = StreamRows.none(self.robot.n), 0
            self._thinner.forget()
        kept = self._thinner.take(rows)
        self._rows = self._rows.then(kept)
        self._fresh += len(kept)
        # Batches of one size, however many rows came at once; the row after each gives its last velocity.
        count = max(1, round(self.settings.batch / (step * self._thinner.every)))
        while self._fresh > count:
            changed |= self._take(count)
        return changed

    def _every(self, step: float) -> int:
        rows = self.settings.rows
        if getattr(rows, "hold", "linear") == "zero" or not hasattr(rows, "cutoff"):
            return 1
        return max(1, int(1.0 / (OVERSAMPLING * rows.cutoff * step) * (1.0 + 1e-6)))

    @property
    def white(self) -> float:
        """Rows that carry the information of one independent row where the torque has white noise, at least 1.

        White noise behind (lambda / (s + lambda))^d has the correlation time 2 d / lambda.
        """
        cutoff = getattr(self.settings.rows, "cutoff", None)
        if cutoff is None or self._stream.step is None or self._thinner is None:
            return 1.0
        time = 2.0 * int(getattr(self.settings.rows, "degree", 1)) / (2.0 * np.pi * float(cutoff))
        return max(1.0, time / (self._stream.step * self._thinner.every))

    def _take(self, count: int) -> bool:
        rows = self._rows
        if count < 1 or self._thinner is None or self._stream.step is None or len(rows) < 4:
            return False
        step = self._stream.step * self._thinner.every
        known = len(rows) - self._fresh
        stop = known + count
        samples = _samples(rows, 1.0 / step)
        moving = (np.abs(samples.dq[known:stop]) >= self.settings.rest).any(axis=1)
        index = known + np.flatnonzero(moving)
        if len(index):
            equations = self.settings.rows.equations(self.robot, self.settings.terms, samples, self.base.mask)
            self.estimate.update(equations, count * step, index)
            self.seconds += count * step
            self._squares += float((rows.tau[index] ** 2).sum())
            self._measured += rows.tau[index].size
            self._weigh(equations, index + self._first)
            self.recorder.note_least_squares(float(rows.t[stop - 1]), self.estimate, self.variance)
        memory = round(SETTLING / getattr(self.settings.rows, "cutoff", 1.0) / step)
        past = max(stop - memory, 0)
        self._rows = rows.part(slice(past, None))
        self._first += past
        self._fresh -= count
        return bool(len(index))

    def _weigh(self, equations: Equations, at: Int) -> None:
        # at: numbers of the equations that were taken in, counted over the stream.
        value, columns = self.estimate.value, self.estimate.columns
        rows = at - self._first
        residuals = np.stack(
            [
                panel[-1, rows] - value[np.searchsorted(columns, known)] @ panel[:-1, rows]
                for known, panel in zip(equations.columns, equations.panels, strict=True)
            ],
            axis=1,
        )
        self._trail.add(at, residuals, self._every_residual, self.rows_a_second)
        self.alike = np.maximum(self._trail.alike(), self.white)
        squares, counts = self.estimate.residuals
        independent = float((counts / self.alike).sum())
        free = max(1.0 - len(columns) / max(independent, 1.0), LEAST_FREE)
        spread = np.sqrt(self.alike * squares / np.maximum(counts, 1.0) / free)
        least = max(LEAST_DEVIATION * float(spread.max()), NO_DEVIATION * self.usual_torque, 1e-150)
        self.spread = np.maximum(spread, least)
        self.estimate.reweigh((self.variance / self.spread**2).tolist())

    @property
    def _every_residual(self) -> int:
        cutoff = getattr(self.settings.rows, "cutoff", None)
        if cutoff is None:
            return 1
        return max(1, int(self.rows_a_second / (RESIDUALS_A_PERIOD * float(cutoff)) * (1.0 + 1e-6)))


class ResidualTrail:
    """The latest residuals of a stream, thinned, in unbroken stretches, and for how long they stay alike."""

    def __init__(self) -> None:
        """Without any residual."""
        self._stretches: list[Float] = []
        self._last = -1
        self._every = 1

    def add(self, at: Int, residuals: Float, every: int, rate: float) -> None:
        """Takes in residuals (T, g) of equations with numbers at (T,), of which one in `every` is kept.

        rate: equations a second.
        """
        self._every = every
        chosen = at % every == 0
        at, residuals = at[chosen], residuals[chosen]
        if not len(at):
            return
        cuts = np.flatnonzero(np.diff(at) != every) + 1
        first, *others = np.split(residuals, cuts)
        if self._stretches and at[0] == self._last + every:
            self._stretches[-1] = np.concatenate([self._stretches[-1], first])
        else:
            self._stretches.append(first)
        self._stretches += others
        self._last = int(at[-1])
        most = max(1, round(RESIDUAL_SECONDS * rate / every))
        while (surplus := sum(map(len, self._stretches)) - most) > 0:
            if surplus >= len(self._stretches[0]):
                self._stretches.pop(0)
            else:
                self._stretches[0] = self._stretches[0][surplus:]

    def alike(self) -> Float:
        """How many equations carry the information of one independent one, by group (g,); 1 before any is known."""
        return rows_alike_of(self._stretches) * self._every if self._stretches else np.ones(1)


def _samples(rows: StreamRows, rate: float) -> Samples:
    dq = np.asarray(np.gradient(rows.q, rows.t, axis=0)) if rows.dq is None else rows.dq
    return Samples(
        t=rows.t,
        q=rows.q,
        dq=dq,
        ddq=np.zeros_like(rows.q),
        tau=rows.tau,
        keep=np.ones(len(rows), dtype=np.bool_),
        rate=rate,
        segment=0,
        trajectory="",
        first=1,
    )


# Whether a recording is enough: how well each base parameter is known against what was asked for.

# Standard deviations of a 95 % interval.
WIDE = 1.96


@dataclass(frozen=True, eq=False)
class Precision:
    """How well the base parameters (b,) are known.

    share: half width of the 95 % interval over what was asked for.    asked: deviations that were asked for.
    """

    names: tuple[str, ...]
    share: Float
    asked: Float

    @property
    def known(self) -> Bool:
        """Which ones are known as well as asked."""
        return np.asarray(self.share <= 1.0)

    @property
    def enough(self) -> bool:
        """Whether all are."""
        return bool(self.known.all())

    @property
    def weakest(self) -> str:
        """The one that is farthest from it."""
        return self.names[int(self.share.argmax())]


def precision_of(watcher: Watcher, asked: float) -> Precision:
    """How well the last estimate knows the base parameters.

    A parameter theta with deviation s and a column of size c in usual motion is known where
        1.96 s <= asked max(|theta|, tau / c)
    for the usual torque tau: what hardly matters need not be known to a share of itself.
    Raises UsageError for a precision that is not positive.
    """
    if not (np.isfinite(asked) and asked > 0):
        raise UsageError("precision", found=f"a precision of {asked}", expected="above 0")
    track = watcher.trajectory
    size = watcher.base.scale[watcher.base.independent]
    with np.errstate(divide="ignore"):
        least = watcher.usual_torque / np.where(size > 0, size, np.inf)
    room = asked * np.maximum(np.abs(track.value[-1]), least)
    with np.errstate(divide="ignore"):
        share = np.where(room > 0, WIDE * track.std[-1] / np.maximum(room, 1e-300), np.inf)
    return Precision(watcher.names, np.asarray(share), np.asarray(room / WIDE))
