"""Robots with closed loops in MuJoCo: consistent motion, and the torque of the motors that makes it.

Constraint forces are eliminated: with x the coordinates of the tree and G = dx/dq along the loop, the motors' torque
is that which does the work of the tree's forces, G' (M a + c) = (G' S') tau. Neither linkages nor terms of dynid take
part in it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dynid.base import Float

# A thigh and shin: a crank at the hip pulls the shin by a rod.
KNEE = """<mujoco model="leg"><option gravity="0 0 -9.81"/>
<compiler angle="radian"/>
<worldbody><body name="thigh">
  <joint name="hip" axis="0 1 0" range="-1.2 1.2" limited="true"/>
  <inertial pos="0.01 0.02 -0.07" mass="1.4" diaginertia="0.0043 0.0042 0.001"/>
  <body name="shin" pos="0 0 -0.21">
    <joint name="knee" axis="0 1 0" range="-2.4 -0.7" limited="true"/>
    <inertial pos="0.004 0 -0.1" mass="0.3" diaginertia="0.0014 0.0014 0.0001"/>
    <site name="rocker" pos="{rocker}"/>
  </body>
  <body name="crank"><joint name="crank" axis="0 1 0" armature="{rotor}"/>
    <inertial pos="0 0 0" mass="0.002" diaginertia="1e-9 1e-9 1e-9"/>
    <body name="rod" pos="{crank}"><joint name="rod" axis="0 1 0"/>
      <inertial pos="0 0 -0.1" mass="{mass}" diaginertia="1e-9 1e-9 1e-9"/>
      <site name="tip" pos="0 0 -0.212"/></body>
  </body>
</body></worldbody>
<equality><connect site1="tip" site2="rocker"/></equality>
<actuator><motor name="hip" joint="hip"/><motor name="knee" joint="crank"/></actuator>
</mujoco>"""

# A shin and a foot on an ankle that two rods from cranks on the shin move.
ANKLE = """<mujoco model="leg"><option gravity="0 0 -9.81"/>
<compiler angle="radian"/>
<worldbody><body name="shin">
  <joint name="knee" axis="0 1 0" range="-1 1" limited="true"/>
  <inertial pos="0 0.01 -0.15" mass="2" diaginertia="0.02 0.02 0.003"/>
  <body name="ankle" pos="0 0 -0.3">
    <joint name="ankle_pitch" axis="0 1 0" range="-0.6 0.45" limited="true"/>
    <inertial pos="0 0 0" mass="0.05" diaginertia="1e-5 1e-5 1e-5"/>
    <body name="foot" pos="0 0 -0.01">
      <joint name="ankle_roll" axis="1 0 0" range="-0.25 0.25" limited="true"/>
      <inertial pos="0.04 0 -0.03" mass="1" diaginertia="0.001 0.004 0.004"/>
    </body>
  </body>
  <body name="left_crank" pos="-0.01 0.03 -0.09"><joint name="left_motor" axis="0 1 0" armature="{rotor}"/>
    <inertial pos="0 0 0" mass="0.002" diaginertia="1e-9 1e-9 1e-9"/>
    <body name="left_rod" pos="-0.04 0.005 0.003">
      <joint name="left_swing" axis="0 1 0"/><joint name="left_lean" axis="1 0 0"/>
      <inertial pos="0 0 -0.1" mass="{mass}" diaginertia="1e-9 1e-9 1e-9"/></body>
  </body>
  <body name="right_crank" pos="-0.01 -0.03 -0.15"><joint name="right_motor" axis="0 1 0" armature="{rotor}"/>
    <inertial pos="0 0 0" mass="0.002" diaginertia="1e-9 1e-9 1e-9"/>
    <body name="right_rod" pos="-0.04 -0.005 0.003">
      <joint name="right_swing" axis="0 1 0"/><joint name="right_lean" axis="1 0 0"/>
      <inertial pos="0 0 -0.07" mass="{mass}" diaginertia="1e-9 1e-9 1e-9"/></body>
  </body>
