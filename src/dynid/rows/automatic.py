"""Automatic choice of rows, by the noise of the accelerations, the kind of torque and the number of encoders."""

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

# Evidence in a log: noise of accelerations, constant torque, joints that stick.

# Shares of the sampling rate between which the spectrum shows the noise floor.
FLOOR_BAND = (0.25, 0.45)
# rad or m: a joint with less travel is at rest.
LEAST_TRAVEL = 1e-3
# Share of rows with repeated torque above which torque may be a command.
REPEATED_SHARE = 0.3
# Noise over standard deviation of torque below which it may be a command.
SMOOTH_SHARE = 1e-3
# Improvement of the energy balance that shows constant torque.
HELD_GAIN = 2.0
# Hz: cutoff frequency of the power rows that test for constant torque.
POWER_CUTOFF = 5.0
# Relative singular value below which a parameter is not determined.
INDEPENDENT = 1e-6


@dataclass(frozen=True, eq=False)
class AccelerationNoise:
    """Noise in the accelerations that enter the equations.

    Attributes
    ----------
    joint_names : tuple of str
        Joints.
    share : ndarray, shape (n,)
        Power of the noise over that of the acceleration, both after all filters; nan for joints at rest and for joints
        without measured effort, whose equations are left out.
    signal : ndarray, shape (n,), rad/s^2 or m/s^2
        Root mean square of the acceleration.
    reach : float, Hz
        Frequency below which the joints move.
    enough : float, Hz
        Cutoff frequency that would keep all of the motion.

    """

    joint_names: tuple[str, ...]
    share: Float
    signal: Float
    reach: float
    enough: float

    @property
    def worst(self) -> float:
        """Greatest share over the joints that have one; 0 if none has."""
        shares = self.share[np.isfinite(self.share)]
        return float(shares.max()) if len(shares) else 0.0

    @property
    def worst_joint(self) -> str:
        """Joint with the greatest share."""
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
    """Noise of the accelerations of a log, as its settings compute them, from the spectra of some windows.

    Noise is the white floor above a quarter of the sampling rate, and everything above the frequencies of the motion
    (ten times its reach, as for the automatic cutoff). Positions are differenced before the spectrum, so that slow
    motion does not leak into high frequencies, and the gains of the differences are included exactly.
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
    # Mean power density over parts, weighted by length.
    size = int(min(max(part.shape[1] for part in parts), max(256, 4 * rate)))
    kept = [part for part in parts if part.shape[1] >= size]
    return averaged_density(kept, rate, size)


def _derivative_gain(x: Float, order: int) -> Float:
    """Gain of fourth-order central differences over step^order at x rad per sample."""
    if order == 1:
        return np.asarray((8.0 * np.sin(x) - np.sin(2.0 * x)) / 6.0)
    return np.asarray((30.0 - 32.0 * np.cos(x) + 2.0 * np.cos(2.0 * x)) / 12.0)


def _gain(prepared: Prepared, frequency: Float) -> Float:
    # Gain (n, F) of both filters together.
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
    """Whether torque is constant from row to row, as a controller commands it, and whether power rows can use that.

    Attributes
    ----------
    held : bool
        Whether torque is constant from row to row.
    reason : str
        Reason in words.
    gain : float
        Misfit of the energy balance with linear torque over that with constant torque; nan = not tried.
    repeated : float
        Share of rows in motion in which no torque changed.
    sticking : float
        Share of the samples in motion in which some joint is at rest.
    power_suffices : bool
        Whether the power balance determines as many parameters as the torques.

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
    """Determine whether torque is constant from each row to the next.

    Only torque that repeats its values or has no noise can be a command. The energy balance then decides: the work of
    constant torque is tau_{k-1} . (q_k - q_{k-1}), that of sampled torque the mean of both.

    Parameters
    ----------
    robot : RobotModel
        Robot.
    prepared : Prepared
        Prepared log.
    windows : sequence of Window
        Windows to use.
    commanded : bool, optional
        Declared by the user; None = unknown.

    Returns
    -------
    HeldTorque
        Result and reason.

    """
    if commanded is False:
        return HeldTorque(False, "torque is declared as measured (commanded = false)")
    repeated, rough = _torque_texture(prepared, windows)
    if commanded is None and repeated < REPEATED_SHARE and rough > SMOOTH_SHARE:
        return HeldTorque(False, "torque is measured, since it is noisy", repeated=repeated)
    batches = [prepared.process(window) for window in windows]
    batches = [samples for samples in batches if samples.keep.any() and samples.theta is None]
    if not batches:
        return HeldTorque(
            bool(commanded), "torque is declared as commanded (commanded = true)", repeated=repeated
        )
    misfit = {hold: _balance_misfit(robot, batches, hold) for hold in ("linear", "zero")}
    gain = misfit["linear"] / misfit["zero"] if misfit["zero"] > 0 else np.inf
    is_held = bool(commanded) or gain > HELD_GAIN
    if commanded:
        reason = "torque is constant between rows, as declared (commanded = true)"
    elif is_held:
        reason = f"torque is constant between rows: the energy balance then closes {gain:.2g} times better"
    else:
        reason = "torque varies between rows: the energy balance closes no better with constant torque"
    return HeldTorque(
        is_held,
        reason,
        gain=float(gain),
        repeated=repeated,
        sticking=_sticking(batches, prepared.settings.rest),
        power_suffices=is_held and _power_suffices(robot, batches),
    )


