"""What benchmarks share: campaigns that go on where they stopped, options and tables; every named script exists."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

from benchmarks.harness import append, campaign, markdown, parser, part_of, pinocchio_model, rows_of

import numpy as np
import pinocchio as pin
import pytest

from dynid.kernel import inverse_dynamics
from dynid.robot import load_example
from dynid.testing.machines import MACHINES

ROOT = Path(__file__).resolve().parents[1]
NAMED = re.compile(r"benchmarks/(\w+\.py)")
PLACES = (
    "README.md",
    "CONTRIBUTING.md",
    "docs/**/*.md",
    "src/**/*.py",
    "studies/**/*.py",
    "bench/**/*.py",
    "benchmarks/*.py",
    ".ci/*",
)


def given(**options: Any) -> argparse.Namespace:
    return argparse.Namespace(**{"out": None} | options)


def squared(number: int) -> dict[str, Any]:
    return {"number": number, "square": number**2}


def test_a_campaign_repeats_nothing_that_is_in_its_file(tmp_path: Path) -> None:
    out, ran, shown = tmp_path / "rows.jsonl", [], []
    append(out, {"number": 2, "square": -1})

    def work(number: int) -> dict[str, Any]:
        ran.append(number)
        return squared(number)

    jobs = {number: number for number in (1, 2, 3)}
    rows = campaign(jobs, work, lambda row: row["number"], given(out=out), shown.append)
    assert ran == [1, 3]
    assert [row["square"] for row in rows] == [1, -1, 9]
    assert [row["number"] for row in shown] == [1, 3]
    assert [row["number"] for row in rows_of(out)] == [2, 1, 3]
    campaign(jobs, work, lambda row: row["number"], given(out=out))
    assert ran == [1, 3]


def test_parts_of_a_campaign_share_its_jobs(tmp_path: Path) -> None:
    jobs, out = {number: number for number in range(5)}, tmp_path / "rows.jsonl"
    first = campaign(jobs, squared, lambda row: row["number"], given(out=out, part="1/2"))
    assert [row["number"] for row in first] == [0, 2, 4]
    both = campaign(jobs, squared, lambda row: row["number"], given(out=out, part="2/2"))
    assert [row["number"] for row in both] == [0, 1, 2, 3, 4]
    assert sorted(part_of("abcdef", "2/3") + part_of("abcdef", "1/3") + part_of("abcdef", "3/3")) == [
        *"abcdef"
    ]


def test_processes_give_the_rows_of_one() -> None:
    jobs = {number: number for number in range(4)}
    alone = campaign(jobs, squared, lambda row: row["number"], given())
    assert campaign(jobs, squared, lambda row: row["number"], given(workers=2)) == alone


def test_options_take_their_types_from_their_defaults() -> None:
    options = parser("text", seeds=2, share=0.5, out=Path, bare=False, minutes=[1.0], name="")
    chosen = options.parse_args(["--seeds", "3", "--minutes", "2", "60", "--bare"])
    assert (chosen.seeds, chosen.share, chosen.out, chosen.bare, chosen.name) == (3, 0.5, None, True, "")
    assert chosen.minutes == [2.0, 60.0]
    assert options.parse_args(["--out", "x"]).out == Path("x")


def test_a_table_has_a_line_a_row() -> None:
    assert markdown(("a", "b"), [(1, "x"), (2, "y")]).splitlines() == [
        "| a | b |",
        "|---|---|",
        "| 1 | x |",
        "| 2 | y |",
    ]


@pytest.mark.parametrize("name", ["arm7", "polar"])
def test_pinocchio_has_the_same_arm(name: str) -> None:
    robot = MACHINES[name].robot if name in MACHINES else load_example(name)
    model = pinocchio_model(robot)
    data = model.createData()
    q, dq, ddq = np.random.default_rng(0).normal(size=(3, 5, robot.n))
    torque = [pin.rnea(model, data, *state) for state in zip(q, dq, ddq, strict=True)]
    np.testing.assert_allclose(
        inverse_dynamics(robot.tree, robot.inertia_prior, q, dq, ddq), torque, atol=1e-9
    )


def test_scripts_that_pages_and_comments_name_exist() -> None:
    files = [path for place in PLACES for path in ROOT.glob(place) if path.is_file()]
    named = {
        (path.name, script) for path in files for script in NAMED.findall(path.read_text(encoding="utf-8"))
    }
    assert len(named) > 20
    assert [pair for pair in sorted(named) if not (ROOT / "benchmarks" / pair[1]).is_file()] == []
