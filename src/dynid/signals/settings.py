"""How signals are prepared: every choice in one place."""

from __future__ import annotations

from typing import Literal

from dynid.base.options import check_options, option
from dynid.base.records import dataclass

Auto = float | Literal["auto"]
# One frequency for all joints, one per joint, or some by name of the joint.
ByJoint = float | tuple[float, ...] | dict[str, float] | Literal["auto"]

# Hz: one cycle in a quarter of an hour; slower motion identifies nothing, and filters become numerically inaccurate.
LOWEST_FREQUENCY = 1e-3
# Hz: no drive closes its current loop faster, and a finer grid fills memory.
HIGHEST_RATE = 1e5
# s: more than eleven days.
LONGEST = 1e6
# rad/s or m/s: no joint is as fast.
FASTEST = 1e3
HIGHEST_ORDER = 8  # sharper filters ring for seconds


@dataclass(frozen=True)
class Preparation:
    """Settings of the signal chain; frequencies in Hz, times in s.

    The parallel filter runs over both sides of the equations, and over measured and predicted torque before they are
    compared. All filters are Butterworth filters that run forward and backward, without phase and with twice the slope.
    `options_of(Preparation)` contains meaning, unit and range of each setting.

    Raises
    ------
    UsageError
        For values outside their range.

    References
    ----------
    Madsen et al. 2020, sections 4.1 and 4.2.

    """

    cutoff: Auto = option(
        "auto",
        "cutoff frequency of the parallel filter, which runs over both sides of the equations and over both torques "
        "before they are compared; auto: from the spectra of motion and torque",
        unit="Hz",
        least=LOWEST_FREQUENCY,
        most=HIGHEST_RATE / 2,
    )
    order: int = option(
        4, "order of that Butterworth filter, run forward and backward", least=1, most=HIGHEST_ORDER
    )
    state_cutoff: ByJoint = option(
        "auto",
        "cutoff frequency of the filter over positions before they are differentiated; auto: `cutoff` if that is a "
        "number, else four times that (at most 0.4 of the rate) for joints whose torque is then predicted as well, and "
        "lower for joints whose position has more noise than motion; in a table, joints that are not named are auto",
        unit="Hz",
        least=LOWEST_FREQUENCY,
        most=HIGHEST_RATE / 2,
        kind=f"a number from {LOWEST_FREQUENCY:g} to {HIGHEST_RATE / 2:g} (Hz), a list of one per joint, a table joint "
        "-> number, or 'auto'",
    )
    state_order: int = option(4, "order of that filter", least=1, most=HIGHEST_ORDER)
    velocity: Literal["auto", "differentiate", "measured"] = option(
        "auto",
        "differentiate the filtered position, or use the logged velocity; auto: the logged velocity where its noise "
        "below the highest cutoff frequency of the positions is less than 2 % of the acceleration's power; else, per "
        "joint, the derivative of the position or both with a crossover frequency, whichever has less noise",
    )
    crossover: tuple[float, ...] | None = option(
        None,
        "with a measured velocity, one per joint: below it the derivative of the position is used instead; chosen by "
        '`velocity = "auto"`',
        unit="Hz",
        least=0,
    )
    rate: float | None = option(
        None,
        "rate of the uniform time grid; without it from the median time step",
        unit="Hz",
        least=LOWEST_FREQUENCY,
        most=HIGHEST_RATE,
    )
    decimate: bool = option(True, "decimate after each filter to what its bandwidth needs")
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
        "left out at both ends of each segment; auto: one period of the cutoff frequency",
        unit="s",
        least=0,
        most=LONGEST,
    )
    rest: float = option(
        0.02,
        "samples are left out while every joint is slower, since static friction takes any value up to its limit "
        "(the middle of each dwell counts if efforts show that it carries no load); 0 keeps them",
        unit="rad/s or m/s",
        least=0,
        most=FASTEST,
    )
    gate: float = option(
        0.0,
        "equations of a joint below this speed are neither fitted nor scored (residuals include them); 0: none",
        unit="rad/s or m/s",
        least=0,
        most=FASTEST,
    )

    def __post_init__(self) -> None:
        check_options(self, "prepare")

    def state_cutoffs(self, n: int) -> tuple[float, ...]:
        """Cutoff frequency of the positions of each of `n` joints, Hz, for settings without "auto"."""
        setting = self.state_cutoff
        if isinstance(setting, (str, dict)):
            raise TypeError(f"state_cutoff = {setting!r} is resolved with a log, by prepare")
        return (
            tuple(float(cutoff) for cutoff in setting)
            if isinstance(setting, (tuple, list))
            else (float(setting),) * n
        )


@dataclass(frozen=True)
class Standstill:
    """What counts as a static pose in a log.

    Raises UsageError for values outside their range.
    """

    still: float = option(2e-3, "every joint is slower than this", unit="rad/s or m/s", above=0, most=FASTEST)
    dwell: float = option(0.3, "for at least this long", unit="s", above=0, most=LONGEST)
    settle: float = option(
        0.2, "after this much of each dwell, which is left out", unit="s", least=0, most=LONGEST
    )
    away: float = option(
        5e-3,
        "least distance from which a joint must come for its direction to be known",
        unit="rad or m",
        above=0,
    )
    tolerance: float = option(
        5e-3, "poses that differ by less on every joint count as one", unit="rad or m", above=0
    )

    def __post_init__(self) -> None:
        check_options(self, "statics", "standstill-settings")
