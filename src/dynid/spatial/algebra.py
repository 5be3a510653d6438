"""Rotations and placements as plain matrices."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float


def skew(a: Float) -> Float:
    """Cross product matrix S (3, 3) with S b = a x b."""
    return np.array([[0.0, -a[2], a[1]], [a[2], 0.0, -a[0]], [-a[1], a[0], 0.0]])


def rotation_about(axis: Float, angle: float) -> Float:
    """Rotation matrix (3, 3) of an angle, rad, about a unit vector (Rodrigues)."""
    K = skew(np.asarray(axis, dtype=np.float64))
    R: Float = np.eye(3) + np.sin(angle) * K + (1.0 - np.cos(angle)) * (K @ K)
    return R


def rotation_rpy(rpy: Float) -> Float:
    """Rotation matrix Rz(yaw) Ry(pitch) Rx(roll) of fixed-axis angles, as in URDF.

    Parameters
    ----------
    rpy : ndarray, shape (3,), rad
        Roll, pitch and yaw.

    Returns
    -------
    ndarray, shape (3, 3)

    """
    roll, pitch, yaw = rpy
    x, y, z = np.eye(3)
    return np.asarray(rotation_about(z, yaw) @ rotation_about(y, pitch) @ rotation_about(x, roll))


def rotation_quaternion(wxyz: Float) -> Float:
    """Rotation matrix of a quaternion, which is normalised first.

    Parameters
    ----------
    wxyz : ndarray, shape (4,)
        Quaternion (w, x, y, z).

    Returns
    -------
    ndarray, shape (3, 3)

    """
    w, x, y, z = np.asarray(wxyz, dtype=np.float64) / np.linalg.norm(wxyz)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def placement(rotation: Float, translation: Float) -> Float:
    """Homogeneous transform [R p; 0 1].

    Parameters
    ----------
    rotation : ndarray, shape (3, 3)
        R.
    translation : ndarray, shape (3,)
        p.

    Returns
    -------
    ndarray, shape (4, 4)

    """
    T = np.eye(4)
    T[:3, :3] = rotation
    T[:3, 3] = translation
    return T


def inverse(T: Float) -> Float:
    """Inverse of a homogeneous transform.

    Parameters
    ----------
    T : ndarray, shape (4, 4)
        The transform.

    Returns
    -------
    ndarray, shape (4, 4)

    """
    return placement(T[:3, :3].T, -T[:3, :3].T @ T[:3, 3])


def is_rotation(R: Float, tolerance: float = 1e-6) -> bool:
    """Whether R'R = 1 and det R = 1 within the tolerance."""
    return bool(np.abs(R.T @ R - np.eye(3)).max() < tolerance and np.linalg.det(R) > 0)
