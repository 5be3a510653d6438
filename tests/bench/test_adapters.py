"""Every adapter keeps the contract, and a method that fails is a row with its message."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from dynid_bench.contract import AdapterContract, pendulum, pendulum_set
from dynid_bench.methods import METHODS, Method, method_named
from dynid_bench.run import row_of

from dynid.base import UsageError


class TestDynid(AdapterContract):
    method = METHODS["dynid"]


class TestLeastSquares(AdapterContract):
    method = METHODS["least-squares"]


class TestFigaroh(AdapterContract):
    method = METHODS["figaroh"]


class TestMujocoSysid(AdapterContract):
    method = METHODS["mujoco-sysid"]


class TestNeuralNet(AdapterContract):
    method = METHODS["neural-net"]


class TestGaussianProcess(AdapterContract):
    method = METHODS["gaussian-process"]


class TestRobotPayloadId(AdapterContract):
    method = METHODS["robot-payload-id"]


class TestFlobaroid(AdapterContract):
    method = METHODS["flobaroid"]


WRONG = {
    "import sys\nprint('noise', file=sys.stderr)\nraise ValueError('no fit: rank 3')\n": "ValueError: no fit: rank 3",
    "import sys\nsys.exit(3)\n": "exit code 3",
    "": "no answer: ",
    "import time\ntime.sleep(60)\n": "no result within 2 s",
    "from dynid_bench.protocol import Answer, serve\nserve(lambda task: Answer({}))\n": "no torque to score: 'same-0'",
    "from dynid_bench.protocol import *\nserve(lambda t: Answer({'same-0': t.held_out['same-0'].q[1:]}))\n": (
        "no torque to score: torque of shape"
    ),
}


@pytest.mark.parametrize(("text", "message"), WRONG.items())
def test_a_failure_is_a_row(text: str, message: str, tmp_path: Path) -> None:
    adapter = tmp_path / "mine.py"
    adapter.write_text(text)
    row = row_of(pendulum_set(), method_named(str(adapter)), tmp_path / "scratch", None, 2.0)
    assert row["message"].startswith(message)
    assert "torque" not in row or row["torque"] == {}


def test_held_out_torque_is_never_given(tmp_path: Path) -> None:
    adapter = tmp_path / "spy.py"
    adapter.write_text(
        "import sys, pathlib, numpy as np\n"
        "seen = [n for f in pathlib.Path(sys.argv[1]).rglob('held_out*.npz') for n in [np.load(f)['tau'].shape]]\n"
        "raise ValueError(str(seen))\n"
    )
    row = row_of(pendulum_set(), method_named(str(adapter)), tmp_path / "scratch", None, 60.0)
    assert row["message"] == "ValueError: [(0, 1)]"


def test_a_missing_environment_is_a_row(tmp_path: Path) -> None:
    method = Method("absent", "no such package", METHODS["dynid"].adapter, ("no-such-package",))
    row = row_of(pendulum_set(), method, tmp_path, None, 60.0)
    assert row["message"] == "not run here: no environment DYNID_BENCH_ENVS/absent with no-such-package"
    with pytest.raises(UsageError, match="did you mean 'figaroh'"):
        method_named("figaro")


def test_intervals_are_compared_between_recordings_unless_they_are_not_wanted(tmp_path: Path) -> None:
    adapter = tmp_path / "fixed.py"
    adapter.write_text(
        "from dynid_bench.protocol import Answer, serve\n"
        "def run(task):\n"
        "    torque = {name: m.q for name, m in task.held_out.items()}\n"
        "    return Answer(torque, {'a': (float(len(task.train[0].t)), 0.1), 'b': (1.0, 0.1)})\n"
        "serve(run)\n"
    )
    dataset = pendulum_set()
    recordings = [dataset.train, [pendulum(6.0, 0.5)]]
    dataset = replace(dataset, repeats=recordings)
    method = method_named(str(adapter))
    row = row_of(dataset, method, tmp_path / "with", None, 60.0)
    assert row["intervals"][0] == 0.5  # b agrees, a does not
    assert row["intervals"][2] == 2
    assert "intervals" not in row_of(dataset, method, tmp_path / "without", None, 60.0, intervals=False)
