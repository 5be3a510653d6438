"""JSON of episodes: lists as long as each other within each are the columns of a trajectory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynid.log import contents

LENGTHS = (60, 30, 45)


def episodes() -> list[dict[str, Any]]:
    rng = np.random.default_rng(3)
    return [
        {
            "type": "chirp",
            "targets": [0.1] * k,
            "actions": rng.normal(size=count).tolist(),
            "state": {"q": rng.normal(size=(count, 2)).tolist()},
        }
        for k, count in enumerate(LENGTHS)
    ]


@pytest.mark.parametrize("wrapped", [True, False])
def test_each_episode_is_a_trajectory(wrapped: bool, tmp_path: Path) -> None:
    made, path = episodes(), tmp_path / "log.json"
    config = {"rate_hz": 50, "joint_limits": [-0.6, 0.6]}
    path.write_text(json.dumps({"config": config, "data": made} if wrapped else made))
    found = contents(path)
    (stream,) = found.streams
    assert [one.name for one in stream.columns] == ["actions", "state.q[0]", "state.q[1]", "episode"]
    assert found.trajectory == "episode"
    read = found.read(["actions", "state.q[1]", "episode"])
    np.testing.assert_array_equal(read["actions"], np.concatenate([one["actions"] for one in made]))
    wanted = np.concatenate([np.array(one["state"]["q"])[:, 1] for one in made])
    np.testing.assert_array_equal(read["state.q[1]"], wanted)
    assert list(read["episode"]) == [str(k + 1) for k, count in enumerate(LENGTHS) for _ in range(count)]
    assert any(one.startswith("type") for one in found.left_out)
    if wrapped:
        assert found.constants["config.rate_hz"] == 50
        assert any(one.startswith("config.joint_limits = -0.6") for one in found.left_out)


def test_messages_with_long_lists_are_no_episodes(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    made = [
        {
            "stamp": 0.1 * k,
            "ranges": rng.normal(size=40).tolist(),
            "intensities": rng.normal(size=40).tolist(),
        }
        for k in range(100)
    ]
    (tmp_path / "log.json").write_text(json.dumps(made))
    found = contents(tmp_path / "log.json")
    assert found.trajectory is None
    assert len(found.streams[0].columns) == 81
