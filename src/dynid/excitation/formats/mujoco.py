"""MuJoCo: positions for actuators, an array of ctrl by time, named by joint; torque where that is commanded."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dynid.base import dataclass
from dynid.excitation.formats.motion import Motion


@dataclass(frozen=True)
class Mujoco:
    """An .npz without pickled objects: t (T,), ctrl, qpos, qvel (T, n), joints, kind, notes."""

    name: str = "mujoco_ctrl.npz"
    joints: tuple[int, ...] = ()
    rate: float | None = None
    torque: bool = True

    def write(self, motion: Motion, path: Path) -> None:
        """Ctrl: positions of `position` actuators, or torque of `motor` actuators, a column a joint, by its name."""
        tau = motion.torque
        with path.open("wb") as file:
            np.savez_compressed(
                file,
                t=motion.t,
                ctrl=motion.q if tau is None else tau,
                qpos=motion.q,
                qvel=motion.dq,
                joints=np.array(motion.joints),
                kind=np.array("position" if tau is None else "motor"),
                notes=np.array(motion.notes()),
            )


FORMAT = Mujoco()
