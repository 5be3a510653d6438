"""A log of a simulated arm whose plant the model does not describe: MuJoCo, elastic joints, dry friction, ripple."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

from dynid.base import Float

STEP = 1e-3
SECONDS = 24.0
GEAR_TEETH = 60.0
FRICTION = np.array([2.0, 1.5, 0.5])
XML = """<mujoco><option timestep="0.001" gravity="0 0 -9.81" integrator="implicitfast"/>
<default><joint damping="1.5" limited="false"/><geom type="capsule" contype="0" conaffinity="0"
 density="900"/></default>
<worldbody>
<body pos="0 0 0.3"><joint name="a" axis="0 0 1"/><geom fromto="0 0 0 0 0 0.2" size="0.06"/>
 <body pos="0 0 0.2"><joint name="b" axis="0 1 0"/><geom fromto="0 0 0 0.4 0 0" size="0.05"/>
  <body pos="0.4 0 0"><joint name="c" axis="0 1 0"/><geom fromto="0 0 0 0.3 0 0" size="0.04"/></body>
 </body></body></worldbody></mujoco>"""
ROBOT = """\
name = "arm"
gravity = [0.0, 0.0, -9.81]
convention = "placements"
[[joint]]
name = "a"
type = "revolute"
xyz = [0.0, 0.0, 0.3]
axis = [0.0, 0.0, 1.0]
[[joint]]
name = "b"
type = "revolute"
xyz = [0.0, 0.0, 0.2]
axis = [0.0, 1.0, 0.0]
[[joint]]
name = "c"
type = "revolute"
xyz = [0.4, 0.0, 0.0]
axis = [0.0, 1.0, 0.0]
"""


@dataclass(frozen=True)
class Run:
    """True motion and torque (T, n) at 1 kHz."""

    t: Float
    q: Float
    dq: Float
    ddq: Float
    tau: Float


def simulate(fastest: float, seed: int = 0) -> Run:
    """The arm on a multisine with lines up to `fastest` Hz; torque as its drives give it.

    What the model lacks: friction that grows as the joint moves off (Dahl, exact solution a step) and torque ripple
    of the gear.
    """
    model = mujoco.MjModel.from_xml_string(XML)
    data = mujoco.MjData(model)
    rng = np.random.default_rng(seed)
    t = np.arange(0.0, SECONDS, STEP)
    lines = np.arange(1, int(fastest / 0.1) + 1) * 0.1
    lines = rng.permutation(lines)[:6] if len(lines) > 6 else lines
    lines[0] = fastest
    w = 2 * np.pi * lines
    size = rng.uniform(0.5, 1.0, (3, len(w))) * 3.0 / np.maximum(w, 1.0) ** 1.5 / np.sqrt(len(w))
    phase = rng.uniform(0, 2 * np.pi, (3, len(w)))
    angle = w[:, None] * t + phase[:, :, None]
    q = (size[:, :, None] * np.sin(angle)).sum(axis=1).T
    dq = (size[:, :, None] * w[:, None] * np.cos(angle)).sum(axis=1).T
    ddq = -(size[:, :, None] * (w**2)[:, None] * np.sin(angle)).sum(axis=1).T
    tau, bristle = np.zeros_like(q), np.zeros(3)
    for k in range(len(t)):
        data.qpos[:], data.qvel[:], data.qacc[:] = q[k], dq[k], ddq[k]
        mujoco.mj_inverse(model, data)
        way = dq[k] * STEP / 0.004
        bristle = np.sign(way) + (bristle - np.sign(way)) * np.exp(-np.abs(way))
        ripple = 0.3 * FRICTION * np.sin(GEAR_TEETH * q[k])
        tau[k] = data.qfrc_inverse + FRICTION * bristle + ripple
    return Run(t, q, dq, ddq, tau)
