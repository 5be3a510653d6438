"""Cone programs against known optima, and checks that notice a wrong answer."""

from __future__ import annotations

import numpy as np
import pytest

from dynid.feasible import Block, Cone, slack, triangle
from dynid.feasible.cones import certify, from_triangle, solve_cones, violation


def nearest_semidefinite(target: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[Block]]:
    """The nearest positive semidefinite matrix, whose optimum is known: negative eigenvalues cut off."""
    m = len(triangle(target))
    return 2 * np.eye(m), -2 * triangle(target), [Block(Cone.SEMIDEFINITE, np.eye(m), np.zeros(m))]


def test_projection_on_semidefinite_matrices_cuts_eigenvalues_off() -> None:
    M = np.random.default_rng(0).normal(size=(4, 4))
    M += M.T
    answer = solve_cones(*nearest_semidefinite(M))
    values, vectors = np.linalg.eigh(M)
    expected = vectors @ np.diag(np.maximum(values, 0.0)) @ vectors.T
    np.testing.assert_allclose(from_triangle(answer.x), expected, atol=1e-6)
    assert answer.certificate.ok


def test_exponential_and_ball_have_their_known_optima() -> None:
    # max t with exp(t) <= 3: t = log 3; min x + y in the unit ball: -sqrt(2).
    cone = Block(Cone.EXPONENTIAL, np.array([[1.0], [0.0], [0.0]]), np.array([0.0, 1.0, 3.0]))
    assert solve_cones(np.zeros((1, 1)), np.array([-1.0]), [cone]).x[0] == pytest.approx(np.log(3), abs=1e-6)
    ball = Block(Cone.BALL, np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), np.array([1.0, 0.0, 0.0]))
    answer = solve_cones(np.zeros((2, 2)), np.ones(2), [ball])
    np.testing.assert_allclose(answer.x, -np.sqrt(0.5), atol=1e-6)


def test_a_wrong_answer_does_not_pass() -> None:
    M = np.diag([1.0, -1.0, 0.5, 2.0])
    P, q, blocks = nearest_semidefinite(M)
    answer = solve_cones(P, q, blocks)
    moved = answer.x + 1e-3
    assert not certify(P, q, blocks, moved, answer.duals).ok
    assert not certify(P, q, blocks, answer.x, [answer.duals[0] * 1.01]).ok
    assert not certify(P, q, blocks, triangle(M), answer.duals).ok
    assert not certify(P, q, blocks, answer.x * np.nan, answer.duals).ok


def test_an_empty_problem_is_recognised() -> None:
    blocks = [
        Block(Cone.POSITIVE, np.array([[1.0]]), np.array([-2.0])),
        Block(Cone.POSITIVE, np.array([[-1.0]]), np.array([1.0])),
    ]
    assert not solve_cones(np.eye(1), np.zeros(1), blocks).feasible


@pytest.mark.parametrize(
    ("cone", "inside", "outside"),
    [
        (Cone.ZERO, [0.0, 0.0], [0.0, -0.5]),
        (Cone.POSITIVE, [0.0, 3.0], [1.0, -0.5]),
        (Cone.BALL, [5.0, 3.0, 4.0], [4.5, 3.0, 4.0]),
        (Cone.SEMIDEFINITE, [1.0, 0.0, 0.0], [1.0, 0.0, -0.5]),
        (Cone.EXPONENTIAL, [0.0, 1.0, 1.0], [0.0, 1.0, 0.5]),
    ],
)
def test_violations_have_their_size(cone: Cone, inside: list[float], outside: list[float]) -> None:
    assert violation(cone, np.array(inside)) == pytest.approx(0.0, abs=1e-12)
    assert violation(cone, np.array(outside)) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("cone", "size"),
    [(Cone.ZERO, 3), (Cone.POSITIVE, 3), (Cone.BALL, 3), (Cone.SEMIDEFINITE, 6), (Cone.DENSITY, 11)],
)
def test_what_lacks_room_is_what_is_violated(cone: Cone, size: int) -> None:
    """Inside a cone some room is left and nothing violated; outside both say by how much."""
    rng = np.random.default_rng(1)
    eye = np.zeros(size)
    eye[: len(triangle(np.eye(4 if size == 11 else 3)))] = triangle(np.eye(4 if size == 11 else 3))[:size]
    both = set()
    for _ in range(100):
        s = rng.normal(size=size) + rng.choice([0.0, 4.0]) * eye
        room = slack(Block(cone, np.zeros((size, 1)), s), np.zeros(1))
        assert violation(cone, s) == pytest.approx(max(0.0, -room))
        both.add(room > 0)
    assert both == ({False} if cone is Cone.ZERO else {False, True})
