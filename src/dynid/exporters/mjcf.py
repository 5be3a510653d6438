"""MJCF: bodies, joints with armature, friction and springs, coupled motors, followers, position actuators."""

from __future__ import annotations

from xml.sax.saxutils import quoteattr

import numpy as np

from dynid.base.arrays import Float
from dynid.exporters.mixed import motors_of, on_one_branch
from dynid.exporters.model import ExportModel, held_springs
from dynid.exporters.names import unique, xml_name
from dynid.exporters.urdf import join
from dynid.robot.model import JointType
from dynid.spatial.inertia import symmetric

# Dry friction is what is identified. MuJoCo's own is soft: with its time constant of 20 ms friction yields like viscous
# friction of frictionloss over some 0.05 rad/s. 2 ms is twice the step of replays, the least that MuJoCo keeps to;
# longer steps raise it themselves.
DRY = {"solreffriction": "0.002 1", "solimpfriction": "0.99 0.99 0.001"}
# A joint that follows others hangs on them by rigid bars or gears: as hard as MuJoCo lets constraints be.
RIGID = 'solref="0.002 1" solimp="0.9999 0.9999 0.001"'


def new_mjcf(model: ExportModel, soft: bool = False) -> bytes:
    """The robot as MJCF, one body a moving body, in its joint frame.

    soft: friction gives way as MuJoCo's does where a file says nothing of it, as in most descriptions.
    """
    return _Writer(model, soft).text().encode()


