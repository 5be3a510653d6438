"""Loads of a wrist sensor from a table of poses at rest: dynid, and least squares in NumPy.

A method gets a table of training poses and the axes of its components, and answers with the wrench at other poses.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from dynid_bench.protocol import Float

GRAVITY = np.array([0.0, 0.0, -9.81])  # m/s^2, in the base frame


@dataclass(frozen=True, eq=False)
class Load:
    """An answer.    wrench : (T, 6), in the axes of the table.    mass, half_width : kg, half of the 95 % interval."""

    wrench: Float
    mass: float
    half_width: float


def turned(rotation: Float, wrench: Float) -> Float:
    """Forces and moments (T, 6) turned by rotations (T, 3, 3)."""
    return np.concatenate([np.einsum("tij,tj->ti", rotation, wrench[:, k : k + 3]) for k in (0, 3)], axis=1)


def weights(rotation: Float, gravity: Float) -> Float:
    """Wrench of a load in the sensor's axes per mass and first moment (T, 6, 4)."""
    felt = -gravity @ rotation
    rows = np.zeros((len(rotation), 6, 4))
    rows[:, :3, 0] = felt
    for k in range(3):
        rows[:, 3:, 1 + k] = np.cross(np.eye(3)[k], felt)
    return rows


def by_dynid(table: Path, frame: str, rotation: Float, place: Float) -> Load:
    """`dynid payload --poses`, which finds the axes itself; the bias of a pose is that of the poses around it.

    frame : not used.    rotation : of the poses (T, 3, 3).    place : of the poses among those of the table (T,).
    """
    from dynid import payload_from_wrench

    load = payload_from_wrench(table)
    fit = load.fit
    # The base is tilted about the first and second horizontal axis of the fit, y and -x.
    axis = fit.tilt[0] * np.array([0.0, 1.0, 0.0]) + fit.tilt[1] * np.array([-1.0, 0.0, 0.0])
    ideal = weights(rotation, GRAVITY + np.cross(axis, GRAVITY)) @ fit.parameters[:4]
    mounted = np.broadcast_to(Rotation.from_rotvec(fit.turn).as_matrix() @ fit.mounted, rotation.shape)
    bias = np.column_stack([np.interp(place, fit.knots, column) for column in fit.bias.T])
    wrench = load.sign * ((1.0 + fit.gain) * turned(mounted, ideal) + bias)
    low, high = load.interval()[0]
    return Load(turned(rotation, wrench) if load.frame == "base" else wrench, load.mass, (high - low) / 2.0)


def by_least_squares(table: Path, frame: str, rotation: Float, place: Float) -> Load:
    """Mass, first moment and six constant biases; the interval as if residuals were independent.

    frame : "base" or "sensor".    rotation : of the poses (T, 3, 3).    place : not used.
    """
    values = np.loadtxt(table, delimiter=",", skiprows=1)
    trained = Rotation.from_quat(values[:, :4]).as_matrix()
    read = turned(trained.transpose(0, 2, 1), values[:, 4:]) if frame == "base" else values[:, 4:]

    def rows(turns: Float) -> Float:
        bias = np.broadcast_to(np.eye(6), (len(turns), 6, 6))
        return np.concatenate([weights(turns, GRAVITY), bias], axis=2)

    A = rows(trained)
    # Forces and moments are weighted by their residuals.
    scale = np.ones(6)
    for _ in range(3):
        W, y = (A / scale[None, :, None]).reshape(-1, 10), (read / scale).ravel()
        theta = np.linalg.lstsq(W, y, rcond=None)[0]
        left = (A @ theta - read).reshape(-1, 2, 3)
        scale = np.repeat(np.sqrt(np.mean(left**2, axis=(0, 2))), 3)
    deviation = float(np.sqrt(np.linalg.inv(W.T @ W)[0, 0]))
    wrench = rows(rotation) @ theta
    # A sensor that reports the wrench of the load, not on it, gives a negative mass.
    return Load(
        turned(rotation, wrench) if frame == "base" else wrench, abs(float(theta[0])), 1.96 * deviation
    )
