"""Which kernel runs: by default, by `using`, by the environment, in threads."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from dynid.base import UsageError, ordered_map
from dynid.kernel import Tree, backend, factor_torque, torque_regressor, using
from dynid.testing import random_motion, random_tree
from tests.kernels import native_is_built

NATIVE = native_is_built()
needs_native = pytest.mark.skipif(not NATIVE, reason="the native kernel was not built")


def test_using_is_undone_at_the_end() -> None:
    before = backend()
    with using("numpy"):
        assert backend() == "numpy"
    with pytest.raises(RuntimeError, match="inside"), using("numpy"):
        raise RuntimeError("inside")
    assert backend() == before


def test_unknown_kernels_are_refused() -> None:
    with pytest.raises(UsageError, match="fortran"), using("fortran"):
        pass


def test_threads_of_a_map_use_the_chosen_kernel() -> None:
    with using("numpy"):
        assert set(ordered_map(lambda _: backend(), range(8), 3)) == {"numpy"}


@pytest.mark.parametrize("wanted", ["numpy", ""])
def test_environment(wanted: str) -> None:
    code = "from dynid.kernel import backend; print(backend())"
    found = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"DYNID_KERNEL": wanted},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    assert found.startswith("native") if NATIVE and not wanted else found == "numpy"


@needs_native
def test_both_kernels_agree() -> None:
    tree, (q, dq, ddq) = random_tree(8, 7, 0.3), random_motion(1, 500, 7)
    tau = np.random.default_rng(0).normal(0, 1, (500, 7))
    found = {}
    for name in ("numpy", "native"):
        with using(name):
            Y = torque_regressor(tree, q, dq, ddq).dense(70)
            found[name] = Y, factor_torque(tree, q, dq, ddq, tau, method="gram")
    assert np.abs(found["numpy"][0] - found["native"][0]).max() < 1e-12 * np.abs(found["numpy"][0]).max()
    for a, b in zip(found["numpy"][1], found["native"][1], strict=True):
        assert np.abs(a - b).max() < 1e-12 * np.abs(a).max()


def test_trees_that_are_none_are_refused() -> None:
    good = random_tree(1, 3)
    parts = (good.prismatic, good.axis, good.rotation, good.translation, good.gravity)
    for parent in ([-1, 2, 1], [0, 0, 1], [-1, 0, -2]):
        with pytest.raises(UsageError, match="tree-order"):
            Tree(np.array(parent), *parts)
    with pytest.raises(UsageError, match="tree-axis"):
        Tree(good.parent, good.prismatic, 1.1 * good.axis, good.rotation, good.translation, good.gravity)
    with pytest.raises(UsageError, match="array-shape"):
        Tree(good.parent, good.prismatic, good.axis[:2], good.rotation, good.translation, good.gravity)


def test_trees_are_locked() -> None:
    tree = random_tree(1, 3)
    with pytest.raises(ValueError, match="read-only"):
        tree.axis[0, 0] = 2.0
    axis = np.array(tree.axis)
    copy = Tree(tree.parent, tree.prismatic, axis, tree.rotation, tree.translation, tree.gravity)
    axis[0] = 0.0
    np.testing.assert_array_equal(copy.axis, tree.axis)


LEAVING = """
import gc, sys
import numpy as np
from dynid.kernel.bodies import Bodies
from dynid.kernel.multibody import Multibody
from dynid.testing import random_tree
tree = random_tree(0, 3)
bodies = Bodies(tree, np.ones((3, 10)))
system = Multibody(tree, np.ones((3, 10)), np.eye(3), np.eye(3), np.arange(3))
assert bodies.native() is not None and system.native() is not None
cycle = [bodies, system]
cycle.append(cycle)
gc.freeze()
sys.exit(3)
"""


@needs_native
def test_native_objects_in_cycles_leave_no_warning_when_the_interpreter_ends() -> None:
    ended = subprocess.run([sys.executable, "-c", LEAVING], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (3, "")
