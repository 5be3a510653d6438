"""Scores and residuals of an estimate on samples, filtered as its equations are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.errors import UnfitDataError
from dynid.base.parallel import ordered_map
from dynid.base.records import dataclass
from dynid.estimate.bands import Bands
from dynid.estimate.estimator import Estimate
from dynid.estimate.kept_friction import StopSums
from dynid.estimate.residuals import Residuals
from dynid.estimate.scores import LeftOut, MotionRange, Origin, Sums
from dynid.factor.assemble import Assembly
from dynid.factor.thinning import Stretches
from dynid.kernel import release_memory
from dynid.run.result import Validation
from dynid.signals.last_motion import last_direction
from dynid.signals.samples import REST, STANDING, Samples
from dynid.terms.at_rest import dry_friction
from dynid.terms.friction import WIDTH

# Times what a second pass of the filters moves positions at rest by: after a stop the first one has turned a joint back
# by about as much (3.5 to 5 times, by filters of equal cut-off on stops of 0.02 to 0.8 s).
RINGING = 4.0


def score(
    assembly: Assembly,
    estimate: Estimate,
    batches: Iterable[Samples],
    origin: Origin,
    threads: int,
    progress: Callable[[float], None] | None,
    trained: MotionRange | None = None,
    share: float = 1.0,
    travel: Float | None = None,
    kept_at_rest: Float | None = None,
) -> tuple[Validation, LeftOut]:
    """Scores and residuals of an estimate on samples, filtered and thinned as in the equations; what they leave out.

    trained: range of the motion that the estimate was fitted to; None = not to be compared.
    share: of the log whose residuals are kept, a stretch of each block of time, each a segment of its own; scores are
    of all samples.
    travel: (n,) by which joints have to move for it to be seen; of joints at rest, which were fitted to nothing, a
    share of the dry friction of the last such motion is predicted then. None = what the model says of a velocity of
    zero.
    kept_at_rest: (n,) that share; None = as the stops of these samples have it.
    Raises UnfitDataError if no sample is left between the filters' edges.
    """
    robot, theta = assembly.robot, estimate.full_vector
    bands, tally = Bands(robot, assembly.terms, estimate), _Tally(robot.n, trained)
    rate = assembly.parallel.rate / assembly.parallel.decimation

    def one(samples: Samples) -> tuple[Samples, Float, Int, Int, Bool | None, _Counted]:
        model = assembly.terms.torque(robot, samples, theta)
        lines = np.concatenate([samples.tau.T, model.T, samples.q.T, samples.dq.T])
        if len(estimate.consistent):
            exported = assembly.terms.torque(robot, samples, estimate.consistent)
            lines = np.concatenate([lines, exported.T])
        whole = samples.with_left_out
        sound, _ = assembly.parallel.apply(np.ascontiguousarray(lines), whole)
        index = assembly.parallel.kept(whole)
        dry = np.zeros((robot.n, len(index)))
        if travel is not None:
            filtered = sound[2 * robot.n : 3 * robot.n]
            dry, smooth = _dry_at_rest(assembly, theta, samples, travel, filtered, index)
            sound[robot.n : 2 * robot.n] -= smooth
        opened = _opened(samples, index)
        if samples.measured is not None:
            # Of what was not measured nothing is missed: no figure of the joint has a meaning.
            silent = np.flatnonzero(~samples.measured)
            sound[silent] = sound[robot.n + silent]
            dry[silent] = 0.0
        counted = _Counted.of(samples, index, sound[: 2 * robot.n], dry, opened, rate, trained)
        if len(sound) > 4 * robot.n:
            pair, sound = sound[[*range(robot.n), *range(4 * robot.n, 5 * robot.n)]], sound[: 4 * robot.n]
            counted = replace(counted, exported=_kept_sums(samples, index, pair, opened))
        stretches = Stretches(share, max(round(assembly.block_seconds * samples.rate), 1))
        number = stretches.numbers(samples.segment, samples.first + index)
        kept = samples.keep[index] & (number >= 0)
        if not kept.all():
            sound, index, number = sound[:, kept], index[kept], number[kept]
            opened = None if opened is None else opened[kept]
        std = bands.std(samples, index)
        return samples, np.concatenate([sound, std.T]), index, number, opened, counted

    # Room for all of it where their number is known: the residuals are never there twice.
    room = (
        sum(len(assembly.parallel.kept(samples)) for samples in batches) if isinstance(batches, list) else 0
    )
    gathered = _Gathered(5 * robot.n, room)
    times: list[Float] = []
    trajectory: list[Int] = []
    segment: list[Int] = []
    names: dict[str, int] = {}
    warmth: list[Float] = []
    gates: list[Bool] = []
    runs: dict[tuple[str, int, int], int] = {}
    for samples, kept, at, number, opened, counted in ordered_map(one, batches, threads):
        tally.add(counted)
        gates.append(np.ones((len(at), robot.n), dtype=np.bool_) if opened is None else opened)
        if samples.temperature is not None:
            warmth.append(samples.temperature[at])
        index = names.setdefault(samples.trajectory, len(names))
        gathered.add(kept)
        times.append(samples.t[at])
        trajectory.append(np.full(len(at), index))
        if share >= 1.0:
            segment.append(np.full(len(at), samples.segment))
        else:
            stretches, own = np.unique(number, return_inverse=True)
            names_of = ((samples.trajectory, samples.segment, stretch) for stretch in stretches.tolist())
            segment.append(
                np.array([runs.setdefault(one, len(runs)) for one in names_of], dtype=np.int64)[own]
            )
        if progress is not None:
            progress(len(samples) / samples.rate)
    if not tally.count:
        raise UnfitDataError(
            "no-samples", found="no usable sample", expected="motion longer than the filters' edges"
        )
    n = robot.n
    lines = gathered.lines
    residuals = Residuals(
        trajectories=tuple(names),
        joint_names=robot.joint_names,
        t=np.concatenate(times),
        trajectory=np.concatenate(trajectory),
        segment=np.concatenate(segment),
        measured=lines[:n].T,
        predicted=lines[n : 2 * n].T,
        q=lines[2 * n : 3 * n].T,
        dq=lines[3 * n : 4 * n].T,
        std=lines[4 * n :].T,
        rate=rate,
        temperature=np.concatenate(warmth) if warmth else None,
        counted=None if all(gate.all() for gate in gates) else np.concatenate(gates),
    )
    release_memory()
    left_out = tally.left_out(kept_at_rest)
    blocks = _by_block(residuals, assembly.block_seconds)
    scores = tally.sums.scores(origin, robot.joint_names, tuple(names), left_out, blocks)
    scores = replace(scores, motion=tally.motion, beyond=tally.beyond)
    if tally.exported is not None:
        others = tally.exported.scores(origin, robot.joint_names, tuple(names))
        scores = replace(scores, exported=others.total_relative)
    return Validation(scores, residuals), left_out


def _dry_at_rest(
    assembly: Assembly, theta: Float, samples: Samples, travel: Float, filtered: Float, index: Int
) -> tuple[Float, Float]:
    """Dry friction of the last motion and what the model has in its place, filtered, (n, T) each; zero in motion.

    filtered: (n, T) positions of the T sound samples, filtered as torque is.    index: of these.
    """
    stands = _at_rest(samples)
    if not stands[:, index].any():
        nothing = np.zeros_like(filtered)
        return nothing, nothing
    # Filters swing about a stop, which is no motion.
    ringing = np.where(stands[:, index], np.abs(filtered - samples.q[index].T), 0.0).max(axis=1)
    direction = last_direction(samples, np.maximum(travel, RINGING * ringing))
    lines = dry_friction(assembly.robot, assembly.terms, samples, theta, direction)
    # Filtered by itself, so that samples in motion stay as they are.
    sound, _ = assembly.parallel.apply(
        np.concatenate([stands * line.T for line in lines]), samples.with_left_out
    )
    dry, smooth = (stands[:, index] * one for one in np.split(sound, 2))
    return dry, smooth


def _by_block(residuals: Residuals, seconds: float) -> list[Sums]:
    r, block = residuals, np.floor(residuals.t / seconds)
    ends = (np.diff(r.trajectory) != 0) | (np.diff(r.segment) != 0) | (np.diff(block) != 0)
    parts = np.split(np.arange(len(r.t)), np.flatnonzero(ends) + 1)
    return [
        Sums.of_arrays(r.measured[part], r.predicted[part], None if r.counted is None else r.counted[part])
        for part in parts
    ]


@dataclass(frozen=True, eq=False)
class _Counted:
    """What one batch adds to a set of scores beside its residuals.

    sums, left_out: what the model misses on samples that count, and on those that do not.    reasons: their number.
    stops: the dry friction of those at rest, which left_out is without.
    exported: what the bodies that exports hold miss on samples that count; None = the model is of these.
    motion: range of those that count, None = there are none.    beyond: (3, n) how many lie outside the training's.
    """

    count: int
    sums: Sums
    left_out: Sums
    stops: StopSums
    reasons: Mapping[str, float]
    motion: MotionRange | None
    beyond: Float
    exported: Sums | None = None

    @staticmethod
    def of(
        samples: Samples,
        index: Int,
        torque: Float,
        dry: Float,
        opened: Bool | None,
        rate: float,
        trained: MotionRange | None,
    ) -> _Counted:
        """index: of the T sound samples, rate Hz.    torque: (2 n, T) measured, predicted.    dry: (n, T) at rest.

        opened: (T, n) whose equation counts; None = all.
        """
        kept, n = samples.keep[index], samples.n
        reasons = {reason: float(mask[index].sum()) for reason, mask in samples.left_out.items()}
        left, shut = torque[:, ~kept], None
        if opened is not None:
            left, shut = torque, np.asarray(~(kept[:, None] & opened))
            reasons[STANDING] = float((kept[:, None] & ~opened).sum()) / n
        moved = tuple(x[index[kept]] for x in (samples.q, samples.dq, samples.ddq))
        return _Counted(
            count=int(kept.sum()),
            sums=_kept_sums(samples, index, torque, opened),
            left_out=Sums.of_arrays(left[:n].T, left[n:].T, shut).of_joints(samples.measured),
            stops=StopSums.of(torque[:n] - torque[n:], dry, _at_rest(samples)[:, index], rate),
            reasons=reasons,
            motion=MotionRange.of(*moved) if kept.any() else None,
            beyond=trained.beyond(*moved) if trained is not None else np.zeros((3, n)),
        )


def _at_rest(samples: Samples) -> Bool:
    # (n, T) where joints stand: all of them, or one while others move. Equations are also left out where one comes to
    # rest or leaves it, fast enough for friction to have its sign.
    stands = np.broadcast_to(
        samples.left_out.get(REST, np.zeros(len(samples), dtype=np.bool_)), (samples.n, len(samples))
    )
    opened = _opened(samples, np.arange(len(samples)))
    slow = np.abs(samples.dq.T) <= WIDTH
    return stands if opened is None else np.asarray(stands | (slow & ~opened.T))


def _opened(samples: Samples, index: Int) -> Bool | None:
    # (T, n) of which joints the equations count; None = of all. A joint that was not measured has no figures anyway.
    if samples.gate is None:
        return None
    opened = samples.gate[index] if samples.measured is None else samples.gate[index] | ~samples.measured
    return None if opened.all() else opened


def _kept_sums(samples: Samples, index: Int, torque: Float, opened: Bool | None) -> Sums:
    # Over samples that count, of torque (2 n, T) measured, then predicted.
    kept = samples.keep[index]
    sound, counted = torque[:, kept], None if opened is None else opened[kept]
    return Sums.of_arrays(sound[: samples.n].T, sound[samples.n :].T, counted).of_joints(samples.measured)


class _Tally:
    """What the batches add up to."""

    def __init__(self, n: int, trained: MotionRange | None) -> None:
        self.motion: MotionRange | None = None
        self.exported: Sums | None = None
        self._compared = trained is not None
        self.count, self._beyond = 0, np.zeros((3, n))
        self.sums = self._left_out = Sums.of_arrays(np.zeros((0, n)), np.zeros((0, n)))
        self.stops = StopSums.of(np.zeros((n, 0)), np.zeros((n, 0)), np.zeros((n, 0), dtype=np.bool_), 1.0)
        self._reasons: dict[str, float] = {}

    def add(self, one: _Counted) -> None:
        """Adds a batch."""
        self.count += one.count
        self.sums, self._left_out = self.sums + one.sums, self._left_out + one.left_out
        self._beyond += one.beyond
        self.stops += one.stops
        if one.exported is not None:
            self.exported = one.exported if self.exported is None else self.exported + one.exported
        for reason, number in one.reasons.items():
            self._reasons[reason] = self._reasons.get(reason, 0) + number
        if one.motion is not None:
            self.motion = one.motion if self.motion is None else self.motion | one.motion

    def left_out(self, kept_at_rest: Float | None) -> LeftOut:
        """The samples that do not count, of those at rest a share (n,) of the dry friction predicted; None = theirs."""
        # Where one joint's equation does not count, those of others do.
        everything = self.count + sum(number for why, number in self._reasons.items() if why != STANDING)
        shares = {reason: number / everything for reason, number in self._reasons.items() if number}
        kept = self.stops.share if kept_at_rest is None else kept_at_rest
        return LeftOut(
            self.stops.predicted(self._left_out, kept),
            shares,
            kept if {REST, STANDING} & set(shares) else None,
        )

    @property
    def beyond(self) -> dict[str, Float]:
        """Share of the samples that count outside the training's range, by quantity."""
        if not self._compared:
            return {}
        shares = self._beyond / self.count
        return dict(zip(("position", "velocity", "acceleration"), shares, strict=True))


class _Gathered:
    """Lines (L, T) that grow along T."""

    def __init__(self, lines: int, room: int) -> None:
        self.count = 0
        self._lines = np.empty((lines, room))

    def add(self, part: Float) -> None:
        """Appends a part (L, T_i)."""
        end = self.count + part.shape[1]
        if end > self._lines.shape[1]:
            grown = np.empty((len(self._lines), max(end, 2 * self._lines.shape[1])))
            grown[:, : self.count] = self.lines
            self._lines = grown
        self._lines[:, self.count : end] = part
        self.count = end

    @property
    def lines(self) -> Float:
        """All of it, (L, T)."""
        return self._lines[:, : self.count]
