"""Motions as tables of numbers: CSV, Parquet, MuJoCo, libfranka and KUKA FRI."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dynid.base import Float
from dynid.excitation.formats.motion import Motion, commented
from dynid.log import canonical_columns, write_log


def columns(motion: Motion) -> dict[str, Float]:
    """Columns of a table; commanded torque is among them, for `open-loop:` and torque controllers."""
    named = canonical_columns(motion.joints, motion.q, motion.dq, motion.torque)
    return named | {f"ddq_{name}": motion.ddq[:, j] for j, name in enumerate(motion.joints)}


def write_csv(motion: Motion, path: Path) -> None:
    """Write the table; a comment precedes the header only if something could not be checked."""
    write_log(path, motion.t, columns(motion))
    if motion.headline:
        path.write_text(commented([motion.headline]) + path.read_text(encoding="utf-8"), encoding="utf-8")


def write_parquet(motion: Motion, path: Path) -> None:
    """Write the table; its metadata contain notes, and not_checked if something could not be checked."""
    warned = {"not_checked": motion.headline} if motion.headline else {}
    write_log(path, motion.t, columns(motion), metadata=warned | {"notes": "\n".join(motion.notes())})


def write_mujoco(motion: Motion, path: Path) -> None:
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


def write_libfranka(motion: Motion, path: Path) -> None:
    """Write rows with twelve digits, and notes in a second file, since the rows have no place for them."""
    table = np.concatenate([motion.t[:, None], motion.q, motion.dq, motion.ddq], axis=1)
    path.write_text("".join(",".join(f"{x:.12g}" for x in row) + "\n" for row in table), encoding="utf-8")
    notes = ("columns: t, q, dq, ddq of each joint", *motion.notes())
    path.with_suffix(".txt").write_text("\n".join(notes) + "\n", encoding="utf-8")


def write_kuka_fri(motion: Motion, path: Path) -> None:
    """Write positions with twelve digits, and notes in a second file, since the rows have no place for them."""
    path.write_text("".join(",".join(f"{x:.12g}" for x in row) + "\n" for row in motion.q), encoding="utf-8")
    notes = ("columns: position of each joint, rad, a row a millisecond", *motion.notes())
    path.with_suffix(".txt").write_text("\n".join(notes) + "\n", encoding="utf-8")
