"""Servo arms in MuJoCo with play, late commands and encoders of 12 bits at 50 Hz: plants that dynid does not model.

Each drive closes its loop on board, on its own encoder. Where there is play, motor and link are two bodies that touch
at its ends: armature and friction are the motor's, and the encoder reads the motor's side or the link's. MuJoCo's
friction is made dry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dynid.base import Bool, Float
from dynid.robot import RobotModel, ServoSettings, load_robot

# s: of simulation, of the drives' controllers, of commands and log, and from the computer to the servo.
STEP, TICK, ROW, BUS = 2e-4, 1e-3, 0.02, 0.015
# rad, of the encoders.
COUNT = 2.0 * np.pi / 4096
# Of MuJoCo's friction and of the play's ends, which are to be hard: time constant in s, impedance.
HARD_TIME, HARD = 5e-4, 0.998
SIDES = ("motor", "link")
# s: of a move between pauses, and in which it comes to its pace and leaves it.
MOVE, EASE = 1.5, 0.2
# m: a link's centre beside its axis; its inertia along it, of that across it.
ASIDE, SLIM = 0.005, 0.3


@dataclass(frozen=True, eq=False)
class Arm:
    """A chain of links: masses, lengths, which axes are vertical, and what its drives have, (n,) each."""

    mass: Float
    length: Float
    upright: Bool
    armature: Float
    damping: Float
    friction: Float
    kp: Float
    kd: Float

    @property
    def n(self) -> int:
        """Number of joints."""
        return len(self.mass)

    @staticmethod
    def random(seed: int) -> Arm:
        """Two to four joints of a hobby arm's size; the first may turn about the vertical."""
        rng = np.random.default_rng([seed, 11])
        n = int(rng.integers(2, 5))
        upright = np.zeros(n, dtype=np.bool_)
        upright[0] = rng.random() < 0.5
        strength = np.linspace(1.0, 0.4, n) * rng.uniform(0.8, 1.2, n)
        return Arm(
            mass=rng.uniform(0.1, 0.3, n),
            length=rng.uniform(0.08, 0.15, n),
            upright=upright,
            armature=0.025 * strength * rng.uniform(0.7, 1.3, n),
            damping=0.3 * strength * rng.uniform(0.7, 1.3, n),
            friction=0.15 * strength * rng.uniform(0.7, 1.3, n),
            kp=14.0 * strength,
            kd=0.35 * strength,
        )

    @property
    def own_inertia(self) -> Float:
        """Of the links about their centres, across them, (n,)."""
        return np.asarray(self.mass * self.length**2 / 12.0 + 1e-5)

    def mjcf(self, play: float = 0.0, true: bool = False) -> str:
        """The arm as MJCF; with play (rad) between every motor and its link, of their own bodies.

        Armature and friction are left out where it is not to be the `true` arm: they are not in a description.
        """
        body, tendons = "", ""
        for j in range(self.n):
            axis, at = ("0 0 1", 0.03) if self.upright[j] else ("0 1 0", self.length[j - 1] if j else 0.05)
            m, half, I = self.mass[j], 0.5 * self.length[j], self.own_inertia[j]
            own = (
                f'armature="{self.armature[j]}" damping="{self.damping[j]}" frictionloss="{self.friction[j]}"'
            )
            of_link = own if true and not play else ""
            if play > 0:
                body += (
                    f'<body name="case{j}" pos="0 0 {at}">'
                    '<inertial pos="0 0 0" mass="1e-6" diaginertia="1e-9 1e-9 1e-9"/>'
                    f'<joint name="motor{j}" axis="{axis}" {own}/></body>'
                )
                tendons += (
                    f'<fixed limited="true" range="{-play / 2} {play / 2}" solreflimit="{2 * HARD_TIME} 1" '
                    f'solimplimit="{HARD} {HARD} 0.001"><joint joint="motor{j}" coef="1"/>'
                    f'<joint joint="joint{j}" coef="-1"/></fixed>'
                )
            body += (
                f'<body name="link{j}" pos="0 0 {at}">'
                f'<inertial pos="{ASIDE} 0 {half}" mass="{m}" diaginertia="{I} {I} {SLIM * I}"/>'
                f'<joint name="joint{j}" axis="{axis}" range="-2 2" {of_link}/>'
            )
        return (
            f'<mujoco model="arm"><compiler angle="radian"/><option timestep="{STEP}" integrator="implicitfast">'
            f'<flag contact="disable"/></option><worldbody>{body}{"</body>" * self.n}</worldbody>'
            f"<tendon>{tendons}</tendon></mujoco>"
        )

    def robot(self, folder: Path) -> RobotModel:
        """The description, with gains and a loop on board; the delay is not known."""
        path = folder / "arm.xml"
        path.write_text(self.mjcf())
        servo = ServoSettings(kp=tuple(self.kp), kd=tuple(self.kd), loop="drive")
        return load_robot(path).with_servo(servo)

    def parameters(self, names: Sequence[str]) -> Float:
        """The true parameters under the names of an estimate, zero for those that the arm does not have."""
        found: dict[str, float] = {}
        for j in range(self.n):
            k, m, x, z, I = j + 1, self.mass[j], ASIDE, 0.5 * self.length[j], self.own_inertia[j]
            found |= {f"m{k}": m, f"mcx{k}": m * x, f"mcz{k}": m * z, f"Ixz{k}": -m * x * z}
            found |= {
                f"Ixx{k}": I + m * z * z,
                f"Iyy{k}": I + m * (x * x + z * z),
                f"Izz{k}": SLIM * I + m * x * x,
            }
            found |= {f"Ia{k}": self.armature[j], f"fv{k}": self.damping[j], f"fc{k}": self.friction[j]}
        return np.array([found.get(name, 0.0) for name in names])


