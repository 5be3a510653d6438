"""Chains of links, written as URDF for the methods and as MJCF for the simulator of the made sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

import numpy as np
from scipy.spatial.transform import Rotation

from dynid.base import Float, UsageError
from dynid.robot import JointType, RobotModel
from dynid.spatial import to_com

# kg and kg m^2 of a link of which nothing is known: programs that simulate cannot start from no mass.
PLACEHOLDER = (1.0, 0.01)


@dataclass(frozen=True)
class Body:
    """A link and the joint that carries it.

    Parameters
    ----------
    joint : str
        Name of the joint.
    parent : int
        Index of the parent link, -1 for the base.
    slides : bool
        Whether the joint is prismatic.
    placement : ndarray, shape (4, 4)
        Joint frame in the parent's frame.
    axis : ndarray, shape (3,)
        Axis in the joint's frame.
    inertia : ndarray, shape (10,), or None
        Mass, m c and inertia about the joint's frame; None if unknown.
    lower, upper : float, rad (m)
        Limits.

    """

    joint: str
    parent: int
    slides: bool
    placement: Float
    axis: Float
    inertia: Float | None
    lower: float = -6.0
    upper: float = 6.0

    @property
    def inertial(self) -> tuple[float, Float, Float]:
        """Mass, centre of mass and inertia about it; of a placeholder if nothing is known."""
        if self.inertia is None or not self.inertia[0] > 0:
            return PLACEHOLDER[0], np.zeros(3), PLACEHOLDER[1] * np.eye(3)
        return to_com(self.inertia)


def bodies_of(robot: RobotModel) -> list[Body]:
    """The links of a robot of dynid; raises UsageError for joints that follow others."""
    if robot.has_mimic:
        raise UsageError("bench-mimic", found="joints that follow others", expected="independent joints")
    known = np.atleast_1d(np.isfinite(robot.inertia_prior).all(axis=1))
    lower, upper = (
        np.where(np.isfinite(bound), bound, default)
        for bound, default in ((robot.limits.lower, -6.3), (robot.limits.upper, 6.3))
    )
    return [
        Body(
            robot.joint_names[i],
            int(robot.parent[i]),
            robot.joint_types[i] is JointType.PRISMATIC,
            robot.T_parent_joint[i],
            robot.axis[i],
            robot.inertia_prior[i] if known[i] else None,
            float(lower[i]),
            float(upper[i]),
        )
        for i in range(robot.n_bodies)
    ]


def write_urdf(path: Path, bodies: Sequence[Body]) -> Path:
    """Write links and joints as URDF without shapes; a link of unknown inertia gets one of a placeholder.

    Parameters
    ----------
    path : Path
        File.
    bodies : sequence of Body
        Links.

    Returns
    -------
    Path
        The file.

    """
    lines = ['<robot name="robot">', '<link name="base"/>']
    for i, body in enumerate(bodies):
        lines.append(f'<link name="link_{i + 1}">')
        mass, centre, inertia = body.inertial
        names = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
        moments = zip(names, inertia[np.triu_indices(3)].tolist(), strict=True)
        moments_text = " ".join(f'{name}="{value!r}"' for name, value in moments)
        lines.append(
            f'<inertial><origin xyz="{_text(centre)}"/><mass value="{mass!r}"/>'
            f"<inertia {moments_text}/></inertial>"
        )
        lines.append("</link>")
        parent = "base" if body.parent < 0 else f"link_{body.parent + 1}"
        rpy = Rotation.from_matrix(body.placement[:3, :3]).as_euler("xyz")
        lines += [
            f'<joint name={quoteattr(body.joint)} type="{"prismatic" if body.slides else "revolute"}">',
            f'<parent link="{parent}"/><child link="link_{i + 1}"/>',
            f'<origin xyz="{_text(body.placement[:3, 3])}" rpy="{_text(rpy)}"/><axis xyz="{_text(body.axis)}"/>',
            f'<limit lower="{body.lower!r}" upper="{body.upper!r}" velocity="100" effort="1e6"/>',
            "</joint>",
        ]
    path.write_text("\n".join([*lines, "</robot>"]) + "\n", encoding="utf-8")
    return path


def mjcf(
    bodies: Sequence[Body],
    rotor: Float,
    stiffness: Float | None = None,
    step: float = 5e-4,
    gravity: Sequence[float] = (0.0, 0.0, -9.81),
) -> str:
    """A chain as MJCF, each link on the one before it.

    Parameters
    ----------
    bodies : sequence of Body
        Links, in the order of the chain.
    rotor : ndarray, shape (n,), kg m^2 (kg)
        Reflected inertia of each motor.
    stiffness : ndarray, shape (n,), N m/rad (N/m), optional
        Of a spring between each motor and its link; None = rigid. The motor is the joint, the spring `s_JOINT`.
    step : float, s
        Time step.
    gravity : sequence of float, m/s^2
        Gravity.

    Returns
    -------
    str

    """
    lines = [
        f'<mujoco><compiler angle="radian"/><option timestep="{step!r}" integrator="implicitfast" '
        f'gravity="{_text(gravity)}"><flag contact="disable"/></option><worldbody>'
    ]
    for i, body in enumerate(bodies):
        quaternion = Rotation.from_matrix(body.placement[:3, :3]).as_quat()[[3, 0, 1, 2]]
        kind = "slide" if body.slides else "hinge"
        mass, centre, inertia = body.inertial
        full = [inertia[j, k] for j, k in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))]
        lines.append(f'<body pos="{_text(body.placement[:3, 3])}" quat="{_text(quaternion)}">')
        joint = f'type="{kind}" axis="{_text(body.axis)}"'
        lines.append(f'<joint name={quoteattr(body.joint)} {joint} armature="{float(rotor[i])!r}"/>')
        if stiffness is not None:
            # Damped by 1 % of the critical damping of the rotor on its spring.
            damping = 0.02 * float(np.sqrt(stiffness[i] * rotor[i]))
            lines.append(
                f"<joint name={quoteattr('s_' + body.joint)} {joint} "
                f'stiffness="{float(stiffness[i])!r}" damping="{damping!r}"/>'
            )
        lines.append(f'<inertial pos="{_text(centre)}" mass="{mass!r}" fullinertia="{_text(full)}"/>')
    return "\n".join([*lines, "</body>" * len(bodies), "</worldbody></mujoco>"])


def _text(values: Sequence[float] | Float) -> str:
    return " ".join(repr(float(value)) for value in values)