def _torque_texture(prepared: Prepared, windows: Sequence[Window]) -> tuple[float, float]:
    # Share of rows in motion that repeat all torques, and noise of the roughest torque over its deviation.
    n, measured = prepared.joints, prepared.settings.velocity == "measured"
    first = 2 * n if measured and prepared.log.channels.velocity else n
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
    # All usable equations of a batch side by side, decimated; one line per parameter, the left side last.
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


# Windows of the log to examine, and least rows of one.
WINDOWS, LEAST_ROWS = 2, 64
# Share of noise in the power of accelerations up to which they are accurate enough.
TRUSTED_SHARE = 0.02
# Share of samples with a sticking joint above which power rows are better.
STICKING_SHARE = 0.03
# Cutoff frequency of equation filters over the highest frequency of the motion.
CUTOFF_OVER_REACH = 5.0
# Hz: limits of that cutoff frequency.
LOWEST_CUTOFF, HIGHEST_CUTOFF = 2.0, 10.0


@dataclass(frozen=True)
class AutomaticRows:
    """Rows that `choose_rows` chooses for a log before any equation is written.

    Parameters
    ----------
    commanded : bool, optional
        Whether torque is what a controller commanded, constant from each row to the next; None = determined from the
        log.

    """

    commanded: bool | None = None
    name: str = "auto"


