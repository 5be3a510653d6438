"""Every adapter keeps the contract, and a method that fails is a row with its message."""

from __future__ import annotations

import runpy
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dynid_bench.bodies import write_urdf
from dynid_bench.contract import AdapterContract, pendulum, pendulum_set
from dynid_bench.methods import METHODS, Method, method_named
from dynid_bench.protocol import States, Task
from dynid_bench.run import row_of

from dynid.base import UsageError
from tests.bench.published import packages


class TestAdapters(AdapterContract):
    @pytest.fixture(autouse=True, params=METHODS.values(), ids=METHODS)
    def each(self, request: pytest.FixtureRequest) -> None:
        self.method = request.param


@pytest.mark.parametrize("name", ["robot-payload-id", "flobaroid"])
def test_packages_that_are_not_run_here_are_called_as_published(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, stand_in in packages(tmp_path).items():
        monkeypatch.setitem(sys.modules, module, stand_in)
    monkeypatch.setattr(sys, "argv", ["adapter", str(tmp_path), str(tmp_path)])
    train, held_out = (two_pendulums(seconds, phase) for seconds, phase in ((12.0, 0.0), (6.0, 1.0)))
    body = pendulum_set().bodies[0]
    bodies = [body, replace(body, joint="second", parent=0)]
    robot = write_urdf(tmp_path / "robot.urdf", bodies)
    unseen = {"same-0": replace(held_out, tau=np.zeros((0, 2)))}
    task = Task("two", [body.joint for body in bodies], robot, robot, [], [train, train], unseen)
    answer = runpy.run_path(str(METHODS[name].adapter))["run"](task)
    assert np.allclose(answer.torque["same-0"], held_out.tau, atol=1e-3 * np.abs(held_out.tau).max())


def two_pendulums(seconds: float, phase: float) -> States:
    motions = [pendulum(seconds, phase + shift) for shift in (0.0, 0.8)]
    q, dq, tau = (np.hstack([getattr(m, name) for m in motions]) for name in ("q", "dq", "tau"))
    # The second has other friction and inertia, so that exchanged joints show.
    ddq = (tau - 2.0 * 9.81 * 0.3 * np.sin(q) - 0.3 * dq - 0.4 * np.tanh(dq / 0.02)) / 0.2
    tau[:, 1] += 0.5 * ddq[:, 1] + 0.2 * dq[:, 1]
    return States(motions[0].t, q, dq, ddq, tau)


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
