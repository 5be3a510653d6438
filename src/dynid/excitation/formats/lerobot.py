"""LeRobot: a data set 2.1 of one episode, whose actions are the planned positions.

Source: LeRobotDataset of huggingface/lerobot, codebase version 2.1.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base import UsageError
from dynid.excitation.formats.motion import Motion

VERSION = "v2.1"
TASK = "excite the arm for identification"
EPISODE = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"
# Episodes per folder, the default of LeRobot.
CHUNK = 1000
_WHOLE = 1e-6  # Hz


def write_lerobot(motion: Motion, path: Path) -> None:
    """Write the data set; its state equals its actions, the planned positions."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows, q, rate = len(motion.t), motion.q.astype(np.float32), _rate(motion)
    lines = pa.FixedSizeListArray.from_arrays(pa.array(q.ravel()), len(motion.joints))
    index = pa.array(np.arange(rows, dtype=np.int64))
    zero = pa.array(np.zeros(rows, dtype=np.int64))
    table = pa.table(
        {
            "action": lines,
            "observation.state": lines,
            "timestamp": pa.array(motion.t.astype(np.float32)),
            "frame_index": index,
            "episode_index": zero,
            "index": index,
            "task_index": zero,
        }
    )
    file = path / EPISODE.format(episode_chunk=0, episode_index=0)
    for folder in (file.parent, path / "meta"):
        folder.mkdir(parents=True)
    pq.write_table(table, file)
    meta = {
        "info.json": [json.dumps(_info(motion, rate), indent=1)],
        "tasks.jsonl": [json.dumps({"task_index": 0, "task": TASK})],
        "episodes.jsonl": [json.dumps({"episode_index": 0, "tasks": [TASK], "length": rows})],
        "episodes_stats.jsonl": [json.dumps({"episode_index": 0, "stats": _statistics(motion)})],
    }
    for name, texts in meta.items():
        (path / "meta" / name).write_text("\n".join(texts) + "\n", encoding="utf-8")


def _rate(motion: Motion) -> int:
    # The loader of data sets compares time stamps with the rate, which must be a whole number.
    rate = 1.0 / motion.step if motion.step else 1.0
    if abs(rate - round(rate)) > _WHOLE:
        raise UsageError(
            "rate", found=f"{rate:g} Hz for lerobot", expected="a whole number of frames a second"
        )
    return round(rate)


def _info(motion: Motion, rate: int) -> dict[str, Any]:
    rows = len(motion.t)
    vector = {"dtype": "float32", "shape": [len(motion.joints)], "names": list(motion.joints)}
    scalars = {"timestamp": "float32", "frame_index": "int64", "episode_index": "int64", "index": "int64"}
    return {
        "codebase_version": VERSION,
        "robot_type": None,
        "total_episodes": 1,
        "total_frames": rows,
        "total_tasks": 1,
        "total_videos": 0,
        "total_chunks": 1,
        "chunks_size": CHUNK,
        "fps": rate,
        "splits": {"train": "0:1"},
        "data_path": EPISODE,
        "video_path": None,
        "features": {"action": vector, "observation.state": vector}
        | {
            name: {"dtype": kind, "shape": [1], "names": None}
            for name, kind in (scalars | {"task_index": "int64"}).items()
        },
        "notes": list(motion.notes()),
    }


def _statistics(motion: Motion) -> dict[str, Any]:
    q = motion.q.astype(np.float32).astype(np.float64)
    values = {name: getattr(q, name)(axis=0).tolist() for name in ("min", "max", "mean", "std")}
    return {name: values | {"count": [len(q)]} for name in ("action", "observation.state")}
