"""Factors from samples: one pass, chunk by chunk, with memory that does not grow with the log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.errors import UnfitDataError
from dynid.base.parallel import ordered_map
from dynid.base.records import dataclass
from dynid.factor.base import random_states
from dynid.factor.blocking import Blocking, Cut, GrowingBlocks, stretches_joined
from dynid.factor.factor import Block, Factors, sum_of, without_traces
from dynid.kernel import release_memory
from dynid.robot.model import RobotModel
from dynid.rows.rows import Equations, Rows, group_joints
from dynid.rows.torque import TorqueRows
from dynid.signals.parallel import ParallelFilter, SideBySide, gathered
from dynid.signals.samples import REST, Samples
from dynid.terms.forms import channels_of, clock_of, known_torque, seen_by
from dynid.terms.term import Term, Terms

# s: no robot is logged more slowly, so such times are probably in another unit.
SLOW_STEP = 0.1
# Samples of short batches whose torque is computed together: their lines stay in the processor's cache.
AT_ONCE = 2048
# States in which the columns of a term are determined; they do not depend on the state.
FEW = 3

# How a batch is cut into blocks; the motion (n, B) of each block; and for each group of equations its columns, its
# panel in the order of the blocks, and where each block begins in it.
_Pieces = tuple[Cut, Float, tuple[Int, ...], tuple[Float, ...], tuple[Int, ...]]


@dataclass(frozen=True)
class Assembly:
    """Everything that turns samples into factors.

    Attributes
    ----------
    robot : RobotModel
        Robot.
    terms : Terms
        Terms of the model.
    rows : Rows
        Row scheme.
    wanted : ndarray of bool, shape (p,)
        Columns to write.
    parallel : ParallelFilter
        Filter of both sides of the equations.
    blocks : Blocking
        How the log is cut into blocks.

    """

    robot: RobotModel
    terms: Terms
    rows: Rows
    wanted: Bool
    parallel: ParallelFilter
    blocks: Blocking

    def factors(
        self,
        batches: Iterable[Samples],
        threads: int = 1,
        progress: Callable[[float], None] | None = None,
        known: Known | None = None,
    ) -> Factors:
        """Factors of all batches.

        Parameters
        ----------
        batches : iterable of Samples
            Prepared log.
        threads : int
            Number of threads.
        progress : callable, optional
            Called with the seconds of data done.
        known : Known, optional
            Factors of some groups over the same batches, which are reused.

        Returns
        -------
        Factors
            Factors.

        Raises
        ------
        UnfitDataError
            If no sample is usable.

        """
        growing = GrowingBlocks()
        skipped = known.groups if known is not None else np.zeros(0, dtype=np.bool_)
        written = self.wanted & self.of_joints(~skipped) if skipped.any() else self.wanted
        blocks_of = partial(self._blocks, skipped=skipped, written=written)
        for done in ordered_map(blocks_of, gathered(batches, AT_ONCE), threads):
            for pieces in done:
                growing.take(*pieces)
            if progress is not None and done:
                progress(sum(pieces[0].duration for pieces in done))
        blocks = growing.whole()
        del growing
        release_memory()
        if not blocks:
            _refuse_rest(batches)
            raise UnfitDataError(
                "no-samples",
                found="no usable sample after masking, trimming and gating",
                expected="motion longer than what the filters need at its ends",
                do="record a longer motion, raise the cutoff frequency or reduce prepare.trim"
                + self._time_unit_hint,
            )
        blocks = list(without_traces(_without_stubs(blocks)))
        return Factors(
            group_names=self.rows.groups(self.robot),
            parameter_count=len(self.wanted),
            blocks=tuple(blocks if known is None else known.filled(blocks)),
        )

    def unchanged(self, before: Assembly, factors: Factors) -> Known | None:
        """Groups of another assembly's factors that are valid for this one, over the same batches.

        Parameters
        ----------
        before : Assembly
            Assembly with the same terms in the same order, apart from changed and additional ones.
        factors : Factors
            Its factors.

        Returns
        -------
        Known or None
            Groups to reuse; None if there are none.

        """
        count = len(before.terms.terms)
        same = (
            isinstance(self.rows, TorqueRows)
            and (self.robot, self.rows, self.parallel, self.blocks)
            == (before.robot, before.rows, before.parallel, before.blocks)
            and np.array_equal(self.wanted[: len(before.wanted)], before.wanted)
            and _names(self.robot, self.terms.terms[:count]) == _names(self.robot, before.terms.terms)
        )
        if not same:
            return None
        pairs = list(zip_longest(before.terms, self.terms))
        changed = [term for pair in pairs if pair[0] is not pair[1] for term in pair if term is not None]
        touched = np.zeros(self.robot.n, dtype=np.bool_)
        for term in changed:
            touched |= _acts_on(self.robot, term)
        return Known(factors, ~touched) if not touched.all() else None

    @property
    def _time_unit_hint(self) -> str:
        # No robot is logged so slowly: these are probably milliseconds taken for seconds.
        step = 1.0 / self.parallel.rate
        return f"; rows are {step:.3g} s apart: declare the unit of log.time" if step > SLOW_STEP else ""

    def of_joints(self, joints: Bool) -> Bool:
        """Parameters (p,) that the torque of some joints (n,) may depend on."""
        states = random_states(self.robot, FEW, 0, self.terms.channels(), clock=self.terms.clock())
        mask = np.zeros(len(self.wanted), dtype=np.bool_)
        panels = self.terms.torque_regressor(self.robot, states, self.wanted)
        for joint in np.flatnonzero(joints):
            mask[panels.columns[joint]] = True
        return mask

    def _blocks(self, group: Sequence[Samples], skipped: Bool, written: Bool) -> list[_Pieces]:
        batches = [samples for samples in group if len(self.parallel.kept(samples))]
        if len(batches) > 1 and isinstance(self.rows, TorqueRows):
            each = list(self._equations_at_once(self.rows, batches, skipped, written))
        else:
            each = [(samples, self._equations(samples, skipped, written)) for samples in batches]
        return [self._pieces_of_batch(samples, filtered) for samples, filtered in each]

    def _equations(self, samples: Samples, skipped: Bool, written: Bool) -> Equations:
        if isinstance(self.rows, TorqueRows):
            joints = ~skipped if skipped.any() else None
            return self.rows.filtered(self.robot, self.terms, samples, written, self.parallel, joints)
        return self.filtered(self.rows.equations(self.robot, self.terms, samples, written), samples)[0]

    def _equations_at_once(
        self, rows: TorqueRows, batches: Sequence[Samples], skipped: Bool, written: Bool
    ) -> Iterator[tuple[Samples, Equations]]:
        side = SideBySide.of(batches, self.parallel)
        joints = ~skipped if skipped.any() else None
        equations = rows.equations(self.robot, self.terms, side.samples, written, joints, batches)
        panels = [side.filtered(panel) for panel in equations.panels]
        for samples, a, b in zip(batches, side.edges[:-1], side.edges[1:], strict=True):
            yield samples, Equations(equations.columns, tuple(panel[:, a:b] for panel in panels))

    def _pieces_of_batch(self, samples: Samples, filtered: Equations) -> _Pieces:
        kept = self.parallel.kept(samples)
        cut = self.blocks.of(samples, kept)
        gate = None if samples.gate is None else cut.arranged(samples.gate[kept].T)
        motion = cut.arranged(samples.dq[kept].T ** 2)
        motion = motion if gate is None else np.where(gate, motion, 0.0)
        panels, edges = [], []
        for joint, panel in zip(group_joints(self.rows, self.robot), filtered.panels, strict=True):
            arranged, begins = cut.arranged(panel), cut.edges
            if gate is not None and joint >= 0:
                arranged, begins = arranged[:, gate[joint]], np.append(0, np.cumsum(gate[joint]))[cut.edges]
            panels.append(arranged)
            edges.append(begins)
        moved = np.add.reduceat(motion, cut.edges[:-1], axis=1)
        return cut, moved, filtered.columns, tuple(panels), tuple(edges)

    def filtered(self, equations: Equations, samples: Samples) -> tuple[Equations, Float]:
        """Equations after the parallel filter and decimation, and the remaining times."""
        panels = []
        times = np.zeros(0)
        for panel in equations.panels:
            kept, times = self.parallel.apply(panel, samples)
            panels.append(kept)
        return Equations(equations.columns, tuple(panels)), times


@dataclass(frozen=True, eq=False)
class Known:
    """Factors of which the groups marked in `groups` (g,) are known."""

    factors: Factors
    groups: Bool

    def filled(self, blocks: Sequence[Block]) -> list[Block]:
        """Blocks of the same batches, with the known groups inserted."""
        return [
            replace(
                block,
                groups=tuple(
                    known_factor if known else new_factor
                    for new_factor, known_factor, known in zip(
                        block.groups, known_block.groups, self.groups, strict=True
                    )
                ),
            )
            for block, known_block in zip(blocks, self.factors.blocks, strict=True)
        ]


def _names(robot: RobotModel, terms: Sequence[Term]) -> list[str]:
    return [column.name for term in terms for column in term.columns(robot)]


def _acts_on(robot: RobotModel, term: Term) -> Bool:
    """Joints (n,) whose torque a term may change: those with columns, or all if it has known torque.

    Known torque may be zero in every state that is tried, and act elsewhere.
    """
    seen = seen_by(term, random_states(robot, FEW, 0, channels_of(term), clock=clock_of(term)))
    columns = term.torque_regressor(robot, seen, np.ones(len(term.columns(robot)), dtype=np.bool_)).columns
    own_torque = known_torque(term, robot, seen) is not None
    return np.array([own_torque or len(indices) > 0 for indices in columns])


def _joined_blocks(a: Block, b: Block) -> Block:
    both = a.stretches is not None and b.stretches is not None
    return replace(
        a,
        end=b.end,
        groups=tuple(x.merge(y) for x, y in zip(a.groups, b.groups, strict=True)),
        motion=sum_of([a.motion, b.motion]),
        stretches=stretches_joined(np.concatenate([a.stretches, b.stretches])) if both else a.stretches,
    )


def _without_stubs(blocks: list[Block]) -> list[Block]:
    """Blocks in which those with less than half the usual number of equations join a neighbour of the same segment.

    In a motion that repeats, the neighbour is the same part of earlier repetitions. Equations are counted instead of
    seconds, since a block of a long log may contain only a part of its time.
    """
    least = 0.5 * float(np.median([_count(block) for block in blocks]))
    whole: list[Block] = []
    latest: dict[tuple[int, int | None], int] = {}
    for block in blocks:
        key = block.segment, None if block.stretches is None else block.part
        before = latest.get(key)
        if before is not None and min(_count(block), _count(whole[before])) < least:
            whole[before] = _joined_blocks(whole[before], block)
        else:
            latest[key] = len(whole)
            whole.append(block)
    return whole


def _count(block: Block) -> int:
    return sum(factor.count for factor in block.groups)


def _refuse_rest(batches: Iterable[Samples]) -> None:
    """Raise UnfitDataError if all samples that the filters leave were excluded as at rest."""
    fastest, count = 0.0, 0
    for samples in batches:
        resting = samples.left_out.get(REST)
        if samples.keep.any() or resting is None:
            return
        count += int(resting.sum())
        fastest = max(fastest, float(np.abs(samples.dq[resting]).max(initial=0.0)))
    if count:
        raise UnfitDataError(
            "no-samples",
            found=f"no usable sample: the fastest joint reaches {fastest:.3g} rad/s (m/s), which counts as rest",
            expected="joints faster than prepare.rest in part of the log",
            do=f"set prepare.rest (--rest) below the slowest motion, for example to {0.1 * fastest:.1g}",
        )