def _with_pauses(t: Float, pause: float) -> Float:
    """Times (T,) that go on with `t` in moves, and stand in the pauses between them."""
    phase = t % (MOVE + pause)
    pace = np.clip(np.minimum(phase, MOVE - phase) / EASE, 0.0, 1.0)
    return np.asarray(np.cumsum(pace * np.diff(t, prepend=0.0)))


def recorded(
    arm: Arm,
    seconds: float,
    seed: int,
    play: float = 0.0,
    side: str = "motor",
    still: Sequence[int] = (),
    pause: float = 0.0,
) -> tuple[Float, Float, Float]:
    """Times (T,), measured and commanded positions (T, n).

    play: rad, in all.    side: of the play that encoders and controllers read.    still: joints told to stand.
    pause: s, for which all joints stand after every `MOVE`.
    """
    import mujoco

    model, rng, n = (
        mujoco.MjModel.from_xml_string(arm.mjcf(play, true=True)),
        np.random.default_rng(seed),
        arm.n,
    )
    links = np.array([model.joint(f"joint{j}").qposadr[0] for j in range(n)])
    motors = np.array([model.joint(f"motor{j}").qposadr[0] for j in range(n)]) if play > 0 else links
    model.dof_solref[:], model.dof_solimp[:, :2] = (HARD_TIME, 1.0), HARD
    data, read = mujoco.MjData(model), motors if side == "motor" else links
    t = ROW * np.arange(round(seconds / ROW))
    hertz, phase = rng.uniform(0.05, 1.2, (6, n)), rng.uniform(0, 2 * np.pi, (6, n))
    along = _with_pauses(t, pause)[:, None, None] if pause else t[:, None, None]
    waves = np.sin(2 * np.pi * hertz * along + phase) / np.sqrt(1 + (hertz / 0.4) ** 2)
    wanted = np.round(0.3 * (waves - waves[0]).sum(axis=1) / COUNT) * COUNT
    wanted[:, list(still)] = 0.0
    measured, on_the_way = np.zeros_like(wanted), [np.zeros(n)] * round(BUS / TICK)
    zero = rng.uniform(0.0, 1.0, n)

    def reading() -> Float:
        return np.asarray((np.round(data.qpos[read] / COUNT + zero) - zero) * COUNT)

    for row, command in enumerate(wanted):
        measured[row] = reading()
        for _ in range(round(ROW / TICK)):
            on_the_way.append(command)
            data.qfrc_applied[motors] = arm.kp * (on_the_way.pop(0) - reading()) - arm.kd * data.qvel[read]
            mujoco.mj_step(model, data, nstep=round(TICK / STEP))
    return t, measured, wanted
