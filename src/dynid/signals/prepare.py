"""From a log to samples: resampled, filtered, differentiated and decimated, window by window, in constant memory.

Windows overlap by the settling of the filters, so that the result equals that of the whole segment to 1e-9.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.diagnostics import CLAIMS, Diagnostics
from dynid.base.errors import Place, UnfitDataError, UsageError
from dynid.base.records import dataclass
from dynid.log.checks import LogWatch, check_log
from dynid.log.clocks import SLOWEST, longest_step
from dynid.log.joints import STILL
from dynid.log.read import Log
from dynid.signals.coherence import CutoffEvidence, Signals, choose_cutoff, torque_coherence
from dynid.signals.filter import (
    ZeroPhase,
    at_times,
    bracketed,
    first_difference,
    is_uniform,
    low_passed,
    second_difference,
    sensible_rate,
    settling_of,
)
from dynid.signals.first_look import EffortClock, effort_clock, first_look, signals_for_evidence, windows_of
from dynid.signals.parallel import ParallelFilter
from dynid.signals.samples import REST, Samples, move_seconds
from dynid.signals.settings import Preparation
from dynid.signals.state_cutoff import (
    StateCutoffs,
    VelocityEvidence,
    choose_state_cutoffs,
    common_cutoff,
    compare_velocities,
    confirmed_by_torque,
    fused,
    named_cutoffs,
    raised_beside_torque,
    settling,
    sharper_cutoff,
)
from dynid.signals.time_base import LONGEST_HOLD, Cutter, TimeBase, Window, between, pieces

__all__ = ["Prepared", "prepare"]

# Share of its greatest speed: a robot that never exceeds the usual `rest` counts as at rest below it.
SLOW_REST = 0.1
# s between the positions that give a joint's speed before any filter is chosen.
LOOK_SECONDS = 0.5
# Multiple of the log's rate: a finer grid contains no more information and fills memory.
MOST_UPSAMPLING = 50
# Samples per period of the cutoff frequency before the parallel filter, so that decimation loses nothing, and after it.
STATE_OVERSAMPLING = 16.0
FINAL_OVERSAMPLING = 5.0


@dataclass(frozen=True, eq=False)
class Prepared:
    """A log with resolved settings, which yields its samples each time it is iterated.

    Attributes
    ----------
    log : Log
        The log.
    settings : Preparation
        The settings with every "auto" replaced.
    source_rate : float, Hz
        Rate of the uniform grid before decimation.
    state_decimation : int
        Grid samples per sample.
    final_decimation : int
        Samples per row of the filtered equations.
    steps : tuple of float, s
        Median time step of the first rows of each trajectory.
    evidence : CutoffEvidence, optional
        Reason for an automatic cutoff frequency.
    velocities : VelocityEvidence, optional
        Reason for an automatic choice of the velocity.
    states : StateCutoffs, optional
        Reason for automatic cutoff frequencies of the positions.
    time_bases : tuple of TimeBase
        Corrections of the rows of each trajectory; () for none.
    asked : Preparation
        The settings before they were resolved.
    efforts : EffortClock
        Times of the efforts, if they are recorded more slowly than positions.
    slowness : float
        Factor on the usual speeds of friction and rest; less than 1 for a robot that never exceeds them.

    """

    log: Log
    settings: Preparation
    source_rate: float
    state_decimation: int
    final_decimation: int
    steps: tuple[float, ...]
    evidence: CutoffEvidence | None = None
    velocities: VelocityEvidence | None = None
    states: StateCutoffs | None = None
    time_bases: tuple[TimeBase, ...] = ()
    asked: Preparation = field(default_factory=Preparation)
    slowness: float = 1.0
    efforts: EffortClock = field(default_factory=EffortClock)

    @property
    def gated_at_rest(self) -> bool:
        """Whether the robot is slow, so that joints at rest while others move are recognised by their speed alone."""
        return self.slowness < 1.0 and self.settings.gate == self.settings.rest

    @property
    def rate(self) -> float:
        """Rate of the samples, Hz."""
        return self.source_rate / self.state_decimation

    @property
    def duration(self) -> float:
        """Seconds of data."""
        return self.log.duration

    @property
    def joints(self) -> int:
        """Number of joints."""
        return self.log.robot.n

    @property
    def bandwidth(self) -> float:
        """Cutoff frequency of the parallel filter, Hz."""
        return float(self.settings.cutoff)

    def parallel_filter(self) -> ParallelFilter:
        """The filter of both sides of the equations."""
        return ParallelFilter(
            self.rate, float(self.settings.cutoff), self.settings.order, self.final_decimation
        )

    def describe(self) -> dict[str, Any]:
        """Plain data for the run folder and the report."""
        return {
            "settings": asdict(self.settings),
            "source_rate_hz": self.source_rate,
            "sample_rate_hz": self.rate,
            "equation_rate_hz": self.rate / self.final_decimation,
            "evidence": self.evidence.describe() if self.evidence is not None else None,
            "velocity": self.velocities.describe() if self.velocities is not None else None,
            "states": self.states.describe() if self.states is not None else None,
            "time": [base.reason for base in self.time_bases],
            "slowness": self.slowness,
        }

    def __iter__(self) -> Iterator[Samples]:
        for window in self.windows():
            yield self.process(window)

    @cached_property
    def _state_cutoffs(self) -> tuple[float, ...]:
        return self.settings.state_cutoffs(self.joints)

    @cached_property
    def _thinning_filter(self) -> ZeroPhase | None:
        # Samples at the times of slow efforts have the measured efforts: no filter may mix them with interpolated ones.
        if self.state_decimation == 1 or self.efforts.every > 1:
            return None
        return ZeroPhase(0.4 * self.rate, 6, self.source_rate)

    @property
    def _measures_motors(self) -> bool:
        m = self.log.channels
        return m.measures_motor_velocity

    @cached_property
    def overlap(self) -> int:
        """Samples of the uniform grid that a window needs on each side."""
        states = settling_of(self._state_cutoffs, self.settings.state_order, self.source_rate)
        thinning = 0 if self._thinning_filter is None else self._thinning_filter.settling
        upstream = max(states, thinning) + settling(self.source_rate, self.settings.crossover) + 6
        return upstream + (self.parallel_filter().settling + 2) * self.state_decimation

    def windows(self, watch: LogWatch | None = None) -> Iterator[Window]:
        """Clean rows, window by window; `process` does the expensive work, possibly in several threads.

        Parameters
        ----------
        watch : LogWatch, optional
            Sees every raw chunk, so that checking a log needs no further pass.

        Yields
        ------
        Window
            The windows, in the order of the log.

        """
        segment = 0
        for index, trajectory in enumerate(self.log.trajectories):
            step = max(1.0 / self.source_rate, self.steps[index])
            cutter = Cutter(
                trajectory.name,
                step,
                self.source_rate,
                self.overlap,
                self.state_decimation,
                self.settings.shortest,
                self.efforts.phases[index] if self.efforts.every > 1 else None,
            )
            chunks = self.log.chunks(trajectory)
            if watch is not None:
                chunks = watch.observed(trajectory, chunks)
            if self.settings.velocity != "measured":
                chunks = (replace(chunk, dq=None, dtheta=None) for chunk in chunks)
            gap = longest_step(step) if self.settings.gap == "auto" else float(self.settings.gap)
            base = self.time_bases[index] if self.time_bases else None
            if base is not None and base.drop_repeated and self.settings.gap == "auto":
                gap = max(gap, LONGEST_HOLD + step)  # dropped repeated rows leave holes that are no gaps
            for piece in pieces(chunks, self.log.robot.prismatic, gap, segment, base):
                segment = piece.segment + 1
                yield from cutter.cut(piece)

    def process(self, window: Window) -> Samples:
        """Samples of one window."""
        rate, D, n = self.source_rate, self.state_decimation, self.joints
        low, high = window.low, window.high
        grid = window.origin + np.arange(low, high) / rate
        lines, sound = self._resampled(window, grid)
        layout = self._layout(lines)
        if self.settings.velocity == "measured" and "dq" not in layout:
            raise UsageError(
                "no-velocity",
                found="prepare.velocity = 'measured' and no velocity in the log",
                expected="a velocity",
            )
        first = (-low) % D
        index = np.arange(first, high - low, D)
        q, dq, ddq = self._motion(layout["q"], layout.get("dq"), index)
        thin = self._thinning_filter

        def thinned(values: Float) -> Float:
            return thin(values, first, D) if thin is not None else values[:, first::D]

        others = {
            name: thinned(values)
            for name, values in layout.items()
            if name not in ("q", "dq", "theta", "dtheta")
        }
        inside = (low + index >= window.start) & (low + index < window.stop)
        trim = (
            1.0 / float(self.settings.cutoff) if self.settings.trim == "auto" else float(self.settings.trim)
        )
        edge = round(trim * rate)
        inside &= low + index >= edge
        if window.ends:
            inside &= low + index < high - edge
        extra = {
            name: values[0] if len(values) == 1 else np.ascontiguousarray(values.T)
            for name, values in ((key[6:], v) for key, v in others.items() if key.startswith("extra:"))
        }
        sound = inside & sound[index]
        moving = np.asarray((np.abs(dq) >= self.settings.rest).any(axis=0))
        tau = others.get("tau")
        theta = self._motors(layout, index) if "theta" in layout else (None, None, None)
        return Samples(
            t=grid[index],
            q=_rows(q),
            dq=_rows(dq),
            ddq=_rows(ddq),
            tau=_rows(tau) if tau is not None else np.zeros((len(index), n)),
            keep=sound & moving,
            left_out={REST: sound & ~moving},
            rate=self.rate,
            segment=window.segment,
            trajectory=window.trajectory,
            first=(low + int(index[0])) // D if len(index) else 0,
            theta=theta[0],
            dtheta=theta[1],
            ddtheta=theta[2],
            temperature=_rows(others["temperature"]) if "temperature" in others else None,
            extra=extra,
            gate=self._gate(_rows(dq)),
            span=1.0 / self.rate if thin is not None else 0.0,
            measured=self.measured,
        )

    @cached_property
    def measured(self) -> Bool | None:
        """Joints (n,) whose effort was measured; None = all."""
        absent = self.log.unmeasured
        return np.array([joint not in absent for joint in self.log.robot.joint_names]) if absent else None

    def _gate(self, dq: Float) -> Bool | None:
        fast = np.abs(dq) >= self.settings.gate if self.settings.gate > 0 else None
        if self.measured is None:
            return fast
        counted = np.broadcast_to(self.measured, dq.shape)
        return np.array(counted) if fast is None else fast & counted

    def _motors(self, layout: dict[str, Float], index: Int) -> tuple[Float, Float, Float]:
        # Joints with one encoder get exactly the motion of their link.
        alone = np.array([j not in self.log.channels.motor_position for j in self.log.robot.joint_names])
        motor = self._motion(layout["theta"], layout.get("dtheta"), index)
        link = self._motion(layout["q"], layout.get("dq"), index) if alone.any() else motor
        theta, dtheta, ddtheta = (
            _rows(np.where(alone[:, None], b, a)) for a, b in zip(motor, link, strict=True)
        )
        return theta, dtheta, ddtheta

    def _motion(self, q: Float, dq: Float | None, index: Int) -> tuple[Float, Float, Float]:
        # Differences need neighbouring samples of the full rate; only the indexed results are kept.
        rate, order, cutoffs = self.source_rate, self.settings.state_order, self._state_cutoffs
        if dq is not None:
            dq = low_passed(fused(q, dq, rate, self.settings.crossover), cutoffs, order, rate)
            thinned = low_passed(q, cutoffs, order, rate, int(index[0]), self.state_decimation)
            return thinned, dq[:, index], first_difference(dq, rate, index)
        q = low_passed(q, cutoffs, order, rate)
        return q[:, index], first_difference(q, rate, index), second_difference(q, rate, index)

    def _resampled(self, window: Window, grid: Float) -> tuple[Float, Bool]:
        t = window.t
        first = round((float(t[0]) - window.origin) * self.source_rate)
        if is_uniform(t, self.source_rate) and abs((t[0] - window.origin) * self.source_rate - first) < 0.02:
            start = round((float(grid[0]) - window.origin) * self.source_rate) - first
            if start >= 0 and start + len(grid) <= len(t):
                whole = np.ones(len(grid), dtype=np.bool_)
                return np.concatenate(between(window.parts, start, start + len(grid)), axis=1), whole
        return at_times(t, window.lines, grid), bracketed(t, grid, 3.5 * window.step)

    def _layout(self, lines: Float) -> dict[str, Float]:
        m, n = self.log.channels, self.joints
        measured = self.settings.velocity == "measured"
        names = [
            (name, n)
            for name, logged in (
                ("dq", bool(m.velocity) and measured),
                ("tau", m.gives_torque),
                ("theta", bool(m.motor_position)),
                ("dtheta", measured and self._measures_motors),
                ("temperature", bool(m.temperature)),
            )
            if logged
        ] + [(f"extra:{name}", 1) for name in m.extra]
        layout, at = {"q": lines[:n]}, n
        for name, width in names:
            layout[name] = lines[at : at + width]
            at += width
        return layout


def prepare(
    log: Log, preparation: Preparation | None = None, diagnostics: Diagnostics | None = None
) -> Prepared:
    """Resolve the settings for a log; samples are computed when the result is iterated.

    Parameters
    ----------
    log : Log
        The log.
    preparation : Preparation, optional
        The settings.
    diagnostics : Diagnostics, optional
        Sink of notes and warnings.

    Raises
    ------
    UnfitDataError
        If the log is too slow or too short for the filters.
    UsageError
        If a cutoff frequency or a rate does not suit the log.

    """
    settings = preparation or Preparation()
    sink = diagnostics if diagnostics is not None else Diagnostics()
    looks = [first_look(log, i) for i in range(len(log.trajectories))]
    steps, bases = tuple(step for step, _ in looks), tuple(base for _, base in looks)
    efforts = effort_clock(log)
    if max(steps) > 1.0 / SLOWEST:
        check_log(
            log, Diagnostics(accepting=frozenset(CLAIMS))
        )  # a clear message, before filters fail at such rates
    rate = settings.rate or sensible_rate(float(np.median(steps)))
    if efforts.every > 1:
        rate = efforts.every / efforts.period
    if settings.rate is not None and settings.rate < 0.99 / float(np.median(steps)):
        raise UsageError(
            "rate",
            found=f"prepare.rate = {settings.rate:g} Hz for a log of {1 / float(np.median(steps)):.4g} Hz",
            expected="at least the log's own rate",
            do="remove it: samples are decimated after the filters, where nothing is lost",
        )
    if settings.rate is not None and settings.rate > MOST_UPSAMPLING / float(np.median(steps)):
        raise UsageError(
            "rate",
            found=f"prepare.rate = {settings.rate:g} Hz for a log of {1 / float(np.median(steps)):.4g} Hz",
            expected=f"at most {MOST_UPSAMPLING} times the log's own rate, since nothing was measured between its rows",
            do="remove it",
        )
    if max(steps) > 1.5 * min(steps):
        sink.warn(
            "mixed-rates",
            f"trajectories sampled at {1 / max(steps):.3g} to {1 / min(steps):.3g} Hz are resampled at {rate:.4g} Hz",
        )
    for trajectory, base in zip(log.trajectories, bases, strict=True):
        if base.reason:
            sink.note("time-base", f"trajectory '{trajectory.name}': {base.reason}")
    usual = Preparation().rest
    slowness = _slowness(log, steps, usual, sink) if settings.rest > 0 else 1.0
    evidence, signals, cutoff = None, list[Signals](), settings.cutoff
    named = settings.state_cutoff
    if "auto" in (cutoff, settings.velocity, named) or isinstance(named, dict):
        signals = signals_for_evidence(log, rate, bases)
    if cutoff == "auto":
        evidence = _cutoff(log, signals, rate, settings, slowness)
        cutoff = evidence.chosen
        sink.note("cutoff", f"parallel filter at {cutoff:g} Hz: {evidence.reason}")
    common = common_cutoff(cutoff, rate)
    if efforts.every > 1:
        most = 1.0 / (efforts.period * FINAL_OVERSAMPLING)
        sink.note(
            "slow-efforts",
            f"efforts are recorded at {1.0 / efforts.period:.4g} Hz and positions {efforts.every} times as "
            f"fast: equations are those at the times of the efforts, with a cutoff frequency of at most {most:.3g} Hz",
        )
        cutoff = most if most < cutoff else cutoff
    # An explicit cutoff frequency applies to both filters; torque computed from commands has the noise of positions.
    raises = evidence is not None and not log.channels.commanded
    higher = sharper_cutoff(cutoff, rate) if raises else common
    named_limits = named_cutoffs(named, log.robot.joint_names)
    if not cutoff < 0.45 * rate:
        raise UsageError(
            "cutoff",
            found=f"a cutoff frequency of {cutoff:.4g} Hz at {rate:.4g} samples per second",
            expected=f"below {0.45 * rate:g} Hz",
        )
    needed = STATE_OVERSAMPLING * cutoff
    D = max(1, int(rate // needed)) if settings.decimate else 1
    D = efforts.every if efforts.every > 1 else D
    final = max(1, int(rate / D // (FINAL_OVERSAMPLING * cutoff))) if settings.decimate else 1
    rest = slowness * usual if settings.rest == usual else settings.rest
    # On a slow robot only the speed distinguishes a joint at rest from a moving one.
    gate = rest if rest != settings.rest and settings.gate == 0.0 else settings.gate
    resolved = replace(settings, cutoff=float(cutoff), rate=rate, rest=rest, gate=gate)
    velocities = None
    if resolved.velocity == "auto":
        names = log.robot.joint_names
        widest = max((higher if np.isnan(limit) else limit for limit in named_limits), default=higher)
        velocities = compare_velocities(signals, rate, widest, resolved.state_order, names)
        resolved = _with_velocity(resolved, velocities, sink)
    states = None
    # Springs are identified from the difference of two encoders, which must pass the same filter.
    if np.isnan(named_limits).any() and not log.channels.motor_position:
        states = _states(log, signals, rate, common, resolved, named_limits if raises else None)
        if (states.chosen != common)[np.isnan(named_limits)].any():
            sink.note("state-cutoff", states.reason)
    chosen = np.full(log.robot.n, common) if states is None else states.chosen
    state = np.where(np.isnan(named_limits), chosen, named_limits)
    trim = 1.0 / min(cutoff, float(state.min())) if settings.trim == "auto" else settings.trim
    alike = bool((state == state[0]).all())
    resolved = replace(
        resolved, state_cutoff=float(state[0]) if alike else tuple(state.tolist()), trim=float(trim)
    )
    if log.duration < 4 * resolved.shortest and log.duration < 20 / cutoff:
        raise UnfitDataError(
            "too-short",
            found=f"{log.duration:.3g} s of data",
            expected=f"at least {20 / cutoff:.3g} s at a cutoff frequency of {cutoff:.3g} Hz",
            do="record longer",
            place=Place(file=str(log.trajectories[0].file)) if len(log.trajectories) == 1 else Place(),
        )
    return Prepared(
        log, resolved, rate, D, final, steps, evidence, velocities, states, bases, settings, slowness, efforts
    )


def _cutoff(
    log: Log, signals: list[Signals], rate: float, settings: Preparation, slowness: float
) -> CutoffEvidence:
    # The worse of the two velocities would only add noise.
    windows = windows_of(signals, rate)
    kinds = [windows] if settings.velocity == "measured" else [[Signals(s.q, None, s.tau) for s in windows]]
    if settings.velocity == "auto" and windows[0].dq is not None:
        kinds.append(windows)
    # Torque of a floating base also follows contact forces, which a model of a fixed robot cannot predict.
    floating = log.channels.base is not None
    looks = [None if floating else torque_coherence(log.robot, kind, rate) for kind in kinds]
    coherence = max((look for look in looks if look is not None), key=lambda look: look.end, default=None)
    positions = [s.q for s in signals]
    move = move_seconds(positions, rate, slowness)
    return choose_cutoff(positions, rate, log.robot.joint_names, coherence, move)


def _slowness(log: Log, steps: Sequence[float], usual: float, sink: Diagnostics) -> float:
    """Rest speed of a robot that never exceeds the usual one (rad/s or m/s), as a share of it; 1 for others.

    Telescopes and presses move slower than other robots drift at rest. All of their log would be left out, and friction
    whose sign is smoothed over the usual speed would act as a second viscous friction.
    """
    top, way = 0.0, 0.0
    for trajectory, step in zip(log.trajectories, steps, strict=True):
        behind = max(1, round(LOOK_SECONDS / step))
        least, most = np.full((2, log.robot.n), np.nan)
        last = np.zeros((0, log.robot.n)), np.zeros(0)
        for chunk in log.chunks(trajectory):
            q, t = np.concatenate([last[0], chunk.q]), np.concatenate([last[1], chunk.t])
            least, most = np.fmin(least, q.min(axis=0)), np.fmax(most, q.max(axis=0))
            seconds = t[behind:] - t[:-behind]
            sound = (seconds > 0.5 * LOOK_SECONDS) & (seconds < 2.0 * LOOK_SECONDS)
            speeds = np.abs(q[behind:] - q[:-behind])[sound] / seconds[sound, None]
            top = max(top, float(np.nanmax(speeds, initial=0.0)))
            # Positions that wrap after a turn also exceed it; such a robot is not slow.
            if top >= usual:
                return 1.0
            last = q[-behind:], t[-behind:]
        way = max(way, float(np.nanmax(most - least, initial=0.0)))
    if way <= STILL or top == 0.0:
        return 1.0
    rest = SLOW_REST * top
    sink.note(
        "slow-robot",
        f"no joint exceeds {top:.2g} rad/s (m/s): below {rest:.2g}, not {usual:g}, a joint counts as at rest and its "
        "equation is left out, and friction changes sign over that speed. Set --rest and --gate to change this",
    )
    return rest / usual


def _states(
    log: Log,
    signals: list[Signals],
    rate: float,
    common: float,
    settings: Preparation,
    raised: Float | None,
) -> StateCutoffs:
    # raised: limits (n,) in Hz from the settings (nan = automatic) up to which cutoffs may exceed the common one.
    cutoffs = choose_state_cutoffs(signals, rate, common, settings, log.robot.joint_names)
    parts = windows_of(signals, rate)
    if log.channels.base is not None:
        return cutoffs
    if cutoffs.differ:
        cutoffs = confirmed_by_torque(cutoffs, log.robot, parts, rate, settings)
    return (
        cutoffs if raised is None else raised_beside_torque(cutoffs, log.robot, parts, rate, settings, raised)
    )


def _with_velocity(
    settings: Preparation, evidence: VelocityEvidence | None, sink: Diagnostics
) -> Preparation:
    if evidence is None:
        return replace(settings, velocity="differentiate")
    if evidence.crossover.any():
        sink.note("velocity", evidence.reason)
    if (evidence.crossover >= evidence.rate).all():
        return replace(settings, velocity="differentiate")
    crossover = tuple(float(f) for f in evidence.crossover) if evidence.crossover.any() else None
    return replace(settings, velocity="measured", crossover=crossover)


def _rows(lines: Float) -> Float:
    return np.ascontiguousarray(lines.T)