</body></worldbody>
<equality>
  <connect body1="left_rod" body2="foot" anchor="0 -0.005 -0.183"/>
  <connect body1="right_rod" body2="foot" anchor="0 0.005 -0.123"/>
</equality>
<actuator><motor name="knee" joint="knee"/><motor name="left" joint="left_motor"/>
  <motor name="right" joint="right_motor"/></actuator>
</mujoco>"""


def ankle(mass: float = 0.0, rotor: float = 0.004) -> str:
    """MJCF of the leg with two rods of some mass (kg) at the ankle."""
    return ANKLE.format(mass=max(mass, 1e-9), rotor=rotor)


# A four-bar knee that closes between -2.5 and -0.6 rad, not at 0: bars (m), and the rocker's angle at q = 0 (rad).
BARS = {"ground": 0.21, "crank": 0.034, "coupler": 0.212, "rocker": 0.04, "zero": 3.05}
# Angle of the crank against the line to the knee when its joint in MuJoCo is at 0.
CRANK_AT_ZERO = 1.5


def knee(mass: float = 0.0, rotor: float = 0.012) -> str:
    """MJCF of the leg with a four-bar knee whose rod has some mass (kg)."""
    crank, rocker = (
        f"{-length * np.sin(angle):.12f} 0 {-length * np.cos(angle):.12f}"
        for length, angle in ((BARS["crank"], CRANK_AT_ZERO), (BARS["rocker"], BARS["zero"]))
    )
    return KNEE.format(mass=max(mass, 1e-9), rotor=rotor, crank=crank, rocker=rocker)


class LoopPlant:
    """A robot of MJCF whose loops are closed exactly.

    joints: independent coordinates.    motors: joints with a motor.    start: independent positions that close.
    """

    def __init__(
        self, text: str, joints: list[str], motors: list[str], start: dict[str, float] | None = None
    ) -> None:
        import mujoco

        self.mujoco, self.model = mujoco, mujoco.MjModel.from_xml_string(text)
        self.data = mujoco.MjData(self.model)
        self.model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_EQUALITY
        self.model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
        self.model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_LIMIT
        self.model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_FRICTIONLOSS
        self.free = [self._dof(name) for name in joints]
        self.motors = [self._dof(name) for name in motors]
        self.passive = [i for i in range(self.model.nv) if i not in self.free]
        self.x = np.array(self.model.qpos0)
        self.places = [int(self.model.joint(name).qposadr[0]) for name in joints]
        for name, position in (start or {}).items():
            self.x[int(self.model.joint(name).qposadr[0])] = position
        self.x = self._newton(self.x)

    def _dof(self, name: str) -> int:
        joint = self.mujoco.mj_name2id(self.model, self.mujoco.mjtObj.mjOBJ_JOINT, name)
        return int(self.model.jnt_dofadr[joint])

    def loop(self, x: Float) -> tuple[Float, Float]:
        """Gaps of the loops and their Jacobian."""
        m, d = self.model, self.data
        d.qpos[:] = x
        self.mujoco.mj_kinematics(m, d)
        self.mujoco.mj_comPos(m, d)
        gaps, rows = [], []
        for e in range(m.neq):
            points = []
            ends = (m.eq_obj1id[e], m.eq_data[e, :3]), (m.eq_obj2id[e], m.eq_data[e, 3:6])
            if m.eq_objtype[e] == self.mujoco.mjtObj.mjOBJ_SITE:
                ends = tuple((m.site_bodyid[site], m.site_pos[site]) for site, _ in ends)
            for body, anchor in ends:
                point = d.xpos[body] + d.xmat[body].reshape(3, 3) @ anchor
                J = np.zeros((3, m.nv))
                self.mujoco.mj_jac(m, d, J, None, point, body)
                points.append((point, J))
            gaps.append(points[0][0] - points[1][0])
            rows.append(points[0][1] - points[1][1])
        return np.concatenate(gaps), np.vstack(rows)

    def closed(self, q: Float) -> Float:
        """Coordinates of the tree at independent positions, from the last ones."""
        x = np.array(self.x)
        start = x[self.places]
        steps = int(np.ceil(np.abs(q - start).max() / 0.05))
        for step in range(1, steps + 1):
            x[self.places] = start + (step / steps) * (q - start)
            x = self._newton(x)
        x[self.places] = q
        self.x = self._newton(x)
        return np.array(self.x)

    def _newton(self, x: Float) -> Float:
        for _ in range(30):
            gap, J = self.loop(x)
            if np.abs(gap).max() < 1e-14:
                break
            step = np.zeros(self.model.nv)
            step[self.passive] = -np.linalg.lstsq(J[:, self.passive], gap, rcond=1e-9)[0]
            self.mujoco.mj_integratePos(self.model, x, step, 1.0)
        assert np.abs(gap).max() < 1e-11
        return x

    def motion(self, x: Float, dq: Float, ddq: Float) -> tuple[Float, Float, Float]:
        """G, velocity and acceleration of the tree."""
        G = self._slope(x)
        v, h = G @ dq, 1e-5
        moved = []
        for side in (1.0, -1.0):
            place = np.array(x)
            self.mujoco.mj_integratePos(self.model, place, side * h * v, 1.0)
            moved.append(self.loop(place)[1])
        drift = (moved[0] - moved[1]) / (2 * h) @ v
        J = self.loop(x)[1]
        a = G @ ddq
        a[self.passive] += np.linalg.lstsq(J[:, self.passive], -drift, rcond=1e-9)[0]
        return G, v, a

    def _slope(self, x: Float) -> Float:
        J = self.loop(x)[1]
        G = np.zeros((self.model.nv, len(self.free)))
        G[self.free] = np.eye(len(self.free))
        G[self.passive] = np.linalg.lstsq(J[:, self.passive], -J[:, self.free], rcond=1e-9)[0]
        return G

    def torque(
        self, q: Float, dq: Float, ddq: Float, viscous: Float | None = None, coulomb: Float | None = None
    ) -> tuple[Float, Float]:
        """Torque of the motors, and their positions, (T, m) each."""
        torques, positions = [], []
        for sample in zip(q, dq, ddq, strict=True):
            x = self.closed(sample[0])
            G, v, a = self.motion(x, sample[1], sample[2])
            self.data.qpos[:], self.data.qvel[:], self.data.qacc[:] = x, v, a
            self.mujoco.mj_inverse(self.model, self.data)
            S = np.zeros((len(self.motors), self.model.nv))
            S[np.arange(len(self.motors)), self.motors] = 1.0
            tau = np.linalg.solve(G.T @ S.T, G.T @ self.data.qfrc_inverse)
            speed = v[self.motors]
            if viscous is not None and coulomb is not None:
                tau = tau + viscous * speed + coulomb * np.sign(speed)
            torques.append(tau)
            positions.append(x[self.model.jnt_qposadr[self.model.dof_jntid[self.motors]]])
        return np.array(torques), np.array(positions)


def swing(
    t: Float, middle: Float, size: Float, seed: int, low: float = 0.2, high: float = 1.1
) -> tuple[Float, ...]:
    """Position, velocity and acceleration (T, n): sums of six sines around a middle that stay within a size."""
    rng = np.random.default_rng(seed)
    n = len(middle)
    rate, phase = 2 * np.pi * rng.uniform(low, high, (6, n)), rng.uniform(0, 2 * np.pi, (6, n))
    share = rng.uniform(0.5, 1.0, (6, n))
    share *= size / share.sum(axis=0)
    angle = rate * t[:, None, None] + phase
    q = middle + (share * np.sin(angle)).sum(axis=1)
    dq = (share * rate * np.cos(angle)).sum(axis=1)
    return q, dq, -(share * rate**2 * np.sin(angle)).sum(axis=1)


def write_csv(path: Path, t: Float, **columns: Any) -> Path:
    """Log of columns name = values."""
    table = np.column_stack([t, *columns.values()])
    np.savetxt(path, table, delimiter=",", header=",".join(["t", *columns]), comments="", fmt="%.9g")
    return path
