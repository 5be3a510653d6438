"""From samples to factors: one pass, chunk by chunk, nothing of the log's length kept."""

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

SLOW_STEP = 0.1
# Samples of short batches whose torque is written down at once, which costs little more than that of one: lines of them
# stay in a processor's cache.
AT_ONCE = 2048
# States at which a term is asked on which joints it has columns, which do not depend on them.
FEW = 3

# How a batch is cut into blocks, and of each its motion (n, B); of each group of equations the columns, a panel in the
# blocks' order, and where each block begins in it.
_Pieces = tuple[Cut, Float, tuple[Int, ...], tuple[Float, ...], tuple[Int, ...]]


@dataclass(frozen=True)
class Assembly:
    """Everything that turns samples into factors.

    wanted: (p,) mask of the columns to write down.
    parallel: the filter run over both sides of the equations.
    blocks: how the log is cut into blocks.
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
        """Factors of all batches; `progress` is called with the seconds of data done.

        known: factors of some groups over the same batches, which are taken as they are.
        Raises UnfitDataError if no sample is left to use.
        """
        found = GrowingBlocks()
        skipped = known.groups if known is not None else np.zeros(0, dtype=np.bool_)
        written = self.wanted & self.of_joints(~skipped) if skipped.any() else self.wanted
        blocks_of = partial(self._blocks, skipped=skipped, written=written)
        for done in ordered_map(blocks_of, gathered(batches, AT_ONCE), threads):
            for pieces in done:
                found.take(*pieces)
            if progress is not None and done:
                progress(sum(pieces[0].duration for pieces in done))
        blocks = found.whole()
        del found
        release_memory()
        if not blocks:
            _refuse_rest(batches)
            raise UnfitDataError(
                "no-samples",
                found="no usable sample after masking, trimming and gating",
                expected="motion longer than the filters' edges",
                do="record longer, raise the cut-off or reduce prepare.trim" + self._slow,
            )
        blocks = list(without_traces(_without_stubs(blocks)))
        return Factors(
            group_names=self.rows.groups(self.robot),
            parameter_count=len(self.wanted),
            blocks=tuple(blocks if known is None else known.filled(blocks)),
        )

    def unchanged(self, before: Assembly, factors: Factors) -> Known | None:
        """The groups of another assembly's factors that are this one's as well, over the same batches; None = none.

        before: with the same terms in the same order but for some that changed; further ones may have joined them.
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
    def _slow(self) -> str:
        # No robot is logged so slowly: what is taken for seconds are milliseconds, most likely.
        step = 1.0 / self.parallel.rate
        return f"; rows are {step:.3g} s apart: declare the unit of log.time" if step > SLOW_STEP else ""

    def of_joints(self, joints: Bool) -> Bool:
        """Parameters (p,) that the torque of some joints (n,) may depend on."""
        states = random_states(self.robot, FEW, 0, self.terms.channels(), clock=self.terms.clock())
        found = np.zeros(len(self.wanted), dtype=np.bool_)
        panels = self.terms.torque_regressor(self.robot, states, self.wanted)
        for joint in np.flatnonzero(joints):
            found[panels.columns[joint]] = True
        return found

    def _blocks(self, group: Sequence[Samples], skipped: Bool, written: Bool) -> list[_Pieces]:
        batches = [samples for samples in group if len(self.parallel.kept(samples))]
        if len(batches) > 1 and isinstance(self.rows, TorqueRows):
            each = list(self._equations_at_once(self.rows, batches, skipped, written))
        else:
            each = [(samples, self._equations(samples, skipped, written)) for samples in batches]
        return [self._of_batch(samples, filtered) for samples, filtered in each]

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

    def _of_batch(self, samples: Samples, filtered: Equations) -> _Pieces:
        kept = self.parallel.kept(samples)
        cut = self.blocks.of(samples, kept)
        gate = None if samples.gate is None else cut.arranged(samples.gate[kept].T)
        motion = cut.arranged(samples.dq[kept].T ** 2)
        motion = motion if gate is None else np.where(gate, motion, 0.0)
        panels, edges = [], []
        for joint, panel in zip(group_joints(self.rows, self.robot), filtered.panels, strict=True):
            own, begins = cut.arranged(panel), cut.edges
            if gate is not None and joint >= 0:
                own, begins = own[:, gate[joint]], np.append(0, np.cumsum(gate[joint]))[cut.edges]
            panels.append(own)
            edges.append(begins)
        moved = np.add.reduceat(motion, cut.edges[:-1], axis=1)
        return cut, moved, filtered.columns, tuple(panels), tuple(edges)

    def filtered(self, equations: Equations, samples: Samples) -> tuple[Equations, Float]:
        """The equations after the parallel filter and decimation, and the times that are left."""
        panels = []
        times = np.zeros(0)
        for panel in equations.panels:
            kept, times = self.parallel.apply(panel, samples)
            panels.append(kept)
        return Equations(equations.columns, tuple(panels)), times


