"""Rows chosen from a log: by the noise of its accelerations, the kind of its torque and the number of encoders."""

from __future__ import annotations

from dataclasses import field, replace
from itertools import islice
from typing import Any

from dynid.base.diagnostics import Diagnostics
from dynid.base.records import dataclass
from dynid.robot.model import RobotModel
from dynid.rows.elastic import ElasticRows
from dynid.rows.elastic_momentum import ElasticMomentumRows
from dynid.rows.evidence import AccelerationNoise, acceleration_noise, held_torque
from dynid.rows.momentum import MomentumRows
from dynid.rows.momentum_filter import Hold
from dynid.rows.power import FilteredPowerRows
from dynid.rows.rows import Rows
from dynid.rows.torque import TorqueRows
from dynid.signals.prepare import Prepared
from dynid.signals.windows import Window
from dynid.terms.curve import CurveTerm
from dynid.terms.elastic import SpringTerm
from dynid.terms.term import Terms

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
    whole = not any(isinstance(term, CurveTerm) or term.is_open for term in terms)
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
