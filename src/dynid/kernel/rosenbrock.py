"""Linearly implicit steps of adaptive length, in NumPy: the reference of the steps in the native kernel.

Scheme ROS34PW2, a W-method of order 3 with an embedded one of order 2. It is L-stable and stiffly accurate, and keeps
its order with any approximation of the Jacobian, here the stiff part: friction, damping, springs and feedback.

References
----------
Rang and Angermann 2005, New Rosenbrock W-methods of order 3 for partial differential algebraic equations of index 1.
Hairer and Wanner 1996, Solving Ordinary Differential Equations II, section IV.7.

"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dynid.base.arrays import Float
from dynid.base.records import dataclass

__all__ = [
    "ALPHA",
    "INPUT_ROWS",
    "LEAST_SHARE",
    "SPEED_SHARE",
    "Advance",
    "advance",
    "input_weights",
]

# Coefficients of ROS34PW2 with y_new = y + sum b_i k_i and
# (1 - h gamma J) k_i = h f(t + alpha_i h, y + sum_(j<i) a_ij k_j) + h J sum_(j<i) g_ij k_j.
GAMMA = 4.3586652150845900e-01
STAGE = np.array(
    [
        [0.0, 0.0, 0.0],
        [8.7173304301691801e-01, 0.0, 0.0],
        [8.4457060015369423e-01, -1.1299064236484185e-01, 0.0],
        [0.0, 0.0, 1.0],
    ]
)
COUPLING = np.array(
    [
        [0.0, 0.0, 0.0],
        [-8.7173304301691801e-01, 0.0, 0.0],
        [-9.0338057013044082e-01, 5.4180672388095326e-02, 0.0],
        [2.4212380706095346e-01, -1.2232505839045147e00, 5.4526025533510214e-01],
    ]
)
WEIGHT = np.array(
    [2.4212380706095346e-01, -1.2232505839045147e00, 1.5452602553351020e00, 4.3586652150845900e-01]
)
EMBEDDED = np.array([3.7810903145819369e-01, -9.6042292212423178e-02, 0.5, 2.1793326075422950e-01])
ALPHA = STAGE.sum(axis=1)
# A step is doubled or halved, up to three times at once, so that every step is a binary fraction of its interval and
# the last one ends exactly there. The bounds are (0.9 / factor)^3: the error grows with the third power of a step.
GROWTH = ((0.9 / 4) ** 3, 4.0), ((0.9 / 2) ** 3, 2.0), (1.0, 1.0)
SHRINKAGE = ((0.9 / 0.5) ** 3, 0.5), ((0.9 / 0.25) ** 3, 0.25)
LEAST_FACTOR = 0.125
# Shortest step as a share of its interval; shorter ones vanish in the rounding of the time.
LEAST_SHARE = 2.0**-40
# 1/s: tolerance of a velocity over that of a position. An error of a velocity near a reversal under dry friction decays
# within microseconds; a tighter bound would take steps and not make positions more accurate.
SPEED_SHARE = 10.0
# Rows of a controller's tables per interval: begin, quarters and end, between which the inputs are a quartic.
INPUT_ROWS = 4


@dataclass(frozen=True, eq=False)
class Advance:
    """State after an interval.

    Attributes
    ----------
    y : ndarray, shape (s,)
        State.
    share : float
        Length of the next step as a share of an interval.
    at : float
        Share of the interval that is done: 1, or less if the steps did not suffice.
    tried : int
        Number of steps tried, including rejected ones.

    """

    y: Float
    share: float
    at: float
    tried: int


def advance(
    rate: Callable[[float, Float], Float],
    jacobian: Callable[[float, Float, Float], Float],
    y: Float,
    length: float,
    share: float,
    tolerance: Float,
    most: int,
) -> Advance | None:
    """Integrate y' = rate(time, y) over an interval with steps whose estimated error meets a tolerance.

    The estimated error of a step is at most tolerance (1 + abs(y)).

    Parameters
    ----------
    rate : callable
        (share of the interval, state (s,)) -> derivative (s,).
    jacobian : callable
        (share of the interval, state (s,), derivative (s,)) -> approximate derivative (s, s) of the rate.
    y : ndarray, shape (s,)
        State at the beginning.
    length : float, s
        Length of the interval.
    share : float
        First step as a share of the interval.
    tolerance : ndarray, shape (s,)
        Greatest estimated error of each component.
    most : int
        Most steps to try.

    Returns
    -------
    Advance or None
        None if the steps would become too short: the motion diverges.

    """
    at, tried = 0.0, 0
    while at < 1.0 and tried < most:
        f = rate(at, y)
        if not np.isfinite(f).all():
            return None
        J = jacobian(at, y, f)
        while tried < most:
            step = min(share, 1.0 - at)
            after, error = _step(rate, f, J, at, y, step, length, tolerance)
            tried += 1
            factor = _factor(error)
            share = max(share, step * factor) if factor >= 1.0 and step < share else step * factor
            if factor >= 1.0:
                y, at = after, at + step
                break
            if share < LEAST_SHARE:
                return None
    return Advance(y, min(share, 1.0), at, tried)


def _step(
    rate: Callable[[float, Float], Float],
    f: Float,
    J: Float,
    at: float,
    y: Float,
    step: float,
    length: float,
    tolerance: Float,
) -> tuple[Float, float]:
    h = step * length
    W = np.linalg.inv(np.eye(len(y)) - h * GAMMA * J)
    k = np.zeros((4, len(y)))
    for i in range(4):
        slope = f if i == 0 else rate(at + ALPHA[i] * step, y + STAGE[i] @ k[:3])
        k[i] = W @ (h * slope + h * (J @ (COUPLING[i] @ k[:3])))
    after = y + WEIGHT @ k
    scale = tolerance * (1.0 + np.maximum(np.abs(y), np.abs(after)))
    return after, float((np.abs((WEIGHT - EMBEDDED) @ k) / scale).max())


def _factor(error: float) -> float:
    for bound, factor in (*GROWTH, *SHRINKAGE):
        if error <= bound:
            return factor
    return LEAST_FACTOR


def input_weights(at: float) -> Float:
    """Weights (5,) of the rows at 0, 1/4, 1/2, 3/4 and 1 of an interval for a time in it: Lagrange's quartic."""
    nodes = np.arange(INPUT_ROWS + 1) / INPUT_ROWS
    others = ~np.eye(len(nodes), dtype=np.bool_)
    return np.array(
        [
            np.prod(at - nodes[other]) / np.prod(node - nodes[other])
            for node, other in zip(nodes, others, strict=True)
        ]
    )
