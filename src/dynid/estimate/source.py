"""Origin of factors: single equations, and the samples that they were written from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.errors import UsageError
from dynid.base.parallel import Progress
from dynid.base.records import dataclass
from dynid.estimate.estimator import Piece, Regression, Source
from dynid.factor.assemble import Assembly
from dynid.factor.factor import Block, Factor, Factors, merged
from dynid.recording import Commands
from dynid.robot.model import RobotModel
from dynid.rows.rows import group_joints
from dynid.signals.coherence import choose_cutoff
from dynid.signals.noise import MotionNoise
from dynid.signals.samples import Samples
from dynid.terms.term import Terms

Position = float | Sequence[float] | None
# Bytes of equations that are kept in memory for repeated passes.
PIECE_BYTES = 250e6
# Samples that are enough for the mean square of noise.
NOISE_SAMPLES = 4000


@dataclass(frozen=True, eq=False)
class LogSource:
    """Samples of a log with everything that turns them into equations.

    Attributes
    ----------
    assembly : Assembly
        Robot, terms, rows and filter.
    batches : iterable of Samples
        Samples; they may be iterated repeatedly.
    threads : int
        Threads of simulations; results do not depend on it.
    noise_of : callable, optional
        Noise of the motion, measured in the log or with a given standard deviation of the positions; None = unknown.
    progress : callable, optional
        Called with (stage, seconds of data done) by methods that pass over the samples repeatedly.
    commands : callable, optional
        Commands of the drives throughout a trajectory, by its name; None = the log has torque.

    """

    assembly: Assembly
    batches: Iterable[Samples]
    threads: int = 1
    noise_of: Callable[[Position], MotionNoise] | None = None
    progress: Progress | None = None
    commands: Callable[[str], Commands] | None = None

    @property
    def robot(self) -> RobotModel:
        """The robot."""
        return self.assembly.robot

    @property
    def terms(self) -> Terms:
        """The model."""
        return self.assembly.terms

    def pieces(self, wanted: Bool) -> Iterator[Piece]:
        """Equations after the parallel filter, decimated and gated, as they entered the factors."""
        assembly = replace(self.assembly, wanted=wanted)
        yield from (piece_of(assembly, samples) for samples in self.batches)

    def with_batches(self, batches: Sequence[Samples]) -> LogSource:
        """The same equations of other samples, such as simulated ones."""
        return replace(self, batches=batches)

    def noise(self, position: Position = None) -> MotionNoise | None:
        """Noise of the motion, measured in the log or given; None if it is unknown or zero."""
        if position is not None:
            one_a_joint("position_noise", position, self.robot.n)
        if self.noise_of is None:
            return None
        motion_noise = self.noise_of(position)
        return motion_noise if motion_noise.present else None

    def column_noise(
        self, wanted: Bool, position: float | Sequence[float] | None = None
    ) -> tuple[Float, ...] | None:
        """Mean square change (w_g, w_g) of the columns of each group by random noise of the motion."""
        noise = self.noise(position)
        if noise is None:
            return None
        assembly = replace(self.assembly, wanted=wanted)
        rng = np.random.default_rng(0)
        total: list[Float] = []
        count: list[int] = []
        for samples in self.batches:
            plain = piece_of(assembly, samples)
            moved = piece_of(assembly, noise.added(samples, rng))
            if not total:
                total = [np.zeros((len(c), len(c))) for c in plain.columns]
                count = [0] * len(plain.columns)
            for g, (a, b) in enumerate(zip(plain.panels, moved.panels, strict=True)):
                change = b[:-1] - a[:-1]
                total[g] += change @ change.T
                count[g] += change.shape[1]
            if min(count) > NOISE_SAMPLES:
                break
        return tuple(t / max(c, 1) for t, c in zip(total, count, strict=True))

    @cached_property
    def reach(self) -> float:
        """Frequency in Hz below which the motion has 99.9 % of the power of its velocity."""
        first: list[Samples] = []
        for samples in self.batches:
            first.append(samples)
            if sum(len(s) for s in first) > NOISE_SAMPLES * 10:
                break
        evidence = choose_cutoff([s.q.T for s in first], first[0].rate, self.robot.joint_names)
        return float(evidence.reach.max())


def one_a_joint(name: str, value: float | Sequence[float], n: int) -> Float:
    """Option that is one number or one per joint.

    `name`: name of the option for messages. The result has shape (n,). Raises UsageError for another count.
    """
    given = np.asarray(value, dtype=np.float64)
    if given.ndim > 1 or given.size not in (1, n):
        raise UsageError(
            "one-a-joint",
            found=f"{name} with {given.size} numbers",
            expected=f"one number, or {n}, one per joint",
        )
    return np.array(np.broadcast_to(given, (n,)))


def piece_of(assembly: Assembly, samples: Samples) -> Piece:
    """Equations of one batch."""
    equations = assembly.rows.equations(assembly.robot, assembly.terms, samples, assembly.wanted)
    return filtered_piece(assembly, samples, equations.columns, equations.panels)


def filtered_piece(
    assembly: Assembly, samples: Samples, columns: tuple[Int, ...], panels: tuple[Float, ...]
) -> Piece:
    """Panels (w + 1, T) of a batch by group, after the parallel filter, decimated and gated.

    `assembly`: rows and filter; `columns`: indices of the parameters by group; `panels` (w + 1, T): panels by group.
    Result: equations.
    """
    kept = assembly.parallel.kept(samples)
    owner = group_joints(assembly.rows, assembly.robot)
    times, filtered = [], []
    for g, panel in enumerate(panels):
        values, t = assembly.parallel.apply(np.ascontiguousarray(panel), samples)
        if samples.gate is not None and owner[g] >= 0:
            open_ = samples.gate[kept, owner[g]]
            values, t = values[:, open_], t[open_]
        filtered.append(np.ascontiguousarray(values))
        times.append(t)
    return Piece(samples.segment, tuple(times), columns, tuple(filtered))


def log_source(regression: Regression, method: str) -> LogSource:
    """Source of a regression for methods that simulate; raises UsageError if there are only factors."""
    if not isinstance(regression.source, LogSource):
        raise UsageError(
            "needs-samples",
            found=f"'{method}' with factors only",
            expected="the samples of a log",
            do="call dynid.identify, or choose 'wls'",
        )
    return regression.source


def source_of(regression: Regression, method: str) -> Source:
    """Source of a regression for methods that need single equations; raises UsageError if there is none."""
    if regression.source is None:
        raise UsageError(
            "needs-samples",
            found=f"'{method}' with factors only",
            expected="single equations of a log",
            do="call dynid.identify, or choose 'wls'",
        )
    return regression.source


def kept_pieces(regression: Regression, method: str) -> Callable[[], Iterable[Piece]]:
    """Equations of a regression's columns for repeated passes; kept in memory if they are few."""
    source, mask = source_of(regression, method), regression.base.mask
    lines = sum(len(f.columns) + 1 for f in regression.factors.total)
    if 8.0 * lines * max(f.count for f in regression.factors.total) > PIECE_BYTES:
        return lambda: source.pieces(mask)
    pieces = list(source.pieces(mask))
    return lambda: pieces


