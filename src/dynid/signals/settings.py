"""How signals are prepared: every choice in one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dynid.base.errors import UsageError

Cutoff = float | Literal["auto"]


@dataclass(frozen=True)
class Preparation:
    """Settings of the signal chain; frequencies in Hz, times in s.

    cutoff: of the parallel filter, which is run over both sides of the equations and over measured and predicted torque
        before they are compared; "auto" = from the motion's own spectrum.
    order: of that Butterworth filter; run forward and backward it has no phase and twice the slope.
    state_cutoff: of the filter of the positions before they are differentiated; "auto" = the same as `cutoff`.
    state_order: of that filter.
    velocity: "differentiate" the filtered position, take the "measured" one, or "auto": measured where it was logged
        and is not quantised.
    rate: of the uniform time grid; None = the log's own.
    decimate: whether samples are thinned out after each filter to what its bandwidth needs.
    gap: time steps longer than this split the log into segments; "auto" = six median steps, but at least 20 ms.
    shortest: segments shorter than this are left out.
    trim: time left out at both ends of each segment; "auto" = one period of the cut-off.
    rest: samples are left out while every joint is slower than this (rad/s or m/s), since friction at rest may take any
        value up to its limit; 0 keeps them.
    gate: equations of a joint that moves slower than this (rad/s or m/s) are left out; 0 = none.
    Source: Madsen et al. 2020, sections 4.1 and 4.2.

    Raises UsageError for values outside their range.
    """

    cutoff: Cutoff = "auto"
    order: int = 4
    state_cutoff: Cutoff = "auto"
    state_order: int = 4
    velocity: Literal["auto", "differentiate", "measured"] = "auto"
    rate: float | None = None
    decimate: bool = True
    gap: float | Literal["auto"] = "auto"
    shortest: float = 1.0
    trim: float | Literal["auto"] = "auto"
    rest: float = 0.02
    gate: float = 0.0

    def __post_init__(self) -> None:
        for name in ("cutoff", "state_cutoff", "rate"):
            value = getattr(self, name)
            if value is not None and value != "auto" and not value > 0:
                raise UsageError(
                    "prepare", found=f"prepare.{name} = {value}", expected="a frequency > 0 in Hz"
                )
        for name in ("order", "state_order"):
            if not 1 <= getattr(self, name) <= 8:
                raise UsageError(
                    "prepare", found=f"prepare.{name} = {getattr(self, name)}", expected="1 to 8"
                )
        for name, least in (("shortest", 0.0), ("rest", 0.0), ("gate", 0.0)):
            if not getattr(self, name) >= least:
                raise UsageError(
                    "prepare", found=f"prepare.{name} = {getattr(self, name)}", expected=f"at least {least}"
                )
        for name in ("trim", "gap"):
            value = getattr(self, name)
            if value != "auto" and not value >= 0:
                raise UsageError(
                    "prepare", found=f"prepare.{name} = {value}", expected="a time >= 0 or 'auto'"
                )
