"""A payload in the form that robots' controllers take: mass, centre in the flange's frame, inertia about the centre."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import UsageError
from dynid.spatial.algebra import rotation_about
from dynid.spatial.inertia import to_com
from dynid.verbs.payload_result import Payload


def tool_text(found: Payload, form: str, flange: Sequence[float] = (0.0,) * 6) -> str:
    """The lines that a controller, or its programmer, takes.

    form: a key of FORMS.    flange: x, y, z (m), roll, pitch, yaw (rad, about fixed axes as in URDF) of the flange's
    frame in the joint frame of the load's body.
    Raises UsageError for an unknown form or a flange that is not six finite numbers.
    """
    if form not in FORMS:
        raise UsageError("payload-tool", found=f"form '{form}'", expected="one of " + ", ".join(FORMS))
    if len(flange) != 6 or not np.isfinite(flange).all():
        raise UsageError(
            "payload-flange",
            found=f"{list(flange)}",
            expected="six numbers: x, y, z in m, roll, pitch, yaw in rad",
        )
    x, y, z = np.eye(3)
    roll, pitch, yaw = flange[3:]
    R = rotation_about(z, yaw) @ rotation_about(y, pitch) @ rotation_about(x, roll)
    mass, centre, inertia = to_com(found.parameters)
    return FORMS[form](mass, R.T @ (centre - np.array(flange[:3])), R.T @ inertia @ R)


def _ur(mass: float, centre: Float, inertia: Float) -> str:
    # set_target_payload(m, cog, [Ixx, Iyy, Izz, Ixy, Ixz, Iyz]) of URScript: kg, m, kg m^2, axes of the flange.
    six = [inertia[0, 0], inertia[1, 1], inertia[2, 2], inertia[0, 1], inertia[0, 2], inertia[1, 2]]
    return f"set_target_payload({mass:.4f}, {_listed(centre, 5)}, {_listed(six, 6)})\n"


def _franka(mass: float, centre: Float, inertia: Float) -> str:
    # setLoad(load_mass, F_x_Cload, load_inertia) of libfranka: kg, m, kg m^2, columns one after another.
    columns = ", ".join(f"{value:.6f}" for value in inertia.T.ravel())
    return f"robot.setLoad({mass:.4f}, {{{', '.join(f'{value:.5f}' for value in centre)}}}, {{{columns}}});\n"


def _abb(mass: float, centre: Float, inertia: Float) -> str:
    # loaddata of RAPID: kg, mm, quaternion of the principal axes, kg m^2 about them.
    values, axes = _principal(inertia)
    aom = _listed(_quaternion(axes), 6)
    return f"PERS loaddata payload := [{mass:.4f}, {_listed(1e3 * centre, 2)}, {aom}, {_csv(values)}];\n"


def _kuka(mass: float, centre: Float, inertia: Float) -> str:
    # LOAD_DATA: kg, mm, A B C in degrees about z, y', x'', kg m^2 about the principal axes.
    values, axes = _principal(inertia)
    a, b = np.arctan2(axes[1, 0], axes[0, 0]), -np.arcsin(np.clip(axes[2, 0], -1.0, 1.0))
    c = np.arctan2(axes[2, 1], axes[2, 2])
    X, Y, Z = 1e3 * centre
    A, B, C = np.degrees([a, b, c])
    J = values
    return (
        f"LOAD_DATA[1]={{M {mass:.4f},CM {{X {X:.2f},Y {Y:.2f},Z {Z:.2f},A {A:.3f},B {B:.3f},C {C:.3f}}},"
        f"J {{X {J[0]:.6f},Y {J[1]:.6f},Z {J[2]:.6f}}}}}\n"
    )


def _principal(inertia: Float) -> tuple[Float, Float]:
    # Moments and axes as columns of a rotation, each axis as near as can be to that of the flange with its number.
    values, axes = np.linalg.eigh(inertia)
    order = np.zeros(3, dtype=np.int64)
    left = [0, 1, 2]
    for k in range(3):
        order[k] = max(left, key=lambda i: abs(axes[k, i]))
        left.remove(int(order[k]))
    axes = axes[:, order] * np.where(np.diag(axes[:, order]) < 0, -1.0, 1.0)
    if np.linalg.det(axes) < 0:
        axes[:, 2] *= -1.0
    return np.asarray(values[order]), np.asarray(axes)


def _quaternion(R: Float) -> Float:
    # Of Bar-Itzhack's symmetric matrix: no case is singular.
    K = np.array(
        [
            [R[0, 0] - R[1, 1] - R[2, 2], R[0, 1] + R[1, 0], R[0, 2] + R[2, 0], R[2, 1] - R[1, 2]],
            [R[0, 1] + R[1, 0], R[1, 1] - R[0, 0] - R[2, 2], R[1, 2] + R[2, 1], R[0, 2] - R[2, 0]],
            [R[0, 2] + R[2, 0], R[1, 2] + R[2, 1], R[2, 2] - R[0, 0] - R[1, 1], R[1, 0] - R[0, 1]],
            [R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1], np.trace(R)],
        ]
    )
    x, y, z, w = np.linalg.eigh(K)[1][:, -1]
    q = np.array([w, x, y, z])
    return np.asarray(q if w >= 0 else -q)


def _csv(values: Sequence[float] | Float, digits: int = 6) -> str:
    return ", ".join(f"{value:.{digits}f}" for value in values)


def _listed(values: Sequence[float] | Float, digits: int) -> str:
    return f"[{_csv(values, digits)}]"


FORMS: dict[str, Callable[[float, Float, Float], str]] = {
    "ur": _ur,
    "franka": _franka,
    "abb": _abb,
    "kuka": _kuka,
}
