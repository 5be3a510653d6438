"""How signals are prepared: every choice in one place."""

from __future__ import annotations

from typing import Literal

from dynid.base.options import check_options, option
from dynid.base.records import dataclass

Auto = float | Literal["auto"]
# One frequency for all joints, one a joint, or some joints' by name.
ByJoint = float | tuple[float, ...] | dict[str, float] | Literal["auto"]

# Hz; slower than one turn in a quarter of an hour nothing is identified from, and a filter that slow rounds to nothing.
LOWEST_FREQUENCY = 1e-3
# Hz; no drive closes its current loop faster, and a grid that fine fills memory.
HIGHEST_RATE = 1e5
# s, more than eleven days.
LONGEST = 1e6
# rad/s or m/s; no joint is as fast.
FASTEST = 1e3
HIGHEST_ORDER = 8


@dataclass(frozen=True)
class Preparation:
    """Settings of the signal chain; frequencies in Hz, times in s.

    The parallel filter is run over both sides of the equations and over measured and predicted torque before they are
    compared. Run forward and backward, Butterworth filters have no phase and twice the slope.
    Source: Madsen et al. 2020, sections 4.1 and 4.2.

    Raises UsageError for values outside their range.
    """

    cutoff: Auto = option(
        "auto",
        "cut-off of the parallel filter, which runs over both sides of the equations and over both torques before they "
        "are compared; auto: from the motion's own spectrum",
        unit="Hz",
        least=LOWEST_FREQUENCY,
        most=HIGHEST_RATE / 2,
    )
    order: int = option(
        4, "order of that Butterworth filter, run forward and backward", least=1, most=HIGHEST_ORDER
    )
    state_cutoff: ByJoint = option(
        "auto",
        "cut-off of the filter over positions before they are differentiated; auto: `cutoff` where that is a number, "
        "else four times that for joints whose torque is predicted as well, at most 0.4 of the rate, and lower for "
        "joints whose position has more noise than motion there; a table names some joints, the others are auto",
        unit="Hz",
        least=LOWEST_FREQUENCY,
        most=HIGHEST_RATE / 2,
        kind=f"a number from {LOWEST_FREQUENCY:g} to {HIGHEST_RATE / 2:g} (Hz), a list of one a joint, a table joint "
        "-> number, or 'auto'",
    )
    state_order: int = option(4, "order of that filter", least=1, most=HIGHEST_ORDER)
    velocity: Literal["auto", "differentiate", "measured"] = option(
        "auto",
        "differentiate the filtered position, or take what was measured; auto: the logged velocity (of every joint) "
        "where its noise within the highest cut-off that positions may have is below 2 % of the power of the "
        "acceleration; else, joint by joint, the derivative of the position or both with a crossover frequency, "
        "whichever is quieter",
    )
    crossover: tuple[float, ...] | None = option(
        None,
        "of a measured velocity, one a joint: below it the derivative of the position takes its place; chosen with "
        '`velocity = "auto"`',
        unit="Hz",
        least=0,
    )
    rate: float | None = option(
        None,
        "uniform time grid; without it from the median time step",
        unit="Hz",
        least=LOWEST_FREQUENCY,
        most=HIGHEST_RATE,
    )
    decimate: bool = option(True, "thin samples out after each filter, to what its bandwidth needs")
    gap: Auto = option(
        "auto",
        "longer steps split the log into segments; auto: six median steps, at least 20 ms",
        unit="s",
        least=0,
        most=LONGEST,
    )
    shortest: float = option(1.0, "shorter segments are left out", unit="s", least=0, most=LONGEST)
    trim: Auto = option(
        "auto",
        "left out at both ends of each segment; auto: one period of the cut-off",
        unit="s",
        least=0,
        most=LONGEST,
    )
    rest: float = option(
        0.02,
        "samples are left out while every joint is slower, since friction at rest may take any value up to its limit "
        "(where efforts show that it holds nothing, the middle of each stand counts); 0 keeps them",
        unit="rad/s or m/s",
        least=0,
        most=FASTEST,
    )
    gate: float = option(
        0.0,
        "equations of a joint slower than this are neither fitted nor counted in scores (residuals keep them); 0: none",
        unit="rad/s or m/s",
        least=0,
        most=FASTEST,
    )

    def __post_init__(self) -> None:
        check_options(self, "prepare")

    def state_cutoffs(self, n: int) -> tuple[float, ...]:
        """(n,) Hz, of settings without "auto"."""
        given = self.state_cutoff
        if isinstance(given, (str, dict)):
            raise TypeError(f"the cut-offs of {given!r} are not known before the log is")
        return tuple(float(one) for one in given) if isinstance(given, (tuple, list)) else (float(given),) * n


@dataclass(frozen=True)
class Standstill:
    """What counts as a static pose in a log.

    Raises UsageError for values outside their range.
    """

    still: float = option(2e-3, "every joint is slower than this", unit="rad/s or m/s", above=0, most=FASTEST)
    dwell: float = option(0.3, "for at least this long", unit="s", above=0, most=LONGEST)
    settle: float = option(
        0.2, "after this much of each standstill, which is left out", unit="s", least=0, most=LONGEST
    )
    away: float = option(
        5e-3,
        "how far a joint must have been away for the side it came from to be known",
        unit="rad or m",
        above=0,
    )
    tolerance: float = option(
        5e-3, "poses that differ by less on every joint are one", unit="rad or m", above=0
    )

    def __post_init__(self) -> None:
        check_options(self, "statics", "standstill-settings")
