"""The benchmark of estimators at a small dose: its logs, its resuming, and what Madsen's table says of filters."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import estimators as bench

METHODS = ("ols", "wls", "momentum wls", "auto wls", "default")


def test_the_default_holds_where_filters_are_loose() -> None:
    good = bench.run_log("ur5e", 0, (1, "good"), METHODS, 8.0)
    loose = bench.run_log("ur5e", 0, (10, "loose"), METHODS, 8.0)
    assert good["default"][0] <= 1.1 * min(good[m][0] for m in METHODS)
    assert loose["default"][0] < 0.2 * loose["wls"][0]
    assert loose["default"][0] <= 1.1 * loose["momentum wls"][0]
    assert all(good[m][1] for m in METHODS)


def test_results_are_kept_and_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "results.jsonl"
    known = [
        {
            "robot": "arm7",
            "seed": 0,
            "noise": noise,
            "chain": chain,
            "wls": [2.0, True, 0.1],
            "default": [1.0, chain != "over", 0.2],
        }
        for noise, chain in bench.CELLS
    ]
    out.write_text("".join(json.dumps(row) + "\n" for row in known[:-1]))
    asked = []

    def run_task(task: object, methods: object, seconds: float) -> dict[str, object]:
        asked.append(task)
        return known[-1]

    monkeypatch.setattr(bench, "run_task", run_task)
    bench.main(["--seeds=1", "--robots=arm7", "--methods=wls,default", "--workers=0", f"--out={out}"])
    assert asked == [("arm7", 0, (10, "over"))]
    assert len(out.read_text().splitlines()) == 5
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed] == ["x1", "wls", "default", "best", "default"]
    assert "1!" in printed[2]
    assert printed[4].split()[-5:] == ["1.00"] * 5


def test_logs_are_the_same_for_the_same_seed(tmp_path: Path) -> None:
    robot = bench.robot_of("ur5e")
    paths = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        paths.append(bench.log_of(tmp_path / name, robot, 3, 1, 4.0))
    assert paths[0].read_bytes() == paths[1].read_bytes()
    theta = bench.true_parameters(robot)
    motion = np.random.default_rng(0).normal(0, 1, (3, 50, 6))
    assert bench.link_error(robot, theta, theta, motion) == 0.0
    assert bench.link_error(bench.described(robot, 1), theta * 1.1, theta, motion) == pytest.approx(10.0)
