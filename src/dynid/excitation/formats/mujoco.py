"""MuJoCo: an array ctrl of positions over time, or of torque if that is commanded, with joint names."""

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
        """Write ctrl: positions for `position` actuators, or torque for `motor` actuators, one column per joint."""
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
