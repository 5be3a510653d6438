"""A contract test for adapters, also of other authors: derive from it in a test module and run pytest.

    class TestMine(AdapterContract):
        method = Method("mine", "my identification", Path("mine.py"), ("my-package",))

The test is skipped where the method's environment does not exist.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid_bench.bodies import Body
from dynid_bench.dataset import DataSet
from dynid_bench.methods import BEGIN, END, Method, environments_folder
from dynid_bench.protocol import Float, Motion
from dynid_bench.run import row_of

LONGEST = 150  # lines of an adapter
SECONDS = 300.0
LARGEST = 0.9  # of the torque that may be missed on a motion like the training motion


def pendulum(seconds: float, phase: float) -> Motion:
    """A pendulum of 2 kg and 0.3 m with friction, along two sines."""
    t = np.arange(0.0, seconds, 0.005)
    rate = 2 * np.pi * np.array([0.4, 1.1])
    size = np.array([0.6, 0.2])
    angle = np.outer(t, rate) + phase
    q, dq, ddq = (
        np.asarray((size * rate**k * np.sin(angle + k * np.pi / 2)).sum(axis=1)[:, None]) for k in range(3)
    )
    tau: Float = 0.2 * ddq + 2.0 * 9.81 * 0.3 * np.sin(q) + 0.3 * dq + 0.4 * np.tanh(dq / 0.02)
    return Motion(np.asarray(t, dtype=np.float64), q, tau, dq)


def pendulum_set() -> DataSet:
    """A data set of the pendulum."""
    inertia = np.array([1.5, 0.0, 0.0, -0.5, 0.25, 0.0, 0.25, 0.0, 0.0, 0.02])
    body = Body("swing", -1, False, np.eye(4), np.array([0.0, 1.0, 0.0]), inertia)
    return DataSet(
        "pendulum",
        "pendulum",
        "dynid_bench.contract",
        "Apache-2.0",
        False,
        "Two phases of one motion.",
        [body],
        None,
        8.0,
        np.array([0.0, 0.0, -9.81]),
        np.zeros((0, 1)),
        [pendulum(12.0, 0.0)],
        {"same": [pendulum(6.0, 1.0)]},
    )


def _require(kept: bool, violation: str) -> None:
    if not kept:
        raise AssertionError(violation)


class AdapterContract:
    """What the benchmark expects of an adapter.    method: to override."""

    method: Method

    def test_it_is_short(self) -> None:
        """An adapter calls its package and copies none of its code."""
        lines = len(self.method.adapter.read_text(encoding="utf-8").splitlines())
        _require(lines <= LONGEST, f"{lines} lines; at most {LONGEST}")

    def test_its_user_code_is_marked(self) -> None:
        """Lines that a user writes are between the two marks."""
        _require(self.method.lines > 0, f"no lines between '{BEGIN}' and '{END}'")

    def test_it_predicts_a_pendulum(self, tmp_path: Path) -> None:
        """It answers with torque of the right shape that is nearer to the truth than none."""
        environments = environments_folder(None)
        if self.method.python(environments) is None:
            pytest.skip("no environment of this method")
        row = row_of(pendulum_set(), self.method, tmp_path, environments, SECONDS)
        _require(not row["message"], row["message"])
        error = row["torque"]["same"]["moving"]
        _require(error < LARGEST, f"torque error {error:.3g}; less than {LARGEST} needed")
        _require(bool(row["packages"]), "no package with its version")