@dataclass(frozen=True, eq=False)
class Places:
    """Blocks that equations belong to; a regression may have only some blocks of a log."""

    blocks: tuple[Block, ...]

    @cached_property
    def _spans_by_segment(self) -> dict[int, tuple[Float, Int]]:
        # Runs (K, 2) of consecutive samples in the order of time, and their blocks.
        spans = [block.spans for block in self.blocks]
        segments = np.array([block.segment for block in self.blocks])
        spans_by_segment = {}
        for segment in np.unique(segments).tolist():
            numbers = np.flatnonzero(segments == segment)
            each = np.concatenate([spans[i] for i in numbers])
            index = np.repeat(numbers, [len(spans[i]) for i in numbers])
            order = np.argsort(each[:, 0], kind="stable")
            spans_by_segment[segment] = each[order], index[order]
        return spans_by_segment

    def of(self, segment: int, times: Float) -> Int:
        """Index of the block of each time, -1 = none."""
        known = self._spans_by_segment.get(segment)
        if known is None or not len(times):
            return np.full(len(times), -1)
        spans, index = known
        near = 1e-6
        place = np.searchsorted(spans[:, 0], times + near, side="right") - 1
        at = np.maximum(place, 0)
        return np.where((place >= 0) & (times <= spans[at, 1] + near), index[at], -1)


def factors_of_pieces(
    regression: Regression, pieces: Iterable[Piece], names: tuple[str, ...] | None = None
) -> Factors:
    """Factors of equations in the blocks of a regression; other equations are left out.

    `names`: names of the groups; None = those of the regression.
    """
    places = Places(regression.factors.blocks)
    M = len(regression.factors.blocks)
    parts_of_blocks: list[list[list[Factor]]] = []
    columns: tuple[Int, ...] = ()
    for piece in pieces:
        if not parts_of_blocks:
            columns = piece.columns
            parts_of_blocks = [[[] for _ in columns] for _ in range(M)]
        for g, (indices, panel) in enumerate(zip(piece.columns, piece.panels, strict=True)):
            place = places.of(piece.segment, piece.times[g])
            edges = np.flatnonzero(np.diff(place)) + 1
            for a, b in zip([0, *edges], [*edges, len(place)], strict=True):
                if b > a and place[a] >= 0:
                    part = Factor.from_panel(indices, np.ascontiguousarray(panel[:, a:b]))
                    parts_of_blocks[int(place[a])][g].append(part)
    blocks = [
        replace(
            block,
            groups=tuple(
                merged(parts) if parts else Factor.empty(indices)
                for parts, indices in zip(groups, columns, strict=True)
            ),
        )
        for block, groups in zip(regression.factors.blocks, parts_of_blocks, strict=True)
    ]
    group_names = regression.factors.group_names if names is None else names
    return Factors(group_names, regression.factors.parameter_count, tuple(blocks))
