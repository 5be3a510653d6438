"""The regressors of Chavez-Olivares et al. 2012 in closed form, (33) to (36), as printed and as they should be."""

from __future__ import annotations

import numpy as np

from dynid.base import Float
from dynid_studies.rotradi import GRAVITY, LENGTH


def torque_regressor(q: Float, dq: Float, ddq: Float) -> Float:
    """Equation (33): (T, 3, 21)."""
    momentum, force = np.zeros((2, len(q), 3, 21))
    _accelerations(momentum, q, ddq)
    _at_constant_velocity(force, q, dq)
    return np.asarray(momentum + force)


def momentum(q: Float, dq: Float) -> Float:
    """The f1 parts of (34), right as printed: momentum M dq by parameter, (T, 3, 21)."""
    regressor = np.zeros((len(q), 3, 21))
    _accelerations(regressor, q, dq)
    return regressor


def force_printed(q: Float, dq: Float) -> Float:
    """The f2 parts of (34) as printed: (33) without acceleration, which counts the product rule twice; (T, 3, 21)."""
    regressor = np.zeros((len(q), 3, 21))
    _at_constant_velocity(regressor, q, dq)
    return regressor


def force(q: Float, dq: Float) -> Float:
    """The f2 parts that (34) should have: -C' dq + g + friction by parameter; 20 entries differ; (T, 3, 21)."""
    _, q2, q3 = q.T
    v1, v2, v3 = dq.T
    s, c, L = np.sin, np.cos, LENGTH
    s23, c23 = s(q2 + q3), c(q2 + q3)
    f = force_printed(q, dq)
    f[:, 0, 1:11] = 0.0
    f[:, 1, 5] = -L * v1**2 * s(2 * q2 + q3) + GRAVITY * s23
    f[:, 1, 6] = -L * v1**2 * c(2 * q2 + q3) + GRAVITY * c23
    f[:, 1, 7] = f[:, 2, 7] = v1 * (v2 + v3) * s23
    f[:, 1, 8] = f[:, 2, 8] = -v1 * (v2 + v3) * c23
    f[:, 1, 9], f[:, 1, 10] = v1 * v2 * s(q2), -v1 * v2 * c(q2)
    f[:, 2, 5] = -L * v1**2 * s(q2) * c23 + L * v2 * (v2 + v3) * s(q3) + GRAVITY * s23
    f[:, 2, 6] = L * v1**2 * s(q2) * s23 + L * v2 * (v2 + v3) * c(q3) + GRAVITY * c23
    return f


def energy(q: Float, dq: Float) -> Float:
    """Equation (35) without its integrals of friction: stored energy by parameter, (T, 21)."""
    _, q2, q3 = q.T
    v1, v2, v3 = dq.T
    s, c, L = np.sin, np.cos, LENGTH
    h = np.zeros((len(q), 21))
    h[:, 0], h[:, 1] = 0.5 * v1**2, 0.5 * v1**2 * c(q2) ** 2
    h[:, 2], h[:, 3] = 0.5 * v1**2 * s(2 * q2), 0.5 * v1**2 * s(2 * q2 + 2 * q3)
    h[:, 4] = 0.5 * v1**2 * c(q2 + q3) ** 2
    h[:, 5] = v1**2 * L * s(q2) * s(q2 + q3) + L * v2 * (v2 + v3) * c(q3) + GRAVITY * (1 - c(q2 + q3))
    h[:, 6] = v1**2 * L * s(q2) * c(q2 + q3) - L * v2 * (v2 + v3) * s(q3) + GRAVITY * s(q2 + q3)
    h[:, 7], h[:, 8] = v1 * (v2 + v3) * c(q2 + q3), v1 * (v2 + v3) * s(q2 + q3)
    h[:, 9], h[:, 10] = v1 * v2 * c(q2), v1 * v2 * s(q2)
    h[:, 11], h[:, 12] = 0.5 * v2**2, (v2 + 0.5 * v3) * v3
    h[:, 13], h[:, 14] = 1 - c(q2), s(q2)
    return h


def power(q: Float, dq: Float, ddq: Float) -> Float:
    """Equation (36): (T, 21)."""
    _, q2, q3 = q.T
    v1, v2, v3 = dq.T
    a1, a2, a3 = ddq.T
    s, c, L = np.sin, np.cos, LENGTH
    q23, both, cross = q2 + q3, v2 + v3, a1 * (v2 + v3) + (a2 + a3) * v1
    pull = a1 * v1 + 2 * a2 * v2 + a2 * v3 + a3 * v2
    spin = 0.5 * v1**2 * v3 + v2**2 * v3 + v3**2 * v2
    r = np.zeros((len(q), 21))
    r[:, 0] = v1 * a1
    r[:, 1] = a1 * v1 * c(q2) ** 2 - v1**2 * v2 * c(q2) * s(q2)
    r[:, 2] = a1 * v1 * s(2 * q2) + v1**2 * v2 * c(2 * q2)
    r[:, 3] = a1 * v1 * s(2 * q23) + v1**2 * both * c(2 * q23)
    r[:, 4] = a1 * v1 * c(q23) ** 2 - v1**2 * both * c(q23) * s(q23)
    r[:, 5] = L * pull * c(q3) - L * a1 * v1 * c(2 * q2 + q3) + L * v1**2 * (v2 + 0.5 * v3) * s(2 * q2 + q3)
    r[:, 5] += -L * spin * s(q3) + GRAVITY * both * s(q23)
    r[:, 6] = L * a1 * v1 * s(2 * q2 + q3) + L * v1**2 * (v2 + 0.5 * v3) * c(2 * q2 + q3)
    r[:, 6] += -L * pull * s(q3) - L * spin * c(q3) + GRAVITY * both * c(q23)
    r[:, 7] = cross * c(q23) - v1 * both**2 * s(q23)
    r[:, 8] = cross * s(q23) + v1 * both**2 * c(q23)
    r[:, 9] = (a1 * v2 + a2 * v1) * c(q2) - v2**2 * v1 * s(q2)
    r[:, 10] = (a1 * v2 + a2 * v1) * s(q2) + v2**2 * v1 * c(q2)
    r[:, 11], r[:, 12] = a2 * v2, a3 * (v3 + v2) + a2 * v3
    r[:, 13], r[:, 14] = v2 * s(q2), v2 * c(q2)
    r[:, 15:] = np.stack([v1**2, np.abs(v1), v2**2, np.abs(v2), v3**2, np.abs(v3)], axis=1)
    return r


