"""Inertial parameters of a body and their conversions.

The ten parameters pi = (m, mcx, mcy, mcz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz) are about the joint frame, in SI units.
"""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import UsageError
from dynid.spatial.algebra import skew

# Positions in pi of the parameters of Khalil and Dombre.
_KHALIL = [4, 5, 7, 6, 8, 9, 1, 2, 3, 0]


def symmetric(six: Float) -> Float:
    """Symmetric matrix of its six entries.

    Parameters
    ----------
    six : ndarray, shape (6,)
        (Ixx, Ixy, Iyy, Ixz, Iyz, Izz).

    Returns
    -------
    ndarray, shape (3, 3)

    """
    xx, xy, yy, xz, yz, zz = six
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def six(matrix: Float) -> Float:
    """Entries (Ixx, Ixy, Iyy, Ixz, Iyz, Izz) of a symmetric matrix (3, 3)."""
    m = np.asarray(matrix)
    return np.array([m[0, 0], m[0, 1], m[1, 1], m[0, 2], m[1, 2], m[2, 2]])


def from_com(mass: float, com: Float, inertia_at_com: Float) -> Float:
    """Ten parameters from mass, centre of mass and inertia about the centre of mass, in the same axes.

    Parameters
    ----------
    mass : float, kg
        Mass.
    com : ndarray, shape (3,), m
        Centre of mass.
    inertia_at_com : ndarray, shape (3, 3), kg m^2
        Inertia about the centre of mass.

    Returns
    -------
    ndarray, shape (10,)

    """
    c = np.asarray(com, dtype=np.float64)
    about_origin = np.asarray(inertia_at_com) - mass * (skew(c) @ skew(c))
    return np.concatenate([[mass], mass * c, six(about_origin)])


def to_com(pi: Float) -> tuple[float, Float, Float]:
    """Mass, centre of mass (3,) and inertia (3, 3) about it.

    Raises UsageError for a mass that is not positive.
    """
    m = float(pi[0])
    if not m > 0:
        raise UsageError("massless", found=f"mass {m:.3g} kg", expected="a positive mass")
    c = np.asarray(pi[1:4]) / m
    return m, c, symmetric(pi[4:]) + m * (skew(c) @ skew(c))


def transformed(pi: Float, T: Float) -> Float:
    """Ten parameters of the same body in another frame.

    Parameters
    ----------
    pi : ndarray, shape (10,)
        Inertial parameters in the old frame.
    T : ndarray, shape (4, 4)
        Placement of the old frame in the new one.

    Returns
    -------
    ndarray, shape (10,)

    """
    m, h, inertia = pi[0], np.asarray(pi[1:4]), symmetric(pi[4:])
    R, p = T[:3, :3], T[:3, 3]
    Rh = R @ h
    cross = skew(p) @ skew(Rh)
    moved = R @ inertia @ R.T - cross - cross.T - m * (skew(p) @ skew(p))
    return np.concatenate([[m], Rh + m * p, six(moved)])


def pseudo_inertia(pi: Float) -> Float:
    """Pseudo-inertia [[S, h], [h', m]] with S = tr(I)/2 - I, positive definite for physically consistent bodies.

    Source: Wensing, Kim and Slotine 2018, eq. 14.

    Parameters
    ----------
    pi : ndarray, shape (10,)
        Inertial parameters.

    Returns
    -------
    ndarray, shape (4, 4)

    """
    inertia = symmetric(pi[4:])
    P = np.zeros((4, 4))
    P[:3, :3] = 0.5 * np.trace(inertia) * np.eye(3) - inertia
    P[:3, 3] = P[3, :3] = pi[1:4]
    P[3, 3] = pi[0]
    return P


def from_pseudo_inertia(P: Float) -> Float:
    """Ten parameters of a pseudo-inertia (4, 4)."""
    S = P[:3, :3]
    return np.concatenate([[P[3, 3]], P[:3, 3], six(np.trace(S) * np.eye(3) - S)])


# Positions of s12, s23, s13, t1, t2, t3 in U / exp(alpha).
LOG_CHOLESKY_SHEARS = ((0, 1), (1, 2), (0, 2), (0, 3), (1, 3), (2, 3))


