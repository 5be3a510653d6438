"""The straight lines closest to friction curves, for formats that hold no more."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float
from dynid.terms.exports import smooth_sign

# Speeds at which a curve is compared with straight lines, over the greatest one.
_SPEEDS = np.linspace(-1.0, 1.0, 201)
# An offset that is so small against the friction is rounding.
_DUST = 1e-9


def straight(speed: Float, torque: Float, width: float) -> tuple[float, float, float, float]:
    """Viscous and Coulomb friction >= 0 and an offset closest to torques (T,) at speeds (T,), and the r.m.s. left."""
    from scipy.optimize import nnls

    A = np.column_stack([speed, smooth_sign(speed, width), np.ones_like(speed), -np.ones_like(speed)])
    (viscous, coulomb, up, down), left = nnls(A, torque)
    offset = float(up - down)
    if abs(offset) < _DUST * float(np.abs(torque).max(initial=0.0)):
        offset = 0.0
    return float(viscous), float(coulomb), offset, float(left / np.sqrt(len(speed)))


def speeds_up_to(peak: float) -> Float:
    """Speeds on both sides of rest up to the greatest one."""
    return _SPEEDS * peak
