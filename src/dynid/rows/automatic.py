"""Rows chosen from a log: by the noise of its accelerations, the kind of its torque and the number of encoders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from itertools import islice
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.records import dataclass
from dynid.robot.model import RobotModel
from dynid.rows.elastic import ElasticMomentumRows, ElasticRows
from dynid.rows.energy import FilteredPowerRows
from dynid.rows.momentum import Hold, MomentumRows
from dynid.rows.rows import Rows
from dynid.rows.torque import TorqueRows
from dynid.signals.coherence import choose_cutoff
from dynid.signals.filter import HIGHEST_SHARE, at_times, averaged_density, is_uniform, zero_phase_filter
from dynid.signals.prepare import Prepared
from dynid.signals.samples import Samples
from dynid.signals.time_base import Window
from dynid.terms.catalogue import DEFAULT_TERMS
from dynid.terms.curve import CurveTerm
from dynid.terms.elastic import SpringTerm
from dynid.terms.forms import has_open_choice
from dynid.terms.term import Terms

# What a log says about its accelerations and torques: noise against motion, held values, joints that stick.

FLOOR_BAND = (0.25, 0.45)
LEAST_TRAVEL = 1e-3
REPEATED_SHARE = 0.3
SMOOTH_SHARE = 1e-3
HELD_GAIN = 2.0
POWER_CUTOFF = 5.0
INDEPENDENT = 1e-6


@dataclass(frozen=True, eq=False)
class AccelerationNoise:
    """How much of the accelerations that enter the equations is noise.

    share: (n,) power of the noise over that of the acceleration, both after all filters; nan for joints at rest, and
        for those whose effort was not measured: their own equations are left out.
    signal: (n,) rad/s^2 or m/s^2, root mean square.    reach: Hz, below which the joints move.
    enough: Hz, the cut-off that would keep all of the motion.
    """

    joint_names: tuple[str, ...]
    share: Float
    signal: Float
    reach: float
    enough: float

    @property
    def worst(self) -> float:
        """Greatest share over the joints that have one; 0 if none does."""
        found = self.share[np.isfinite(self.share)]
        return float(found.max()) if len(found) else 0.0

    @property
    def worst_joint(self) -> str:
        """Its joint."""
        return self.joint_names[int(np.argmax(np.nan_to_num(self.share, nan=-1.0)))]

    def describe(self) -> dict[str, Any]:
        """Plain data for the run folder."""
        return {
            "joints": list(self.joint_names),
            "share": [float(x) if np.isfinite(x) else None for x in self.share],
            "signal": self.signal.tolist(),
            "reach_hz": self.reach,
            "enough_hz": self.enough,
        }


def acceleration_noise(prepared: Prepared, windows: Sequence[Window]) -> AccelerationNoise:
    """Noise of the accelerations of a log as its settings make them, from the spectra of some windows.

    Taken as noise: white noise at the height of the spectrum above a quarter of the sampling rate, and everything above
    the motion's own frequencies (ten times its reach, as for the automatic cut-off). Positions are differenced before
    their spectrum is taken, so that slow motion does not leak into high frequencies, and the differences' gains are put
    in exactly.
    """
    n, rate = prepared.joints, prepared.source_rate
    measured = prepared.settings.velocity == "measured"
    names = prepared.log.robot.joint_names
    parts = [_uniform(window, 2 * n if measured else n, rate) for window in windows]
    positions = [part[:n] for part in parts]
    motion = prepared.evidence or choose_cutoff(positions, rate, names)
    order = 1 if measured else 2
    lines = [part[-n:] for part in parts]
    frequency, density = _spectrum([np.diff(x, order, axis=1) for x in lines], rate)
    x = 2.0 * np.pi * frequency / rate
    gain = _derivative_gain(x, order) * rate**order * _gain(prepared, frequency)
    with np.errstate(divide="ignore", invalid="ignore"):
        density = density / (2.0 * np.sin(0.5 * x)) ** (2 * order)
    density[:, 0], width = 0.0, float(frequency[1])
    high = (frequency >= FLOOR_BAND[0] * rate) & (frequency <= FLOOR_BAND[1] * rate)
    floor = np.median(density[:, high], axis=1)
    noise = np.where(frequency > motion.chosen, density, np.minimum(density, floor[:, None]))
    power, wrong = ((d * gain**2).sum(axis=1) * width for d in (density, noise))
    moved = np.array([max(float(np.ptp(q[j])) for q in positions) for j in range(n)]) > LEAST_TRAVEL
    counts = moved & (power > 0) & (True if prepared.measured is None else prepared.measured)
    share = np.where(counts, wrong / np.where(power > 0, power, 1.0), np.nan)
    return AccelerationNoise(
        names, share, np.sqrt(np.maximum(power - wrong, 0.0)), float(motion.reach.max()), motion.chosen
    )


def _uniform(window: Window, count: int, rate: float) -> Float:
    t, lines = window.t, window.lines[:count]
    return (
        lines if is_uniform(t, rate) else np.asarray(at_times(t, lines, np.arange(t[0], t[-1], 1.0 / rate)))
    )


def _spectrum(parts: list[Float], rate: float) -> tuple[Float, Float]:
    # Mean power density over parts, weighted by their length.
    size = int(min(max(part.shape[1] for part in parts), max(256, 4 * rate)))
    kept = [part for part in parts if part.shape[1] >= size]
    return averaged_density(kept, rate, size)


def _derivative_gain(x: Float, order: int) -> Float:
    """Gain of the central differences of fourth order over step^order at x rad a sample."""
    if order == 1:
        return np.asarray((8.0 * np.sin(x) - np.sin(2.0 * x)) / 6.0)
    return np.asarray((30.0 - 32.0 * np.cos(x) + 2.0 * np.cos(2.0 * x)) / 12.0)


def _gain(prepared: Prepared, frequency: Float) -> Float:
    # (n, F) of both filters together.
    s, rate = prepared.settings, prepared.source_rate
    whole = np.ones_like(frequency)

    def gain(cutoff: float, order: int) -> Float:
        return (
            zero_phase_filter(cutoff, order, rate).gain(frequency) if cutoff < HIGHEST_SHARE * rate else whole
        )

    states = np.array([gain(cutoff, s.state_order) for cutoff in s.state_cutoffs(prepared.joints)])
    return states * gain(float(s.cutoff), s.order)


@dataclass(frozen=True)
class HeldTorque:
    """Whether torque is held from row to row, as a controller commands it, and what that is good for.

    gain: misfit of the energy balance with linear torque over that with held torque; nan = not tried.
    repeated: share of rows in motion in which no torque changed.
    sticking: share of the samples in motion in which some joint stands still.
    power_suffices: whether the balance of power determines as many parameters as the torques do.
    """

    held: bool
    reason: str
    gain: float = np.nan
    repeated: float = 0.0
    sticking: float = 0.0
    power_suffices: bool = False

    def describe(self) -> dict[str, Any]:
        """Plain data for the run folder."""
        return {
            "held": self.held,
            "reason": self.reason,
            "gain": self.gain if np.isfinite(self.gain) else None,
            "repeated_share": self.repeated,
            "sticking_share": self.sticking,
        }


def held_torque(
    robot: RobotModel, prepared: Prepared, windows: Sequence[Window], commanded: bool | None = None
) -> HeldTorque:
    """Finds out whether torque is constant from each row to the next; commanded: what is known of it, None = nothing.

    Only a torque that repeats its values or has no noise can be a command; of such a torque, the energy balance of the
    motion shows: work of a held torque is tau_{k-1} . (q_k - q_{k-1}), of a sampled one that of the mean.
    """
    if commanded is False:
        return HeldTorque(False, "torque is measured, as the rows say")
    repeated, rough = _torque_texture(prepared, windows)
    if commanded is None and repeated < REPEATED_SHARE and rough > SMOOTH_SHARE:
        return HeldTorque(False, "torque is measured: it carries noise", repeated=repeated)
    batches = [prepared.process(window) for window in windows]
    batches = [samples for samples in batches if samples.keep.any() and samples.theta is None]
    if not batches:
        return HeldTorque(bool(commanded), "torque is commanded, as the rows say", repeated=repeated)
    misfit = {hold: _balance_misfit(robot, batches, hold) for hold in ("linear", "zero")}
    gain = misfit["linear"] / misfit["zero"] if misfit["zero"] > 0 else np.inf
    held = bool(commanded) or gain > HELD_GAIN
    if commanded:
        reason = "torque is held from row to row, as the rows say"
    elif held:
        reason = f"torque is held from row to row: the energy balance closes {gain:.2g} times better"
    else:
        reason = "torque is sampled, not held: the energy balance closes no better with held torque"
    return HeldTorque(
        held,
        reason,
        gain=float(gain),
        repeated=repeated,
        sticking=_sticking(batches, prepared.settings.rest),
        power_suffices=held and _power_suffices(robot, batches),
    )


def _torque_texture(prepared: Prepared, windows: Sequence[Window]) -> tuple[float, float]:
    # Share of rows that repeat all torques while something moves; noise of the roughest torque over its deviation.
    n, measured = prepared.joints, prepared.settings.velocity == "measured"
    first = 2 * n if measured and prepared.log.mapping.velocity else n
    same, rough = [], []
    for window in windows:
        tau, q = window.lines[first : first + n], window.lines[:n]
        moving = (np.diff(q, axis=1) != 0).any(axis=0)
        same.append(((np.diff(tau, axis=1) == 0).all(axis=0))[moving])
        noise = np.sqrt((np.diff(tau, 4, axis=1) ** 2).mean(axis=1) / 70.0)
        spread = tau.std(axis=1)
        rough.append(float((noise[spread > 0] / spread[spread > 0]).max(initial=0.0)))
    together = np.concatenate(same)
    return float(together.mean()) if len(together) else 0.0, max(rough)


def _panel(robot: RobotModel, samples: Samples, rows: Rows) -> Float:
    # All equations of a batch that count, side by side, thinned out; a line a parameter, the left side last.
    wanted = np.ones(len(DEFAULT_TERMS.columns(robot)), dtype=np.bool_)
    equations = rows.equations(robot, DEFAULT_TERMS, samples, wanted)
    every = max(1, int(samples.rate / (10.0 * POWER_CUTOFF)))
    kept = np.flatnonzero(samples.keep)[::every]
    panel = np.zeros((len(wanted) + 1, len(equations.panels) * len(kept)))
    for g, (columns, values) in enumerate(zip(equations.columns, equations.panels, strict=True)):
        panel[np.append(columns, -1), g * len(kept) : (g + 1) * len(kept)] = values[:, kept]
    return panel


def _stacked(robot: RobotModel, batches: Sequence[Samples], rows: Rows) -> Float:
    panel = np.concatenate([_panel(robot, samples, rows) for samples in batches], axis=1)
    size = np.linalg.norm(panel[:-1], axis=1)
    panel[:-1] /= np.where(size > 0, size, 1.0)[:, None]
    return panel


def _balance_misfit(robot: RobotModel, batches: Sequence[Samples], hold: Hold) -> float:
    panel = _stacked(robot, batches, FilteredPowerRows(POWER_CUTOFF, hold=hold))
    theta = np.linalg.lstsq(panel[:-1].T, panel[-1], rcond=INDEPENDENT)[0]
    return float(np.sqrt(np.mean((panel[-1] - theta @ panel[:-1]) ** 2)))


def _power_suffices(robot: RobotModel, batches: Sequence[Samples]) -> bool:
    panels = (_stacked(robot, batches, rows) for rows in (FilteredPowerRows(POWER_CUTOFF), TorqueRows()))
    power, torque = (int(np.linalg.matrix_rank(panel[:-1], tol=INDEPENDENT)) for panel in panels)
    return power >= torque


def _sticking(batches: Sequence[Samples], rest: float) -> float:
    still = [(np.abs(samples.dq[samples.keep]) < max(rest, 1e-9)).any(axis=1) for samples in batches]
    return float(np.concatenate(still).mean())


WINDOWS, LEAST_ROWS = 2, 64
TRUSTED_SHARE = 0.02
STICKING_SHARE = 0.03
CUTOFF_OVER_REACH = 5.0
LOWEST_CUTOFF, HIGHEST_CUTOFF = 2.0, 10.0


@dataclass(frozen=True)
class AutomaticRows:
    """The rows that suit a log; `choose_rows` says which, before an equation is written.

    commanded: whether torque is what a controller commanded, constant from each row to the next; None = found out.
    """

    commanded: bool | None = None
    name: str = "auto"


@dataclass(frozen=True, eq=False)
class RowsChoice:
    """Rows with the reason for them; evidence: as plain data.

    trusted: whether accelerations can be relied on, as far as is known.
    state_cutoff: Hz, what positions are low-passed at where the setting is higher; None = the setting stays.
    """

    rows: Rows
    reason: str
    evidence: dict[str, Any] = field(default_factory=dict)
    trusted: bool = True
    state_cutoff: float | None = None

    def prepared(self, asked: Prepared) -> Prepared:
        """The log prepared as the rows need it."""
        if self.state_cutoff is None:
            return asked
        lowered = tuple(min(one, self.state_cutoff) for one in asked.settings.state_cutoffs(asked.joints))
        alike = lowered[0] if len(set(lowered)) == 1 else lowered
        return replace(asked, settings=replace(asked.settings, state_cutoff=alike))

    def describe(self) -> dict[str, Any]:
        """Plain data for the run folder and the report."""
        options = {key: value for key, value in vars(self.rows).items() if key != "name"}
        return {"name": self.rows.name, "options": options, "reason": self.reason, "evidence": self.evidence}

    def __str__(self) -> str:
        return f"{self.rows.name} rows: {self.reason}"


def choose_rows(
    wanted: Rows | AutomaticRows, robot: RobotModel, terms: Terms, prepared: Prepared, sink: Diagnostics
) -> RowsChoice:
    """The rows as they were asked for, or else those that suit the log, with a note that says why.

    Springs between motor and link need elastic rows. Torque that is held while joints stick makes filtered power, in
    which friction at rest does no work. Otherwise torque rows where noise has at most 2 % of the power of every
    joint's acceleration, and momentum rows of relative degree 2, which read no acceleration, where it has more. Their
    friction and inertias still depend on position and velocity, so these are then low-passed where the motion ends.
    Source: the tables of Chavez-Olivares et al. 2012 and of Madsen et al. 2020, worked out again.
    """
    if not isinstance(wanted, AutomaticRows):
        # What residuals are read for depends on the accelerations, whoever chose the rows.
        return RowsChoice(wanted, "asked for", trusted=_trusted(prepared))
    choice = _automatic(wanted.commanded, robot, terms, prepared)
    sink.note("rows", str(choice))
    asked = prepared.asked
    if choice.state_cutoff is not None:
        set_to = max(prepared.settings.state_cutoffs(prepared.joints))
        change = f"positions are low-passed at {choice.state_cutoff:.2g} Hz, not at {set_to:.3g} Hz"
        why = "the motion ends there, and what lies above is noise"
        if asked.state_cutoff == "auto" and asked.cutoff == "auto":
            sink.note("states-low-passed", f"{change}: {why}")
        else:
            sink.warn("states-low-passed", f"{change} as asked: {why}. To keep it, say rows = 'momentum'")
    if not choice.trusted:
        sink.warn("noisy-accelerations", _noisy(choice, prepared))
    return choice


def _noisy(choice: RowsChoice, prepared: Prepared) -> str:
    # Advice is given only where it is not what was done already.
    noise, settings = choice.evidence["acceleration"], prepared.settings
    shares = [share or 0.0 for share in noise["share"]]
    joint = noise["joints"][shares.index(max(shares))]
    text = (
        f"torque is predicted with accelerations of which noise makes up to {100 * max(shares):.2g} % of the power "
        f"('{joint}'): scores and residuals show that noise besides the model"
    )
    asked = [
        name
        for name, value in (("cutoff", prepared.asked.cutoff), ("state_cutoff", prepared.asked.state_cutoff))
        if value != "auto"
    ]
    if asked:
        return f"{text}. To judge the model, leave {' and '.join(asked)} at auto"
    if settings.velocity == "differentiate" and not prepared.log.mapping.velocity:
        return (
            f"{text}. Filters cannot take it away: log velocities as well, or positions at a finer resolution"
        )
    return f"{text}. Filters cannot take it away: log positions at a finer resolution or move faster"


def _first(prepared: Prepared) -> tuple[Window, ...]:
    return tuple(w for w in islice(prepared.windows(), WINDOWS) if len(w.t) >= LEAST_ROWS)


def _trusted(prepared: Prepared) -> bool:
    windows = _first(prepared)
    return not windows or acceleration_noise(prepared, windows).worst <= TRUSTED_SHARE


def _automatic(commanded: bool | None, robot: RobotModel, terms: Terms, prepared: Prepared) -> RowsChoice:
    windows = _first(prepared)
    if not windows:
        return RowsChoice(TorqueRows(), "the log is too short to choose by")
    noise = acceleration_noise(prepared, windows)
    if any(isinstance(term, SpringTerm) for term in terms):
        return _elastic(noise)
    torque = held_torque(robot, prepared, windows, commanded)
    evidence = {"acceleration": noise.describe(), "torque": torque.describe()}
    whole = not any(isinstance(term, CurveTerm) or has_open_choice(term) for term in terms)
    whole = whole and prepared.measured is None  # power is that of all joints
    if torque.held and torque.sticking > STICKING_SHARE and torque.power_suffices and whole:
        reason = (
            f"{torque.reason}, and some joint sticks in {100 * torque.sticking:.2g} % of the samples in motion: "
            "friction at rest does no work"
        )
        rows = FilteredPowerRows(cutoff=_cutoff(noise), hold="zero")
        return RowsChoice(rows, reason, evidence, noise.worst <= TRUSTED_SHARE)
    motors = prepared.log.mapping.motor_position
    both = (
        "; motor positions are given to the drives' terms, and rigid rows keep no spring: rows = 'elastic' finds it"
        if motors
        else ""
    )
    if noise.worst <= TRUSTED_SHARE:
        reason = f"accelerations can be trusted: {_noise(noise)}{both}"
        return RowsChoice(TorqueRows(), reason, evidence)
    hold: Hold = "zero" if torque.held else "linear"
    momentum = MomentumRows(cutoff=_cutoff(noise), degree=2, hold=hold)
    reason = f"accelerations cannot be trusted: {_noise(noise)}; these rows read none{both}"
    if torque.held:
        reason += f"; {torque.reason}"
    asked = RowsChoice(momentum, reason, evidence, trusted=False)
    if noise.enough >= max(prepared.settings.state_cutoffs(prepared.joints)):
        return asked
    quiet = replace(asked, state_cutoff=noise.enough)
    after = acceleration_noise(quiet.prepared(prepared), windows)
    return replace(quiet, trusted=after.worst <= TRUSTED_SHARE)


def _elastic(noise: AccelerationNoise) -> RowsChoice:
    springs = "the model has springs, which only the equations of both sides of a joint see"
    evidence = {"acceleration": noise.describe()}
    if noise.worst <= TRUSTED_SHARE:
        return RowsChoice(
            ElasticRows(), f"{springs}; accelerations can be trusted: {_noise(noise)}", evidence
        )
    reason = f"{springs}; accelerations cannot be trusted: {_noise(noise)}"
    return RowsChoice(ElasticMomentumRows(cutoff=_cutoff(noise)), reason, evidence, trusted=False)


def _noise(noise: AccelerationNoise) -> str:
    return f"noise makes up to {100 * noise.worst:.2g} % of their power ({noise.worst_joint})"


def _cutoff(noise: AccelerationNoise) -> float:
    # A little above the motion's own frequencies: below them equations grow alike, far above them noise comes in.
    return float(f"{min(max(CUTOFF_OVER_REACH * noise.reach, LOWEST_CUTOFF), HIGHEST_CUTOFF):.2g}")