@dataclass(frozen=True, eq=False)
class RowsChoice:
    """Chosen rows with the reason.

    Attributes
    ----------
    rows : Rows
        Row scheme.
    reason : str
        Reason in words.
    evidence : dict
        Evidence as plain data.
    trusted : bool
        Whether accelerations are accurate enough, as far as is known.
    state_cutoff : float, Hz, optional
        Low pass of positions where the setting is higher; None = the setting stays.

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
        lowered = tuple(
            min(cutoff, self.state_cutoff) for cutoff in asked.settings.state_cutoffs(asked.joints)
        )
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
    """The rows that were set, or those that suit the log, with a note of the reason.

    Springs between motor and link need elastic rows. Constant torque with sticking joints leads to filtered power,
    since friction at rest does no work. Otherwise torque rows are chosen if noise has at most 2 % of the power of every
    joint's acceleration, and momentum rows of relative degree 2, which need no acceleration, if it has more. Their
    friction and inertias still depend on position and velocity, which are then low-passed at the end of the motion's
    spectrum.

    Parameters
    ----------
    wanted : Rows or AutomaticRows
        Setting.
    robot : RobotModel
        Robot.
    terms : Terms
        Terms of the model.
    prepared : Prepared
        Prepared log.
    sink : Diagnostics
        Receives notes and warnings.

    Returns
    -------
    RowsChoice
        Rows and reason.

    References
    ----------
    Tables of Chavez-Olivares et al. 2012 and of Madsen et al. 2020, reproduced.

    """
    if not isinstance(wanted, AutomaticRows):
        # The use of residuals depends on the accelerations, whoever chose the rows.
        return RowsChoice(wanted, "asked for", trusted=_accelerations_trusted(prepared))
    choice = _choose(wanted.commanded, robot, terms, prepared)
    sink.note("rows", str(choice))
    asked = prepared.asked
    if choice.state_cutoff is not None:
        set_to = max(prepared.settings.state_cutoffs(prepared.joints))
        change = f"positions are low-passed at {choice.state_cutoff:.2g} Hz, not at {set_to:.3g} Hz"
        why = "above it there is noise but no motion"
        if asked.state_cutoff == "auto" and asked.cutoff == "auto":
            sink.note("states-low-passed", f"{change}: {why}")
        else:
            sink.warn(
                "states-low-passed", f"{change} as set: {why}. To keep your setting, set rows = 'momentum'"
            )
    if not choice.trusted:
        sink.warn("noisy-accelerations", _noise_warning(choice, prepared))
    return choice


def _noise_warning(choice: RowsChoice, prepared: Prepared) -> str:
    # Advise only what was not done already.
    noise, settings = choice.evidence["acceleration"], prepared.settings
    shares = [share or 0.0 for share in noise["share"]]
    joint = noise["joints"][shares.index(max(shares))]
    text = (
        f"up to {100 * max(shares):.2g} % of the power of the accelerations is noise ('{joint}'), which raises scores "
        "and residuals"
    )
    asked = [
        name
        for name, value in (("cutoff", prepared.asked.cutoff), ("state_cutoff", prepared.asked.state_cutoff))
        if value != "auto"
    ]
    if asked:
        return f"{text}. To judge the model alone, set {' and '.join(asked)} to auto"
    if settings.velocity == "differentiate" and not prepared.log.channels.velocity:
        return f"{text}. Filters cannot remove it: also log velocities, or positions at a finer resolution"
    return f"{text}. Filters cannot remove it: log positions at a finer resolution or move faster"


def _first_windows(prepared: Prepared) -> tuple[Window, ...]:
    return tuple(w for w in islice(prepared.windows(), WINDOWS) if len(w.t) >= LEAST_ROWS)


def _accelerations_trusted(prepared: Prepared) -> bool:
    windows = _first_windows(prepared)
    return not windows or acceleration_noise(prepared, windows).worst <= TRUSTED_SHARE


def _choose(commanded: bool | None, robot: RobotModel, terms: Terms, prepared: Prepared) -> RowsChoice:
    windows = _first_windows(prepared)
    if not windows:
        return RowsChoice(TorqueRows(), "the log is too short for an automatic choice")
    noise = acceleration_noise(prepared, windows)
    if any(isinstance(term, SpringTerm) for term in terms):
        return _elastic_choice(noise)
    torque = held_torque(robot, prepared, windows, commanded)
    evidence = {"acceleration": noise.describe(), "torque": torque.describe()}
    whole = not any(isinstance(term, CurveTerm) or has_open_choice(term) for term in terms)
    whole = whole and prepared.measured is None  # power is the sum over all joints
    if torque.held and torque.sticking > STICKING_SHARE and torque.power_suffices and whole:
        reason = (
            f"{torque.reason}; in {100 * torque.sticking:.2g} % of the samples in motion a joint sticks, where its "
            "friction is unknown but does no work"
        )
        rows = FilteredPowerRows(cutoff=_equation_cutoff(noise), hold="zero")
        return RowsChoice(rows, reason, evidence, noise.worst <= TRUSTED_SHARE)
    motors = prepared.log.channels.motor_position
    both = (
        "; motor positions are used by drive terms only: set rows = 'elastic' to identify joint springs"
        if motors
        else ""
    )
    if noise.worst <= TRUSTED_SHARE:
        reason = f"accelerations are accurate enough: {_noise_text(noise)}{both}"
        return RowsChoice(TorqueRows(), reason, evidence)
    hold: Hold = "zero" if torque.held else "linear"
    momentum = MomentumRows(cutoff=_equation_cutoff(noise), degree=2, hold=hold)
    reason = f"accelerations are too noisy: {_noise_text(noise)}; these rows need none{both}"
    if torque.held:
        reason += f"; {torque.reason}"
    asked = RowsChoice(momentum, reason, evidence, trusted=False)
    if noise.enough >= max(prepared.settings.state_cutoffs(prepared.joints)):
        return asked
    quiet = replace(asked, state_cutoff=noise.enough)
    after = acceleration_noise(quiet.prepared(prepared), windows)
    return replace(quiet, trusted=after.worst <= TRUSTED_SHARE)


def _elastic_choice(noise: AccelerationNoise) -> RowsChoice:
    springs = "the model has joint springs, which need the equations of link and motor"
    evidence = {"acceleration": noise.describe()}
    if noise.worst <= TRUSTED_SHARE:
        return RowsChoice(
            ElasticRows(), f"{springs}; accelerations are accurate enough: {_noise_text(noise)}", evidence
        )
    reason = f"{springs}; accelerations are too noisy: {_noise_text(noise)}"
    return RowsChoice(ElasticMomentumRows(cutoff=_equation_cutoff(noise)), reason, evidence, trusted=False)


def _noise_text(noise: AccelerationNoise) -> str:
    return f"noise is up to {100 * noise.worst:.2g} % of their power ({noise.worst_joint})"


def _equation_cutoff(noise: AccelerationNoise) -> float:
    # Slightly above the frequencies of the motion: lower, equations become similar; much higher, noise enters.
    return float(f"{min(max(CUTOFF_OVER_REACH * noise.reach, LOWEST_CUTOFF), HIGHEST_CUTOFF):.2g}")