@dataclass(frozen=True, eq=False)
class Known:
    """Factors of which some groups are known.    groups: (g,) which."""

    factors: Factors
    groups: Bool

    def filled(self, blocks: Sequence[Block]) -> list[Block]:
        """Blocks of the same batches with the known groups in their places."""
        return [
            replace(
                block,
                groups=tuple(
                    mine if known else own
                    for own, mine, known in zip(block.groups, there.groups, self.groups, strict=True)
                ),
            )
            for block, there in zip(blocks, self.factors.blocks, strict=True)
        ]


def _names(robot: RobotModel, terms: Sequence[Term]) -> list[str]:
    return [column.name for term in terms for column in term.columns(robot)]


def _acts_on(robot: RobotModel, term: Term) -> Bool:
    """Joints (n,) in whose torque a term may be: those with columns, and all where it has a torque of its own.

    Such a torque may be zero at any state that is tried, and act elsewhere.
    """
    seen = seen_by(term, random_states(robot, FEW, 0, channels_of(term), clock=clock_of(term)))
    columns = term.torque_regressor(robot, seen, np.ones(len(term.columns(robot)), dtype=np.bool_)).columns
    own_torque = known_torque(term, robot, seen) is not None
    return np.array([own_torque or len(own) > 0 for own in columns])


def _joined(a: Block, b: Block) -> Block:
    both = a.stretches is not None and b.stretches is not None
    return replace(
        a,
        end=b.end,
        groups=tuple(x.merge(y) for x, y in zip(a.groups, b.groups, strict=True)),
        motion=sum_of([a.motion, b.motion]),
        stretches=stretches_joined(np.concatenate([a.stretches, b.stretches])) if both else a.stretches,
    )


def _without_stubs(blocks: list[Block]) -> list[Block]:
    """Blocks with less than half as many equations as is usual join their neighbour of the same segment.

    Of a motion that repeats often, the neighbour is the same part of the repetitions before.

    Equations are counted, not seconds: of a long log each block may hold a part of its time alone.
    """
    least = 0.5 * float(np.median([_count(block) for block in blocks]))
    whole: list[Block] = []
    latest: dict[tuple[int, int | None], int] = {}
    for block in blocks:
        key = block.segment, None if block.stretches is None else block.part
        before = latest.get(key)
        if before is not None and min(_count(block), _count(whole[before])) < least:
            whole[before] = _joined(whole[before], block)
        else:
            latest[key] = len(whole)
            whole.append(block)
    return whole


def _count(block: Block) -> int:
    return sum(factor.count for factor in block.groups)


def _refuse_rest(batches: Iterable[Samples]) -> None:
    """Raises UnfitDataError where all samples that the filters leave were left out as at rest."""
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
            found=f"no usable sample: no joint is faster than {fastest:.3g} rad/s (m/s), which counts as rest",
            expected="joints that are faster than prepare.rest for a part of the log",
            do=f"set prepare.rest (--rest) to less than the slowest motion, {0.1 * fastest:.1g} or so",
        )
