"""Uncertainty of predicted torque, and the error to be expected on motion that was not recorded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.diagnostics import ExpectedError
from dynid.base.records import dataclass
from dynid.estimate.estimator import Estimate
from dynid.estimate.scores import RANGE_MARGIN, MotionRange, Residuals, Scores
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.exports import Reads
from dynid.terms.forms import seen_by, torque_of
from dynid.terms.friction import HALF, dry_friction
from dynid.terms.nominal import NominalTerm
from dynid.terms.term import Term, Terms

# Most samples at which it is computed; it is interpolated between them.
POINTS = 400


@dataclass(frozen=True, eq=False)
class Bands:
    """Standard deviation of predicted torque, sqrt(y Cov y') for a line y of the regressor, from an estimate.

    Estimated nonlinear parameters count only as far as they increased the covariance of the linear ones.
    """

    robot: RobotModel
    terms: Terms
    estimate: Estimate

    @cached_property
    def _covariance(self) -> Float:
        """Covariance (p, p) of all columns, zero where they are not independent."""
        whole = np.zeros((len(self.estimate.columns), len(self.estimate.columns)))
        independent = self.estimate.base.independent
        whole[np.ix_(independent, independent)] = self.estimate.covariance
        return whole

    @cached_property
    def _spans(self) -> tuple[slice, ...]:
        """Columns of each term."""
        edges = np.cumsum([0, *(len(term.columns(self.robot)) for term in self.terms)])
        return tuple(slice(int(a), int(b)) for a, b in pairwise(edges))

    @cached_property
    def _roots(self) -> dict[bytes, Float]:
        return {}

    def _root(self, columns: Int) -> Float:
        """Upper triangle (w, w) with root' root the covariance of some columns; the same for every batch."""
        key = columns.tobytes()
        if key not in self._roots:
            values, vectors = np.linalg.eigh(self._covariance[np.ix_(columns, columns)])
            scaled = vectors * np.sqrt(np.maximum(values, 0.0))
            self._roots[key] = np.asarray(np.linalg.qr(scaled.T, mode="r"))
        return self._roots[key]

    def std(self, samples: Samples, index: Int) -> Float:
        """Standard deviations (len(index), n) at some samples, computed at POINTS of them at most.

        They are interpolated between those, since they change with the motion and not with the noise.
        """
        if not len(index) or not np.isfinite(self.estimate.covariance).all():
            return np.full((len(index), self.robot.n), np.nan)
        few = index[:: max(-(-len(index) // POINTS), 1)]
        part = _selected(samples, few)
        n = self.robot.n
        columns: list[list[Int]] = [[] for _ in range(n)]
        lines: list[list[Float]] = [[] for _ in range(n)]
        independent = np.diag(self._covariance) > 0
        for term, span in zip(self.terms, self._spans, strict=True):
            if not independent[span].any():
                continue
            whole = _needs_time(term)
            panels = term.torque_regressor(
                self.robot, seen_by(term, samples if whole else part), independent[span]
            )
            for j in range(n):
                columns[j].append(panels.columns[j] + span.start)
                lines[j].append(panels.values[j][:, few] if whole else panels.values[j])
        deviations = np.zeros((n, len(few)))
        for j in range(n):
            if columns[j]:
                spread = self._root(np.concatenate(columns[j])) @ np.concatenate(lines[j])
                deviations[j] = np.sqrt(np.einsum("wt,wt->t", spread, spread))
        if len(few) == len(index):
            return np.ascontiguousarray(deviations.T)
        return np.column_stack([np.interp(index, few, line) for line in deviations])


def _needs_time(*terms: Term) -> bool:
    """Whether a term reads its samples as a sequence in time."""
    return any(Reads.PAST in term.traits.reads or isinstance(term, NominalTerm) for term in terms)


def _selected(samples: Samples, index: Int) -> Samples:
    """Some samples as a batch, for terms that read each sample independently."""
    names = ("t", "q", "dq", "ddq", "tau", "keep", "theta", "dtheta", "ddtheta", "temperature", "gate")
    values = {name: getattr(samples, name)[index] for name in names if getattr(samples, name) is not None}
    extra = {name: channel[index] for name, channel in samples.extra.items()}
    return replace(samples, **values, extra=extra, past=None)


# Motion that was not recorded.

# Quantiles of a joint's speed between which its residuals are tabulated: finer at low speed, where friction changes.
SPEEDS = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8)
# Speeds of slower and of faster motion over the recorded ones.
SLOWER, FASTER = 1 / 3, 2.0
DWELLS = "dwells"
# Mean square of dry friction at rest about its prediction, over its square: any value up to its limit to either side,
# uniformly, while half of it in the direction of the last motion is predicted.
AT_REST = 1.0 / 3.0 + HALF**2
# A model serves a motion if its expected error is at most this multiple of the held-out error: then nine of ten errors
# that are made are at most HOLDS times the held-out one.
SERVES = 1.2
# A stated error holds if the error that is made is at most this multiple of it.
HOLDS = 1.5
# Samples of the recorded motion from which others are made.
MOST_SAMPLES = 2000
# Motions of each kind: their errors differ by place and path, and the error that nine of ten stay below is stated.
PATHS, STATED = 10, 0.9


@dataclass(frozen=True, eq=False)
class ErrorProfile:
    """Mean squares of torque errors that a log showed, by joint and speed.

    Attributes
    ----------
    speeds : ndarray, shape (n, k), rad/s or m/s
        Speeds between the classes of speed.
    mean_square : ndarray, shape (n, k + 1), (N m)^2 or N^2
        Mean square of the held-out error in each class.
    at_rest : ndarray, shape (n,), (N m)^2 or N^2
        The same at rest; nan = the log has no rest that was scored.

    """

    speeds: Float
    mean_square: Float
    at_rest: Float

    @staticmethod
    def of(residuals: Residuals, training: Scores, held_out: Scores) -> ErrorProfile:
        """Residuals of the training, enlarged as the error of each joint grows from training to held-out data."""
        n = len(residuals.joint_names)
        speeds, mean_square = np.zeros((n, len(SPEEDS))), np.zeros((n, len(SPEEDS) + 1))
        for j in range(n):
            counted = residuals.counts(j)
            square, speed = residuals.error[counted, j] ** 2, np.abs(residuals.dq[counted, j])
            if not len(speed):
                continue
            speeds[j] = np.quantile(speed, SPEEDS)
            classes = np.searchsorted(speeds[j], speed)
            count = np.bincount(classes, minlength=len(SPEEDS) + 1)
            total = np.bincount(classes, square, minlength=len(SPEEDS) + 1)
            mean_square[j] = np.where(count > 0, total / np.maximum(count, 1), square.mean())
        with np.errstate(divide="ignore", invalid="ignore"):
            growth = held_out.mse / training.mse
        growth = np.where(np.isfinite(growth), np.maximum(growth, 1.0), 1.0)
        return ErrorProfile(speeds, mean_square * growth[:, None], _at_rest(training, held_out))

    def of_motion(self, dq: Float, resting: Bool, dry: Float) -> Float:
        """Mean squares (T, n) at speeds dq (T, n).

        A joint at rest has any friction up to its dry friction (n,) to either side, unless the log has rest.
        """
        squares = np.empty(dq.shape)
        for j in range(dq.shape[1]):
            squares[:, j] = self.mean_square[j][np.searchsorted(self.speeds[j], np.abs(dq[:, j]))]
        unknown = self.mean_square[:, 0] + AT_REST * dry**2
        return np.where(resting, np.where(np.isfinite(self.at_rest), self.at_rest, unknown), squares)


def _at_rest(*scores: Scores) -> Float:
    """Mean square of the error at rest (n,), from samples that only the figures of all samples hold.

    nan = fewer than the slowest class of speed has.
    """
    for known in scores:
        whole = known.all_samples
        if whole is not None and known.kept_at_rest is not None and not np.all(known.kept_at_rest == HALF):
            count = whole.count - known.count
            total = whole.mse * whole.count - np.where(known.count > 0, known.mse * known.count, 0.0)
            enough = count > SPEEDS[0] * known.count
            return np.where(enough, np.maximum(total, 0.0) / np.maximum(count, 1), np.nan)
    return np.full(len(scores[0].joint_names), np.nan)


@dataclass(frozen=True, eq=False)
class Forecast:
    """Torque errors to be expected of a model on motion that was not recorded.

    The mean square of a joint's error is that of the held-out error at its speed, which contains what the model lacks,
    plus the variance y Cov y' of the predicted torque, which grows where the log did not determine the parameters.

    Attributes
    ----------
    bands : Bands
        The fitted model and the uncertainty of its torque.
    profile : ErrorProfile
        Mean squares of held-out errors.
    judged : ndarray of bool, shape (n,)
        Joints that the held-out data judge.
    held_out : Scores
        Scores on held-out data.
    recorded : Residuals
        Residuals of the training.
    motion : MotionRange, optional
        Range of the recorded motion.

    """

    bands: Bands
    profile: ErrorProfile
    judged: Bool
    held_out: Scores
    recorded: Residuals
    motion: MotionRange | None

    @staticmethod
    def of(
        robot: RobotModel,
        terms: Terms,
        estimate: Estimate,
        residuals: Residuals | None,
        training: Scores,
        held_out: Scores | None,
    ) -> Forecast | None:
        """The forecast of a fit.

        Parameters
        ----------
        robot : RobotModel
            The robot; its limits bound faster motion and the range of the joints.
        terms : Terms
            The fitted model.
        estimate : Estimate
            Its parameters, with their covariance.
        residuals : Residuals, optional
            Residuals of the training.
        training : Scores
            Scores on the fitted data.
        held_out : Scores, optional
            Scores on held-out data; None = the log was too short to hold any out.

        Returns
        -------
        Forecast, optional
            None if there are no residuals, no held-out data, no covariance, or terms that read more than the motion.

        """
        if residuals is None or held_out is None or terms.channels():
            return None
        judged = np.isfinite(held_out.judged_r2)
        if not judged.any() or not np.isfinite(estimate.covariance).all():
            return None
        profile = ErrorProfile.of(residuals, training, held_out)
        return Forecast(Bands(robot, terms, estimate), profile, judged, held_out, residuals, training.motion)

    def mean_square(self, samples: Samples, resting: Bool) -> Float:
        """Expected mean square error (T, n) of a motion; resting (T, n): joints at rest."""
        model = self.bands
        dry = np.zeros(samples.n)
        if resting.any():
            dry = _dry_friction(model.robot, model.terms, model.estimate.parameters, samples)
        square = self.profile.of_motion(samples.dq, resting, dry)
        return np.asarray(square + self.bands.std(samples, np.arange(len(samples))) ** 2)

    def relative(self, samples: Samples, resting: Bool) -> float:
        """Expected ||e|| / ||tau|| of a motion over the judged joints."""
        torque = self.bands.terms.torque(self.bands.robot, samples, self.bands.estimate.parameters)
        square = self.mean_square(samples, resting)[:, self.judged]
        return float(np.sqrt(square.sum() / np.sum(torque[:, self.judged] ** 2)))

    @property
    def most(self) -> float:
        """Largest expected error at which the model serves a motion."""
        return SERVES * self.held_out.total_relative

    def others(self) -> tuple[ExpectedError, ...]:
        """Errors on motions made from the recorded one, the largest of nine in ten of PATHS motions of each kind.

        Joints do not move together (each starts at another time), move slower or faster, less and around any pose
        within the limits, or rest in turns.
        """
        errors: dict[tuple[str, str], list[float]] = {}
        robot = self.bands.robot
        for kind, motion, other, resting in _other_motions(robot, motion_of(self.recorded)):
            # Joints that move together may be out of reach of their linkage where each alone is not.
            samples = replace(other, q=robot.drive.within_reach(other.q)) if robot.drive.linkages else other
            errors.setdefault((kind, motion), []).append(self.relative(samples, resting))
        rest_known = bool(np.isfinite(self.profile.at_rest[self.judged]).all())
        return tuple(
            ExpectedError(
                kind,
                motion,
                error := float(np.quantile(of_paths, STATED)),
                served=error <= self.most and (rest_known or kind != DWELLS),
            )
            for (kind, motion), of_paths in errors.items()
        )

    def outside(self, samples: Samples) -> str:
        """In words, where a motion leaves the recorded one and what error is to be expected; "" = it does not.

        A motion is outside if samples leave the recorded range, or if the expected error, over the larger of its own
        torque and the held-out one, is more than HOLDS times the held-out error.
        """
        beyond = "" if self.motion is None else self.motion.beyond_text(samples, self.held_out.joint_names)
        if not _needs_time(*self.bands.terms):
            stride = max(-(-len(samples) // POINTS), 1)
            samples = _selected(samples, np.arange(0, len(samples), stride))
        moving = np.zeros(samples.q.shape, dtype=np.bool_)
        square = self.mean_square(samples, moving).mean(axis=0)
        torque = self.bands.terms.torque(self.bands.robot, samples, self.bands.estimate.parameters)
        asked, recorded = (torque**2).mean(axis=0), self.held_out.torque_rms**2
        scale = max(asked[self.judged].sum(), recorded[self.judged].sum())
        error = float(np.sqrt(square[self.judged].sum() / scale))
        if not beyond and error <= HOLDS * self.held_out.total_relative:
            return ""
        expected = (
            f"expected torque error {100 * error:.2g} %, "
            f"{100 * self.held_out.total_relative:.2g} % on held-out motion"
        )
        return f"{beyond} are outside the recorded range; {expected}" if beyond else expected


def _dry_friction(robot: RobotModel, terms: Terms, parameters: Float, samples: Samples) -> Float:
    """Dry friction of each joint in motion (n,), N m or N."""
    stopped, _ = dry_friction(robot, terms, samples, parameters, np.ones(samples.q.shape))
    # Friction with a memory of reversals has no value at an instant, but reaches its level in motion.
    for term, values in terms.with_values(robot, parameters):
        if Reads.PAST in term.traits.reads and values.any():
            stopped += np.abs(torque_of(term, robot, seen_by(term, samples), values))
    return np.asarray(np.abs(stopped).mean(axis=0))


def motion_of(residuals: Residuals) -> Samples:
    """The recorded motion as one sequence, thinned to MOST_SAMPLES."""
    stride = max(-(-len(residuals.t) // MOST_SAMPLES), 1)
    ddq = np.empty_like(residuals.dq)
    ends = np.flatnonzero((np.diff(residuals.segment) != 0) | (np.diff(residuals.trajectory) != 0)) + 1
    for a, b in pairwise([0, *ends.tolist(), len(residuals.t)]):
        ddq[a:b] = np.gradient(residuals.dq[a:b], 1.0 / residuals.rate, axis=0) if b - a > 1 else 0.0
    q, dq, ddq = (x[::stride] for x in (residuals.q, residuals.dq, ddq))
    temperature = None if residuals.temperature is None else residuals.temperature[::stride]
    rate = residuals.rate / stride
    return Samples(
        t=np.arange(len(q)) / rate,
        q=q,
        dq=dq,
        ddq=ddq,
        tau=np.zeros(q.shape),
        keep=np.ones(len(q), dtype=np.bool_),
        rate=rate,
        segment=0,
        trajectory="",
        temperature=temperature,
    )


def _other_motions(robot: RobotModel, recorded: Samples) -> Iterator[tuple[str, str, Samples, Bool]]:
    """PATHS motions of each kind: the kind, the same in words, samples, and joints at rest (T, n)."""
    n, T = robot.n, len(recorded)
    rng = np.random.default_rng(0)
    low, high = recorded.q.min(axis=0), recorded.q.max(axis=0)
    lower, upper = (
        np.where(np.isfinite(limit), limit, end)
        for limit, end in ((robot.limits.lower, low), (robot.limits.upper, high))
    )
    beyond = bool((upper - lower > (1.0 + RANGE_MARGIN) * (high - low)).any())
    top = np.abs(recorded.dq).max(axis=0)
    factor = min(FASTER, float((robot.limits.velocity[top > 0] / top[top > 0]).min(initial=np.inf)))
    moving, turns = np.zeros((T, n), dtype=np.bool_), np.arange(T)[:, None] * n // T + np.arange(n)
    for _ in range(PATHS):
        starts = rng.integers(0, T, n)
        q, dq, ddq = (
            np.column_stack([np.roll(line, start) for line, start in zip(x.T, starts, strict=True)])
            for x in (recorded.q, recorded.dq, recorded.ddq)
        )
        other = replace(recorded, q=q, dq=dq, ddq=ddq)
        yield "paths", "on other paths", other, moving
        # A third of the travel in the same time, anywhere in the recorded range.
        slow = replace(other, q=_within(q, SLOWER, low, high, rng), dq=SLOWER * dq, ddq=SLOWER * ddq)
        yield "slower", "at a third of the speed", slow, moving
        if factor > 1.0 + RANGE_MARGIN:
            yield "faster", f"at {factor:.2g} times the speed", _at_speed(other, factor), moving
        if beyond:
            # Half of the recorded travel, anywhere within the limits.
            yield (
                "positions",
                "in other positions",
                replace(other, q=_within(q, 0.5, lower, upper, rng)),
                moving,
            )
        resting = turns % 2 == 0
        still = replace(other, dq=np.where(resting, 0.0, dq), ddq=np.where(resting, 0.0, ddq))
        yield DWELLS, "with joints at rest", still, resting


def _within(q: Float, share: float, lower: Float, upper: Float, rng: np.random.Generator) -> Float:
    """Motion q (T, n) with a share of its travel, at a random place between limits (n,)."""
    low, travel = q.min(axis=0), np.ptp(q, axis=0)
    less = np.minimum(share * travel, upper - lower)
    place = lower + (upper - lower - less) * rng.random(len(less))
    return np.asarray(place + less * (q - low) / np.where(travel > 0, travel, 1.0))


def _at_speed(samples: Samples, factor: float) -> Samples:
    return replace(
        samples,
        t=samples.t / factor,
        dq=samples.dq * factor,
        ddq=samples.ddq * factor**2,
        rate=samples.rate * factor,
    )
