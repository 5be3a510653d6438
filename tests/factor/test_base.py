"""Base parameters: the count, the map and its laws, and what is said about each parameter."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest

from dynid.base import Float, UnfitDataError
from dynid.factor import BaseMap, Category, base_of_matrix, random_states, structural_base
from dynid.robot import Drive, JointType, Limits, RobotModel, load_robot
from dynid.rows import TorqueRows
from dynid.terms import Coulomb, KnownPayload, Offset, RigidBody, RotorInertia, Terms, Viscous
from dynid.testing import random_robot
from tests.robot_files import ROBOTS

BODIES = Terms((RigidBody(),))


def arm(axes: list[str], offsets: list[list[float]], gravity: tuple[float, float, float]) -> RobotModel:
    """A serial arm by joint axes ("x", "-y", "pz" for prismatic) and positions in the parent frame."""
    n = len(axes)
    unit = {"x": [1.0, 0, 0], "y": [0, 1.0, 0], "z": [0, 0, 1.0]}
    placement = np.repeat(np.eye(4)[None], n, axis=0)
    placement[:, :3, 3] = offsets
    names = tuple(f"{i + 1}" for i in range(n))
    return RobotModel(
        name="arm",
        body_names=names,
        tree_joint_names=names,
        joint_names=names,
        parent=np.arange(n) - 1,
        joint_types=tuple(JointType.PRISMATIC if a[0] == "p" else JointType.REVOLUTE for a in axes),
        T_parent_joint=placement,
        axis=np.array([unit[a[-1]] for a in axes]),
        inertia_prior=np.full((n, 10), np.nan),
        gravity=np.array(gravity),
        limits=Limits.none(n),
        drive=Drive.direct(n),
        projection=np.eye(n),
        projection_offset=np.zeros(n),
        friction_prior=np.full((n, 2), np.nan),
    )


DOWN_Y, DOWN_Z = (0.0, -9.81, 0.0), (0.0, 0.0, -9.81)


@pytest.mark.parametrize(
    ("axes", "gravity", "rank"),
    [
        (["z"], DOWN_Y, 3),  # a pendulum: Izz, mcx, mcy
        (["z"], DOWN_Z, 1),
        (["pz"], DOWN_Z, 1),
        (["z", "z"], DOWN_Y, 6),
        (["z", "z"], DOWN_Z, 4),
        (["z", "y"], DOWN_Z, 8),  # the first link brings Izz1, every further revolute joint seven
        (["z", "y", "y", "x", "y", "x"], DOWN_Z, 36),
        (["z", "y", "z", "y", "z", "y", "z"], DOWN_Z, 43),
    ],
)
def test_known_counts(axes: list[str], gravity: tuple[float, float, float], rank: int) -> None:
    # Khalil and Dombre 2002, chapter 9: b = 7 nr + 4 np less what the first joints lose.
    offsets = [[0.0, 0.0, 0.0]] + [[0.3, 0.1, 0.2]] * (len(axes) - 1)
    base = structural_base(arm(axes, offsets, gravity), BODIES, TorqueRows())
    assert base.rank == rank
    assert base.gap > 1e4


@pytest.mark.parametrize(("robot", "rank"), [("panda_gaz", 43), ("ur10e_innopolis", 36)])
def test_counts_of_real_arms(robot: str, rank: int) -> None:
    base = structural_base(load_robot(ROBOTS / f"{robot}.toml"), BODIES, TorqueRows())
    assert base.rank == rank


def test_grouping_of_the_planar_arm() -> None:
    base = structural_base(arm(["z", "z"], [[0, 0, 0], [0.5, 0, 0]], DOWN_Y), BODIES, TorqueRows())
    formulas = base.formulas()
    assert "mcx1 + 0.5 m2" in formulas
    assert "Izz1 + 0.25 m2" in formulas
    assert {"mcy1", "mcx2", "mcy2", "Izz2"} <= set(formulas)
    found = dict(zip(base.names, base.categories(), strict=True))
    assert found["mcx2"] is Category.IDENTIFIABLE
    assert found["m2"] is found["Izz1"] is found["mcx1"] is Category.COMBINATION
    assert found["m1"] is found["Ixx2"] is found["mcz1"] is Category.NOT_IDENTIFIABLE


@pytest.mark.parametrize("seed", range(8))
def test_rank_is_that_of_the_singular_values(seed: int) -> None:
    robot = random_robot(seed, 2 + seed % 4, 0.4, mimic=seed % 3 == 2)
    terms = RigidBody() + RotorInertia() + Viscous() + Coulomb() + Offset()
    base = structural_base(robot, terms, TorqueRows(), seed)
    p = len(base.names)
    samples = random_states(robot, 300, 99)
    W = terms.torque_regressor(robot, samples).dense(p).reshape(-1, p)
    norms = np.linalg.norm(W, axis=0)
    s = np.linalg.svd(W / np.where(norms > 1e-10 * norms.max(), norms, np.inf), compute_uv=False)
    assert base.rank == int((s > 1e-9 * s[0]).sum())
    # The map found from other states holds for these.
    np.testing.assert_allclose(W, W[:, base.independent] @ base.B, atol=1e-8 * np.abs(W).max())


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_rank_is_that_of_pinocchios_regressor(seed: int) -> None:
    robot = random_robot(seed, 5, 0.0)
    model = pin.Model()
    for i in range(5):
        kind = pin.JointModelPrismaticUnaligned if robot.prismatic[i] else pin.JointModelRevoluteUnaligned
        model.addJoint(i, kind(robot.axis[i].copy()), pin.SE3(robot.T_parent_joint[i].copy()), f"j{i}")
    model.gravity.linear = robot.gravity.copy()
    data, samples = model.createData(), random_states(robot, 100, 5)
    W = np.vstack(
        [
            pin.computeJointTorqueRegressor(model, data, q, dq, ddq).copy()
            for q, dq, ddq in zip(samples.q, samples.dq, samples.ddq, strict=True)
        ]
    )
    base = structural_base(robot, BODIES, TorqueRows())
    assert base.rank == np.linalg.matrix_rank(W, tol=1e-9 * np.linalg.norm(W, 2))
    np.testing.assert_allclose(W, W[:, base.independent] @ base.B, atol=1e-8 * np.abs(W).max())


def test_same_seed_same_map() -> None:
    robot = random_robot(2, 4)
    one, other = (structural_base(robot, BODIES, TorqueRows(), 7) for _ in range(2))
    assert one.B.tobytes() == other.B.tobytes()
    moved = structural_base(robot, BODIES, TorqueRows(), 8)
    np.testing.assert_array_equal(moved.independent, one.independent)
    np.testing.assert_allclose(moved.B, one.B, atol=1e-8)


def test_known_torque_is_no_parameter() -> None:
    robot = random_robot(2, 3)
    load = KnownPayload((1.0, *[0.0] * 9))
    both = structural_base(robot, RigidBody() + load, TorqueRows())
    assert both.rank == structural_base(robot, BODIES, TorqueRows()).rank


# The map of a matrix


def low_rank(seed: int = 0, rows: int = 80, p: int = 9) -> tuple[Float, list[str]]:
    """Columns 2, 5 and 6 depend on others, column 7 is zero."""
    W = np.random.default_rng(seed).normal(0, 1, (rows, p)) * 10.0 ** np.arange(-4, p - 4)
    W[:, 2] = W[:, 0] - 2.0 * W[:, 1]
    W[:, 5] = 3.0 * W[:, 4]
    W[:, 6] = W[:, 3] + W[:, 4]
    W[:, 7] = 0.0
    return W, [f"p{j}" for j in range(p)]


def base() -> BaseMap:
    return base_of_matrix(*low_rank(), 1e-9)


def test_map_of_a_matrix() -> None:
    W, _ = low_rank()
    found = base()
    assert found.independent.tolist() == [0, 1, 3, 4, 8]
    assert found.rank == np.linalg.matrix_rank(W / np.where(W.any(axis=0), np.linalg.norm(W, axis=0), 1))
    np.testing.assert_allclose(W[:, found.independent] @ found.B, W, atol=1e-12 * np.abs(W).max())
    np.testing.assert_array_equal(found.B[:, found.independent], np.eye(5))
    np.testing.assert_allclose(found.scale, np.sqrt(np.mean(W**2, axis=0)), rtol=1e-12)
    assert found.mask.sum() == 5
    assert found.condition >= 1
    assert found.formulas() == ("p0 + p2", "p1 - 2 p2", "p3 + p6", "p4 + 3 p5 + p6", "p8")
    words = [str(c) for c in found.categories()]
    assert words[8] == "identifiable"
    assert words[7] == "not identifiable"
    assert set(words[:7]) == {"only in combination"}


def test_null_space_changes_no_equation() -> None:
    W, _ = low_rank()
    N = base().null_space()
    assert N.shape == (9, 4)
    assert np.linalg.matrix_rank(N) == 4
    np.testing.assert_allclose(W @ N, 0, atol=1e-12 * np.abs(W).max())
    np.testing.assert_allclose(base().B @ N, 0, atol=1e-12)


@pytest.mark.parametrize("range_of_spread", [0, 3, 8])
def test_lifting_undoes_reducing(range_of_spread: int) -> None:
    rng = np.random.default_rng(1)
    one = base()
    beta = rng.normal(0, 1, 5)
    prior = rng.normal(0, 1, 9)
    spread = 10.0 ** rng.uniform(-range_of_spread, range_of_spread, 9)
    np.testing.assert_allclose(one.reduce(one.lift(beta)), beta, rtol=1e-12, atol=1e-12)
    theta = one.lift(beta, prior, spread)
    np.testing.assert_allclose(one.reduce(theta), beta, rtol=1e-9, atol=1e-9)
    assert theta[7] == prior[7]
    np.testing.assert_allclose(one.lift(one.reduce(prior), prior, spread), prior, rtol=1e-9, atol=1e-9)


def test_lifting_finds_the_nearest() -> None:
    rng = np.random.default_rng(2)
    one, beta, prior, spread = base(), rng.normal(0, 1, 5), rng.normal(0, 1, 9), rng.uniform(0.1, 10, 9)
    theta = one.lift(beta, prior, spread)
    # First-order condition: the way from the prior has no part along the null space, in the spread's metric.
    np.testing.assert_allclose(one.null_space().T @ ((theta - prior) / spread**2), 0, atol=1e-10)
    prior[3] = np.nan
    assert np.isfinite(one.lift(beta, prior)).all()


def test_nothing_excited_is_said() -> None:
    with pytest.raises(UnfitDataError, match="no parameter has any effect"):
        base_of_matrix(np.zeros((5, 2)), ["a", "b"], 1e-9)


def test_composed_maps() -> None:
    W, names = low_rank()
    outer = base_of_matrix(W, names, 1e-9)
    # Data in which column 4 follows column 3, so that one more is lost.
    part = W[:, outer.independent].copy()
    part[:, 3] = 2.0 * part[:, 2]
    inner = base_of_matrix(part, [names[i] for i in outer.independent], 1e-9)
    both = inner.compose(outer)
    assert both.names == outer.names
    assert both.independent.tolist() == [0, 1, 3, 8]
    theta = np.random.default_rng(0).normal(0, 1, 9)
    np.testing.assert_allclose(both.reduce(theta), inner.reduce(outer.reduce(theta)), rtol=1e-12)
    np.testing.assert_allclose(
        part @ outer.reduce(theta), part[:, [0, 1, 2, 4]] @ both.reduce(theta), rtol=1e-9
    )


def test_gravity_hides_what_it_cannot_load() -> None:
    robot = arm(["z", "y"], [[0, 0, 0], [0.1, 0.2, 0.3]], DOWN_Z)
    with_gravity = structural_base(robot, BODIES, TorqueRows())
    without = structural_base(replace(robot, gravity=np.zeros(3)), BODIES, TorqueRows())
    assert without.rank <= with_gravity.rank
