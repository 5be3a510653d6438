"""Options that several estimators share, each with its range and one sentence on it."""

from __future__ import annotations

from typing import Any

from dynid.base.options import option
from dynid.estimate.uncertainty import Intervals

# Gains and noise of the joints: one number for all, or one a joint.
MOST_ROUNDS = 10_000_000


def most_rounds(default: int) -> Any:
    """Most rounds of an iteration."""
    return option(
        default,
        "most re-weightings (wls, ridge: 30 without it) or simulations (didim: 12, iv: 10)",
        least=1,
        most=MOST_ROUNDS,
    )


def last_move(default: float) -> Any:
    """Where an iteration ends."""
    return option(
        default,
        "wls, ridge: relative change of the weights to stop at, 1e-4 without it; others: the estimate's last move in "
        "standard deviations",
        above=0,
    )


def sought_play() -> Any:
    """Whether play is sought."""
    return option(
        False,
        "servo_oe: whether the play between each motor and its link is found, too; a run of the robot a joint more at "
        "every step",
    )


def interval_kind() -> Any:
    """How the covariance is found."""
    return option(
        Intervals.JACKKNIFE.value,
        'every method: how the covariance is found, below; `"jackknife"` without it',
        choices=tuple(kind.value for kind in Intervals),
    )


def encoder_noise() -> Any:
    """Noise of the encoders."""
    return option(
        None,
        "tls, ml, ekf, ukf, cdkf: standard deviation of the encoders' noise, one number or one a joint; from the log "
        "without it",
        unit="rad or m",
        above=0,
    )


def prior_strength(default: float | str) -> Any:
    """Weight of the prior."""
    return option(
        default,
        'ridge, feasible: weight of the prior, feasible: or how it is chosen; without it 1, feasible: `"held-out"`',
        above=0,
        choices=("held-out", "l-curve"),
    )
