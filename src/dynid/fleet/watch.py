"""Online estimation: recursive least squares that follow the rows of a running log."""

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

# Row schemes that need no acceleration and no second encoder, which a stream does not have.
STREAMED = ("momentum", "energy", "filtered_power")
# Periods of the cutoff frequency for which rows before a batch are kept; without them equations would weigh less.
SETTLING = 1.0
# Rows kept per period of the cutoff frequency; the trapezoidal rule then errs by 3e-4 for motion at the cutoff.
OVERSAMPLING = 100.0
# Residuals per period of the cutoff frequency, and s of them, from which their correlation time is estimated.
RESIDUALS_A_PERIOD, RESIDUAL_SECONDS = 10.0, 60.0
# Lower bounds: deviation of a group of equations relative to the largest one, deviation relative to the usual torque,
# and fraction of degrees of freedom. They prevent a few equations with small residuals by chance from dominating.
LEAST_DEVIATION, NO_DEVIATION, LEAST_FREE = 1e-3, 1e-12, 1e-2


@dataclass(frozen=True)
class WatchSettings:
    """Settings of the least squares that follow a running log.

    Raises UsageError for values out of range, and for rows that need accelerations or motor positions.

    Attributes
    ----------
    terms : Terms
        The model.
    rows : Rows
        Equations without acceleration.
    forgetting : Forgetting
        How old rows lose weight.
    batch : float, s
        Duration of the rows that are processed together.
    rest : float, rad/s (m/s)
        Rows in which every joint is slower are left out.
    variance : float
        Variance of the parameters at the start.
    seed : int
        Seed of the random states for the base parameters.

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
    """Estimates the base parameters from rows of time, position, torque and, if available, velocity.

    Each batch is filtered together with the rows before it for as long as the filter has memory, so that older rows
    need not be stored. A time step above six sampling times begins a new segment with new filters. Rows closer together
    than the filter needs are thinned, with torque and velocity averaged.

    Each group of equations (usually a joint) has the weight 1 / (k s^2), where s is the standard deviation of its
    residuals and k the number of rows that carry the information of one independent row, see `rows_alike`. Both are
    updated with every batch. k is at least that of white noise behind the filter, and larger where the model errs.
    """

    def __init__(self, robot: RobotModel, settings: WatchSettings | None = None) -> None:
        """Find the base parameters of the robot; no row is needed."""
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
        # Index of the first stored row, counted over the whole stream.
        self._fresh = self._first = 0

    @property
    def names(self) -> tuple[str, ...]:
        """Formulas of the base parameters."""
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
        """Root mean square of the measured torque of all joints in motion, N m (N)."""
        return float(np.sqrt(self._squares / max(self._measured, 1)))

    @property
    def rows_a_second(self) -> float:
        """Equations of one joint per second of motion."""
        if self._stream.step is None or self._thinner is None:
            return 1.0
        return 1.0 / (self._stream.step * self._thinner.every)

    @property
    def variance(self) -> float:
        """Variance of an independent equation in units of the weights; times P it is the covariance of the estimate."""
        return float(np.exp(2.0 * np.log(self.spread).mean()))

    @property
    def correlated(self) -> tuple[str, ...]:
        """Groups of equations whose residuals are correlated for much longer than noise, which shows a model error."""
        beyond = beyond_noise(self.alike, self.white)
        return tuple(
            name for name, far in zip(self.settings.rows.groups(self.robot), beyond, strict=True) if far
        )

    def feed(self, t: Float, q: Float, tau: Float, dq: Float | None = None) -> bool:
        """Process rows of the log.

        Parameters
        ----------
        t : ndarray, shape (T,), s
            Time.
        q : ndarray, shape (T, n), rad or m
            Joint positions.
        tau : ndarray, shape (T, n), N m or N
            Joint torques.
        dq : ndarray, shape (T, n), rad/s or m/s, optional
            Joint velocities.

        Returns
        -------
        bool
            Whether the estimate has changed.

        Raises
        ------
        UnfitDataError
            If time does not rise or a value is missing; it names the row.

        """
        changed = False
        for apart, rows in self._stream.take(StreamRows(t, q, tau, dq)):
            changed |= self._accept(apart, rows)
        return changed

    def finish(self) -> bool:
        """Process the remaining rows at the end of the log; return whether the estimate has changed."""
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
            # A jump of the row index separates the residuals before and after the gap.
            self._first += len(self._rows) + 2 * self._every_residual
            self._rows, self._fresh = StreamRows.none(self.robot.n), 0
            self._thinner.forget()
        kept = self._thinner.take(rows)
        self._rows = self._rows.then(kept)
        self._fresh += len(kept)
        # Batches have one size whatever the size of the input; the row after a batch gives its last velocity.
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
        """Number of rows with the information of one independent row if the torque noise is white, at least 1.

        White noise behind the filter (lambda / (s + lambda))^d has the correlation time 2 d / lambda.
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
        # at: indices of the new equations, counted over the stream.
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
    """The latest residuals of a stream, thinned, in segments without gaps, and their correlation time."""

    def __init__(self) -> None:
        """Start without residuals."""
        self._stretches: list[Float] = []
        self._last = -1
        self._every = 1

    def add(self, at: Int, residuals: Float, every: int, rate: float) -> None:
        """Add residuals of new equations; one in `every` is kept.

        Parameters
        ----------
        at : ndarray, shape (T,)
            Indices of the equations, counted over the stream.
        residuals : ndarray, shape (T, g)
            Residuals by group of equations.
        every : int
            Thinning factor.
        rate : float, 1/s
            Equations per second.

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
        """Number of equations with the information of one independent equation, by group (g,); 1 without residuals."""
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


# Whether a recording is long enough: the precision of each base parameter against the required one.

# Standard deviations of a 95 % interval.
WIDE = 1.96


@dataclass(frozen=True, eq=False)
class Precision:
    """Precision of the base parameters (b,).

    share: half width of the 95 % interval over the required half width.    asked: required standard deviations.
    """

    names: tuple[str, ...]
    share: Float
    asked: Float

    @property
    def known(self) -> Bool:
        """Mask (b,) of the parameters with the required precision."""
        return np.asarray(self.share <= 1.0)

    @property
    def enough(self) -> bool:
        """Whether all parameters have the required precision."""
        return bool(self.known.all())

    @property
    def weakest(self) -> str:
        """Name of the parameter with the worst precision."""
        return self.names[int(self.share.argmax())]


def precision_of(watcher: Watcher, asked: float) -> Precision:
    """Compare the precision of the last estimate with the required one.

    A parameter theta with standard deviation s, whose column has the size c in usual motion, has the required
    precision if
        1.96 s <= asked max(|theta|, tau / c)
    with the usual torque tau. So a parameter with little effect on the torque need not be known to a fraction of
    itself.

    Parameters
    ----------
    watcher : Watcher
        The estimator.
    asked : float
        Required half width of the 95 % interval, as a fraction.

    Returns
    -------
    Precision
        Precision of each base parameter.

    Raises
    ------
    UsageError
        If `asked` is not positive.

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