class _Writer:
    def __init__(self, model: ExportModel, soft: bool) -> None:
        self.model, self.robot, self.soft = model, model.robot, soft
        self.springs = model.springs_of_joints()
        self.bodies = unique([xml_name(name) or "body" for name in self.robot.body_names])
        self.joints = unique([xml_name(name) or "joint" for name in self.robot.tree_joint_names])

    def text(self) -> str:
        name = quoteattr(xml_name(self.robot.name) or "robot")
        lines = [
            f"<mujoco model={name}>",
            '  <compiler angle="radian" autolimits="true" balanceinertia="false"/>',
            f'  <option gravity="{join(self.robot.gravity)}" integrator="implicitfast"/>',
            "  <worldbody>",
        ]
        for i in np.flatnonzero(self.robot.parent < 0):
            lines += self._body(int(i), 2)
        return "\n".join(
            [
                *lines,
                "  </worldbody>",
                *self._tendons(),
                *self._equalities(),
                *self._controllers(),
                "</mujoco>",
                "",
            ]
        )

    def _body(self, i: int, depth: int) -> list[str]:
        T, pad = self.robot.T_parent_joint[i], "  " * depth
        place = f'pos="{join(T[:3, 3])}" quat="{join(quaternion(T[:3, :3]))}"'
        lines = [f"{pad}<body name={quoteattr(self.bodies[i])} {place}>"]
        lines += [f"{pad}  {line}" for line in (*self._inertial(self.model.inertia[i]), self._joint(i))]
        for child in np.flatnonzero(self.robot.parent == i):
            lines += self._body(int(child), depth + 1)
        return [*lines, f"{pad}</body>"]

    def _inertial(self, pi: Float) -> list[str]:
        mass = float(pi[0])
        com = pi[1:4] / mass if mass else np.zeros(3)
        inertia = symmetric(pi[4:]) - mass * (float(com @ com) * np.eye(3) - np.outer(com, com))
        # Principal axes keep all digits; MuJoCo drops off-diagonal entries of fullinertia below 1e-12.
        moments, axes = np.linalg.eigh(inertia)
        if np.linalg.det(axes) < 0:
            axes[:, 0] *= -1
        turn = quaternion(axes)
        return [
            f'<inertial pos="{join(com)}" quat="{join(turn)}" mass="{mass!r}" diaginertia="{join(moments)}"/>'
        ]

    def _joint(self, i: int) -> str:
        robot, model = self.robot, self.model
        kind = "slide" if robot.joint_types[i] is JointType.PRISMATIC else "hinge"
        text = f'<joint name={quoteattr(self.joints[i])} type="{kind}" axis="{join(robot.axis[i])}"'
        own = robot.tree_joint_names[i]
        if own in robot.joint_names:
            j = robot.joint_names.index(own)
            bounds = robot.limits.lower[j], robot.limits.upper[j]
            if np.isfinite(bounds).all() and bounds[0] < bounds[1]:
                text += f' range="{join(bounds)}"'
            if np.isfinite(robot.limits.effort[j]):
                effort = float(robot.limits.effort[j])
                text += f' actuatorfrcrange="{-effort!r} {effort!r}"'
            for key, values in (
                ("armature", model.rotor),
                ("damping", model.viscous),
                ("frictionloss", model.coulomb),
            ):
                text += f' {key}="{float(values[j])!r}"'
            text += self._dry(float(model.coulomb[j]))
            stiffness, rest = (float(values[j]) for values in self.springs)
            if stiffness:
                text += f' stiffness="{stiffness!r}" springref="{rest!r}"'
        return text + "/>"

    def _tendons(self) -> list[str]:
        lines = [*self._motors(), *self._springs(), *self._rules()]
        return ["  <tendon>", *lines, "  </tendon>"] if lines else []

    def _fixed(self, attributes: str, weights: Float) -> list[str]:
        lines = [f"    <fixed {attributes}>"]
        for j in np.flatnonzero(weights):
            name = self.joints[self.robot.tree_joint_names.index(self.robot.joint_names[j])]
            lines.append(f'      <joint joint={quoteattr(name)} coef="{float(weights[j])!r}"/>')
        return [*lines, "    </fixed>"]

    def _springs(self) -> list[str]:
        # Over several joints.
        lines, count = [], 0
        for one in held_springs(self.model, several=True):
            if len(one.joints) > 1:
                count += 1
                # A length of -1 would mean that of the configuration at 0.
                rest = one.rest if one.rest != -1.0 else float(np.nextafter(-1.0, 0.0))
                lines += self._fixed(
                    f'name="spring{count}" stiffness="{one.stiffness!r}" springlength="{rest!r}"', one.weights
                )
        return lines

    def _motors(self) -> list[str]:
        robot, lines = self.robot, list[str]()
        for i, motor in enumerate(motors_of(self.model.mixed)[0], 1):
            # MuJoCo's mass matrix has no entry for joints of two branches.
            armature = motor.inertia if on_one_branch(robot, motor.weights) else 0.0
            lines += self._fixed(
                f'name="motor{i}" armature="{armature!r}" damping="{motor.viscous!r}"'
                f' frictionloss="{motor.coulomb!r}"{self._dry(motor.coulomb)}',
                motor.weights,
            )
        return lines

    def _dry(self, coulomb: float) -> str:
        return "" if self.soft or coulomb <= 0 else "".join(f' {key}="{x}"' for key, x in DRY.items())

    def _followers(self) -> list[tuple[int, list[int]]]:
        # Joints of the tree that follow others, with the independent ones that they follow.
        robot = self.robot
        return [
            (i, np.flatnonzero(robot.projection[i]).tolist())
            for i, name in enumerate(robot.tree_joint_names)
            if name not in robot.joint_names
        ]

    def _rules(self) -> list[str]:
        # A constraint of joints knows two of them: what follows several hangs on the length of a tendon.
        lines = []
        for i, followed in self._followers():
            if len(followed) > 1:
                lines += self._fixed(f'name="{self._rule(i)}"', self.robot.projection[i])
                lines.insert(-1, f'      <joint joint={quoteattr(self.joints[i])} coef="-1"/>')
        return lines

    def _rule(self, i: int) -> str:
        return f"rule{i + 1}"

    def _equalities(self) -> list[str]:
        robot, lines = self.robot, []
        for i, followed in self._followers():
            offset = float(robot.projection_offset[i])
            if len(followed) > 1:
                lines.append(
                    f'    <tendon tendon1="{self._rule(i)}" polycoef="{-offset!r} 0 0 0 0" {RIGID}/>'
                )
                continue
            pair, factor = f"joint1={quoteattr(self.joints[i])}", 0.0
            for j in followed:
                leader = self.joints[robot.tree_joint_names.index(robot.joint_names[j])]
                pair, factor = f"{pair} joint2={quoteattr(leader)}", float(robot.projection[i, j])
            lines.append(f'    <joint {pair} polycoef="{join([offset, factor, 0.0, 0.0, 0.0])}" {RIGID}/>')
        return ["  <equality>", *lines, "  </equality>"] if lines else []

    def _controllers(self) -> list[str]:
        servo, lines = self.robot.drive.servo, []
        if servo is None or not servo.known:
            return []
        for j, name in enumerate(self.robot.joint_names):
            joint = quoteattr(self.joints[self.robot.tree_joint_names.index(name)])
            text = f"    <position name={joint} joint={joint}"
            text += f' kp="{float(servo.kp[j])!r}" kv="{float(servo.kd[j])!r}"'
            if np.isfinite(limit := float(servo.effort_limit[j])):
                text += f' forcerange="{-limit!r} {limit!r}"'
            lines.append(text + "/>")
        return ["  <actuator>", *lines, "  </actuator>"]


def quaternion(R: Float) -> Float:
    """(w, x, y, z) of a rotation, unit length, w >= 0; the largest entry is found first, so that no digit is lost."""
    m = np.asarray(R)
    w, x, y, z = (
        1 + m[0, 0] + m[1, 1] + m[2, 2],
        1 + m[0, 0] - m[1, 1] - m[2, 2],
        1 - m[0, 0] + m[1, 1] - m[2, 2],
        1 - m[0, 0] - m[1, 1] + m[2, 2],
    )
    largest = int(np.argmax([w, x, y, z]))
    rows = np.array(
        [
            [w, m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]],
            [m[2, 1] - m[1, 2], x, m[1, 0] + m[0, 1], m[0, 2] + m[2, 0]],
            [m[0, 2] - m[2, 0], m[1, 0] + m[0, 1], y, m[2, 1] + m[1, 2]],
            [m[1, 0] - m[0, 1], m[0, 2] + m[2, 0], m[2, 1] + m[1, 2], z],
        ]
    )
    q = rows[largest] / np.linalg.norm(rows[largest])
    return np.asarray(q if q[0] >= 0 else -q)