def log_cholesky(pi: Float) -> Float:
    """Log-Cholesky parameters (alpha, d1, d2, d3, s12, s23, s13, t1, t2, t3) of a physically consistent body.

    They are unconstrained: P = U U', U = exp(alpha) [[e^d1, s12, s13, t1], [0, e^d2, s23, t2], [0, 0, e^d3, t3],
    [0, 0, 0, 1]].
    Raises UsageError if the pseudo-inertia is not positive definite.
    Source: Rucker and Wensing 2022, eq. 12.
    """
    flip = np.eye(4)[::-1]
    try:
        U = flip @ np.linalg.cholesky(flip @ pseudo_inertia(pi) @ flip) @ flip
    except np.linalg.LinAlgError as error:
        raise UsageError(
            "not-physical",
            found=f"pseudo-inertia with eigenvalues {eigenvalues(pi)}",
            expected="all positive",
        ) from error
    alpha = np.log(U[3, 3])
    V = U / U[3, 3]
    d = np.log(np.diag(V)[:3])
    return np.array([alpha, *d, *(V[place] for place in LOG_CHOLESKY_SHEARS)])


def log_cholesky_factor(x: Float) -> Float:
    """Factor U (..., 4, 4) of log-Cholesky parameters (..., 10); U U' is the pseudo-inertia."""
    V = np.zeros((*x.shape[:-1], 4, 4))
    V[..., 3, 3] = 1.0
    for k in range(3):
        V[..., k, k] = np.exp(x[..., 1 + k])
    for k, (i, j) in enumerate(LOG_CHOLESKY_SHEARS):
        V[..., i, j] = x[..., 4 + k]
    return np.asarray(np.exp(x[..., 0])[..., None, None] * V)


def eigenvalues(pi: Float) -> Float:
    """Eigenvalues (4,) of the pseudo-inertia, ascending."""
    return np.asarray(np.linalg.eigvalsh(pseudo_inertia(pi)), dtype=np.float64)


def is_physical(pi: Float, tolerance: float = 0.0) -> bool:
    """Whether the body is physically consistent: least eigenvalue of the pseudo-inertia >= -tolerance * greatest."""
    values = eigenvalues(pi)
    return bool(values[0] >= -tolerance * max(values[-1], 0.0) and pi[0] >= 0)


def nearest_possible(pi: Float, thinnest: float) -> Float:
    """Nearest physically consistent body with the same mass and centre of mass.

    The second moments about the centre of mass, J = tr(I)/2 - I, keep their axes; each is raised to at least `thinnest`
    times the greatest. That is the nearest such J in the Frobenius norm. A body with large enough moments is returned
    unchanged, bit for bit.
    Raises UsageError for a mass that is not positive, or without a positive second moment.
    """
    m, c, inertia = to_com(pi)
    J = 0.5 * np.trace(inertia) * np.eye(3) - inertia
    values, axes = np.linalg.eigh(J)
    if not values[-1] > 0:
        raise UsageError("no-extent", found=f"second moments {values} kg m^2", expected="one above zero")
    floor = thinnest * values[-1]
    if values[0] >= floor:
        return np.array(pi, dtype=np.float64)
    raised = (axes * np.maximum(values, floor)) @ axes.T
    return from_com(m, c, np.trace(raised) * np.eye(3) - raised)


def to_khalil(pi: Float) -> Float:
    """Parameters (XX, XY, XZ, YY, YZ, ZZ, MX, MY, MZ, M) in the order of Khalil and Dombre, about the joint frame."""
    return np.asarray(pi)[_KHALIL]


def from_khalil(values: Float) -> Float:
    """Ten parameters from the order of Khalil and Dombre."""
    pi = np.empty(10)
    pi[_KHALIL] = values
    return pi


def to_mjcf(pi: Float) -> tuple[float, Float, Float]:
    """Mass, centre of mass and fullinertia of MJCF.

    Parameters
    ----------
    pi : ndarray, shape (10,)
        Inertial parameters.

    Returns
    -------
    mass : float, kg
    com : ndarray, shape (3,), m
    fullinertia : ndarray, shape (6,), kg m^2
        (xx, yy, zz, xy, xz, yz) about the centre of mass.

    """
    m, c, I = to_com(pi)
    return m, c, np.array([I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2]])


def from_mjcf(mass: float, com: Float, fullinertia: Float) -> Float:
    """Ten parameters from mass, pos and fullinertia (xx, yy, zz, xy, xz, yz) of MJCF."""
    xx, yy, zz, xy, xz, yz = fullinertia
    return from_com(mass, com, symmetric(np.array([xx, xy, yy, xz, yz, zz])))