def _accelerations(r: Float, q: Float, x: Float) -> None:
    # Factors of accelerations in (33), and of velocities in f1 of (34).
    _, q2, q3 = q.T
    x1, x2, x3 = x.T
    s, c, L = np.sin, np.cos, LENGTH
    q23 = q2 + q3
    r[:, 0, 0], r[:, 0, 1], r[:, 0, 2] = x1, x1 * c(q2) ** 2, x1 * s(2 * q2)
    r[:, 0, 3], r[:, 0, 4] = x1 * s(2 * q23), x1 * c(q23) ** 2
    r[:, 0, 5], r[:, 0, 6] = 2 * L * x1 * s(q2) * s(q23), 2 * L * x1 * s(q2) * c(q23)
    r[:, 0, 7], r[:, 0, 8] = (x2 + x3) * c(q23), (x2 + x3) * s(q23)
    r[:, 0, 9], r[:, 0, 10] = x2 * c(q2), x2 * s(q2)
    r[:, 1, 5], r[:, 1, 6] = L * (2 * x2 + x3) * c(q3), -L * (2 * x2 + x3) * s(q3)
    r[:, 1, 7], r[:, 1, 8] = x1 * c(q23), x1 * s(q23)
    r[:, 1, 9], r[:, 1, 10] = x1 * c(q2), x1 * s(q2)
    r[:, 1, 11], r[:, 1, 12] = x2, x3
    r[:, 2, 5], r[:, 2, 6] = L * x2 * c(q3), -L * x2 * s(q3)
    r[:, 2, 7], r[:, 2, 8] = x1 * c(q23), x1 * s(q23)
    r[:, 2, 12] = x2 + x3


def _at_constant_velocity(r: Float, q: Float, dq: Float) -> None:
    # Equation (33) without acceleration.
    _, q2, q3 = q.T
    v1, v2, v3 = dq.T
    s, c, L = np.sin, np.cos, LENGTH
    q23, both = q2 + q3, v2 + v3
    r[:, 0, 1], r[:, 0, 2] = -v1 * v2 * s(2 * q2), 2 * v1 * v2 * c(2 * q2)
    r[:, 0, 3], r[:, 0, 4] = 2 * v1 * both * c(2 * q23), -v1 * both * s(2 * q23)
    r[:, 0, 5] = L * v1 * (2 * v2 + v3) * s(2 * q2 + q3) - L * v1 * v3 * s(q3)
    r[:, 0, 6] = L * v1 * (2 * v2 + v3) * c(2 * q2 + q3) - L * v1 * v3 * c(q3)
    r[:, 0, 7], r[:, 0, 8] = -(both**2) * s(q23), both**2 * c(q23)
    r[:, 0, 9], r[:, 0, 10] = -(v2**2) * s(q2), v2**2 * c(q2)
    r[:, 1, 1], r[:, 1, 2] = 0.5 * v1**2 * s(2 * q2), -(v1**2) * c(2 * q2)
    for joint in (1, 2):
        r[:, joint, 3], r[:, joint, 4] = -(v1**2) * c(2 * q23), 0.5 * v1**2 * s(2 * q23)
    r[:, 1, 5] = -L * v1**2 * s(2 * q2 + q3) - L * v3 * (v3 + 2 * v2) * s(q3) + GRAVITY * s(q23)
    r[:, 1, 6] = -L * v1**2 * c(2 * q2 + q3) - L * v3 * (v3 + 2 * v2) * c(q3) + GRAVITY * c(q23)
    r[:, 1, 13], r[:, 1, 14] = s(q2), c(q2)
    r[:, 2, 5] = 0.5 * L * v1**2 * (s(q3) - s(2 * q2 + q3)) + L * v2**2 * s(q3) + GRAVITY * s(q23)
    r[:, 2, 6] = 0.5 * L * v1**2 * (c(q3) - c(2 * q2 + q3)) + L * v2**2 * c(q3) + GRAVITY * c(q23)
    for joint, v in enumerate((v1, v2, v3)):
        r[:, joint, 15 + 2 * joint], r[:, joint, 16 + 2 * joint] = v, np.sign(v)
