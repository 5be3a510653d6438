"""The exported C code of a dozen robots: no warning, and the torque and motion that pinocchio finds."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest

from dynid.base import Float
from dynid.dynamics import Dynamics, Thresholds
from dynid.exporters import ExportModel, write_c
from dynid.exporters.model import c_identifier
from tests.dynamics.conftest import ROBOTS, agree, example, states
from tests.dynamics.test_dynamics import arm, bent, mass, rnea

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc on this machine")
FLAGS = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-Wshadow", "-O0"]


class Compiled:
    """The code of a model, called with arrays; its own test has run."""

    def __init__(self, model: Dynamics, folder: Path, thresholds: Thresholds | None = None) -> None:
        fields = {name: getattr(model, name) for name in Dynamics.__dataclass_fields__}
        code = write_c(ExportModel(**fields), "model.h", thresholds)
        (folder / "model.c").write_text(code.source)
        (folder / "model.h").write_text(code.header)
        build(folder)
        self.library, self.prefix = ctypes.CDLL(str(folder / "model.so")), c_identifier(model.robot.name)
        assert self.library.main() == 0
        self.source, self.header = code.source, code.header

    def __call__(self, name: str, sizes: tuple[int, ...], *arguments: Float | int) -> tuple[Float, ...]:
        """The arrays of some sizes that a function fills, for arrays and whole numbers that it is given."""
        found = tuple(np.zeros(size) for size in sizes)
        given = [a if isinstance(a, int) else pointer(np.ascontiguousarray(a)) for a in arguments]
        self.status = self.library[f"{self.prefix}_{name}"](*given, *map(pointer, found))
        return found


def build(folder: Path) -> None:
    """Compiles the code with its test, every warning an error."""
    command = ["gcc", *FLAGS, "-DDYNID_TEST_MAIN", "-shared", "-fPIC", "model.c", "-o", "model.so", "-lm"]
    built = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr[:2000]


def pointer(array: Float) -> object:
    return array.ctypes.data_as(ctypes.POINTER(ctypes.c_double))


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if i % 2 else []) for i, name in enumerate(ROBOTS)],
    ids=lambda name: Path(name).stem,
)
def test_it_agrees_with_pinocchio(name: str, tmp_path: Path) -> None:
    model, oracle = example(name)
    code, n, nb = Compiled(model, tmp_path), model.robot.n, model.robot.n_bodies
    point = np.array([0.1, -0.2, 0.3])
    for q, dq, ddq in zip(*states(model.robot, 2), strict=True):
        tau = rnea(oracle, q, dq, ddq)
        agree(code("inverse_dynamics", (n,), q, dq, ddq)[0], tau)
        M = mass(oracle, q)
        agree(code("mass_matrix", (n * n,), q)[0].reshape(n, n), M)
        found = code("forward_dynamics", (n,), q, dq, tau + model.friction(dq))[0]
        assert code.status == 1
        agree(found, ddq, max(1e-10, 1e-14 * float(np.linalg.cond(M))))
        full, speed, rate = oracle.motion(q, dq, ddq)
        pin.forwardKinematics(oracle.model, oracle.data, full)
        T = np.array([oracle.data.oMi[i + 1].homogeneous[:3] for i in range(nb)])
        agree(code("forward_kinematics", (12 * nb,), q)[0].reshape(nb, 3, 4), T)
        agree(code("jacobian", (6 * n,), q, nb - 1, point)[0].reshape(6, n), model.jacobian(q, -1, point))
        by_q, by_dq, _ = (
            oracle.between(np.array(one))
            for one in pin.computeRNEADerivatives(oracle.model, oracle.data, full, speed, rate)
        )
        for one, wanted in zip(
            code("inverse_dynamics_derivatives", (n * n, n * n), q, dq, ddq), (by_q, by_dq), strict=True
        ):
            agree(one.reshape(n, n), wanted)
        momentum, carried = code("momentum", (n, n), q, dq)
        C = pin.computeCoriolisMatrix(oracle.model, oracle.data, full, speed)
        agree(momentum, M @ dq)
        agree(carried, oracle.joints(C.T @ speed))


def test_its_own_test_covers_all_of_it(tmp_path: Path) -> None:
    code = Compiled(bent(), tmp_path)
    for bad in ("malloc", "#include <stdlib.h>"):
        assert bad not in code.source
    # A fault anywhere is found.
    (tmp_path / "broken").mkdir()
    broken = code.source.replace("energy -= ", "energy -= 1.001 * ", 1)
    (tmp_path / "broken" / "model.c").write_text(broken)
    (tmp_path / "broken" / "model.h").write_text(code.header)
    build(tmp_path / "broken")
    assert ctypes.CDLL(str(tmp_path / "broken" / "model.so")).main() == 1


def test_derivatives_know_a_base_that_leans(tmp_path: Path) -> None:
    model = bent()
    code, n = Compiled(model, tmp_path), model.robot.n
    (q,), (dq,), (ddq,) = states(model.robot, 1)
    by_q, by_dq, _ = model.torque_derivatives(q, dq, ddq, friction=False)
    found = code("inverse_dynamics_derivatives", (n * n, n * n), q, dq, ddq)
    agree(found[0].reshape(n, n), by_q, 1e-8)  # differences in Python
    agree(found[1].reshape(n, n), by_dq)


def test_what_no_force_can_move_is_said(tmp_path: Path) -> None:
    model = arm()
    hollow = replace(model, inertia=-np.array(model.inertia), rotor=np.zeros(model.robot.n))
    code = Compiled(hollow, tmp_path)
    q = np.zeros(model.robot.n)
    code("forward_dynamics", (model.robot.n,), q, q, q)
    assert code.status == 0
