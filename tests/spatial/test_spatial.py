"""Rotations, placements and inertial parameters: laws on random bodies, and pinocchio's forms of the same."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynid.base import Float, UsageError
from dynid.spatial import (
    eigenvalues,
    from_com,
    from_khalil,
    from_mjcf,
    from_pseudo_inertia,
    inverse,
    is_physical,
    is_rotation,
    log_cholesky,
    log_cholesky_factor,
    placement,
    pseudo_inertia,
    rotation_about,
    rotation_quaternion,
    rotation_rpy,
    six,
    skew,
    symmetric,
    to_com,
    to_khalil,
    to_mjcf,
    transformed,
)

seeds = st.integers(0, 2**32 - 1)
numbers = st.floats(-2, 2)
vectors = st.tuples(numbers, numbers, numbers).map(np.array)
many = settings(max_examples=60, deadline=None)


def points(seed: int) -> tuple[Float, Float]:
    """Masses (6,) and places (6, 3) of points: any physical body is like such a one."""
    random = np.random.default_rng(seed)
    return random.uniform(0.1, 2.0, 6), random.normal(scale=0.3, size=(6, 3)) + random.normal(size=3)


def body(masses: Float, places: Float) -> Float:
    """Ten parameters from the definition: sums over the points."""
    inertia = sum(m * (p @ p * np.eye(3) - np.outer(p, p)) for m, p in zip(masses, places, strict=True))
    xx, xy, xz, _, yy, yz, _, _, zz = np.asarray(inertia).ravel()
    return np.array([masses.sum(), *(masses @ places), xx, xy, yy, xz, yz, zz])


def motion(seed: int) -> Float:
    random = np.random.default_rng(seed + 1)
    return placement(rotation_rpy(random.uniform(-3, 3, 3)), random.normal(size=3))


def of_coordinates(x: Float) -> Float:
    U = log_cholesky_factor(x)
    return from_pseudo_inertia(U @ U.T)


@many
@given(seeds)
def test_every_form_of_a_body_leads_back(seed: int) -> None:
    pi = body(*points(seed))
    forms = (
        from_com(*to_com(pi)),
        from_mjcf(*to_mjcf(pi)),
        from_khalil(to_khalil(pi)),
        from_pseudo_inertia(pseudo_inertia(pi)),
        of_coordinates(log_cholesky(pi)),
        np.array([pi[0], *pi[1:4], *six(symmetric(pi[4:]))]),
        transformed(transformed(pi, motion(seed)), inverse(motion(seed))),
    )
    for form in forms:
        assert form == pytest.approx(pi, rel=1e-10, abs=1e-11)


@many
@given(seeds)
def test_a_moved_body_is_the_body_of_moved_points(seed: int) -> None:
    masses, places = points(seed)
    T = motion(seed)
    moved = places @ T[:3, :3].T + T[:3, 3]
    assert transformed(body(masses, places), T) == pytest.approx(body(masses, moved), rel=1e-12, abs=1e-12)


@many
@given(seeds)
def test_the_pseudo_inertia_is_the_second_moment_of_the_mass(seed: int) -> None:
    masses, places = points(seed)
    homogeneous = np.column_stack([places, np.ones(len(places))])
    truth = (homogeneous * masses[:, None]).T @ homogeneous
    assert pseudo_inertia(body(masses, places)) == pytest.approx(truth, rel=1e-12, abs=1e-12)


@many
@given(seeds)
def test_moving_a_body_moves_its_pseudo_inertia(seed: int) -> None:
    pi, T = body(*points(seed)), motion(seed)
    assert pseudo_inertia(transformed(pi, T)) == pytest.approx(
        T @ pseudo_inertia(pi) @ T.T, rel=1e-11, abs=1e-11
    )


@many
@given(seeds, st.floats(0.1, 10), st.floats(0.1, 10))
def test_parameters_of_joined_bodies_add(seed: int, a: float, b: float) -> None:
    one, two = body(*points(seed)), body(*points(seed + 1))
    T = motion(seed)
    joined = transformed(a * one + b * two, T)
    assert joined == pytest.approx(a * transformed(one, T) + b * transformed(two, T), rel=1e-12, abs=1e-12)


@many
@given(st.lists(st.floats(-1.5, 1.5), min_size=10, max_size=10).map(np.array))
def test_log_cholesky_parameters_always_make_a_body(x: Float) -> None:
    pi = of_coordinates(x)
    assert is_physical(pi, 1e-12)
    assert log_cholesky(pi) == pytest.approx(x, rel=1e-6, abs=1e-6)


@many
@given(st.lists(st.floats(-1.5, 1.5), min_size=10, max_size=10).map(np.array))
def test_log_cholesky_agrees_with_pinocchio(x: Float) -> None:
    assert of_coordinates(x) == pytest.approx(
        pin.LogCholeskyParameters(x).toDynamicParameters(), rel=1e-10, abs=1e-12
    )


@many
@given(seeds)
def test_inertias_agree_with_pinocchio(seed: int) -> None:
    pi = body(*points(seed))
    theirs = pin.Inertia.FromDynamicParameters(pi)
    m, c, inertia = to_com(pi)
    assert m == pytest.approx(theirs.mass)
    assert c == pytest.approx(theirs.lever, rel=1e-12)
    assert inertia == pytest.approx(theirs.inertia, rel=1e-9, abs=1e-10)
    assert from_com(m, c, inertia) == pytest.approx(
        pin.Inertia(m, c, inertia).toDynamicParameters(), rel=1e-12
    )
    assert pseudo_inertia(pi) == pytest.approx(
        pin.PseudoInertia.FromDynamicParameters(pi).toMatrix(), rel=1e-12
    )
    T = motion(seed)
    acted = theirs.se3Action(pin.SE3(T)).toDynamicParameters()
    assert transformed(pi, T) == pytest.approx(acted, rel=1e-10, abs=1e-10)


@many
@given(seeds, st.floats(1.01, 3.0))
def test_bodies_that_cannot_be_are_distinguished_from_those_that_can(seed: int, excess: float) -> None:
    masses, places = points(seed)
    pi = body(masses, places)
    assert is_physical(pi)
    assert eigenvalues(pi)[0] > 0
    m, c, inertia = to_com(pi)
    values, directions = np.linalg.eigh(inertia)
    values[2] = excess * (values[0] + values[1])
    impossible = from_com(m, c, directions @ np.diag(values) @ directions.T)
    assert not is_physical(impossible)
    assert not is_physical(-pi)
    with pytest.raises(UsageError, match="not-physical"):
        log_cholesky(impossible)


def test_a_point_mass_is_physical_only_with_a_tolerance() -> None:
    point = body(np.ones(1), np.array([[0.1, 0.2, 0.3]]))
    assert is_physical(point, 1e-12)
    assert to_com(point)[2] == pytest.approx(np.zeros((3, 3)), abs=1e-15)


@pytest.mark.parametrize("mass", [0.0, -1.0, np.nan])
def test_without_mass_there_is_no_centre(mass: float) -> None:
    with pytest.raises(UsageError, match="massless"):
        to_com(np.array([mass, *np.zeros(9)]))


@many
@given(vectors, vectors)
def test_skew_is_the_cross_product(a: Float, b: Float) -> None:
    assert skew(a) @ b == pytest.approx(np.cross(a, b), abs=1e-15)


@many
@given(vectors, numbers)
def test_rotations_turn_about_their_axis(axis: Float, angle: float) -> None:
    length = float(np.linalg.norm(axis))
    if length < 1e-3:
        return
    axis = axis / length
    R = rotation_about(axis, angle)
    assert is_rotation(R, 1e-12)
    assert R @ axis == pytest.approx(axis, abs=1e-14)
    assert np.trace(R) == pytest.approx(1 + 2 * np.cos(angle), abs=1e-13)
    assert pin.exp3(axis * angle) == pytest.approx(R, abs=1e-13)
    half = np.array([np.cos(angle / 2), *(np.sin(angle / 2) * axis)])
    assert rotation_quaternion(3.0 * half) == pytest.approx(R, abs=1e-13)


@many
@given(vectors)
def test_fixed_axis_angles_are_pinocchios(rpy: Float) -> None:
    assert rotation_rpy(rpy) == pytest.approx(pin.rpy.rpyToMatrix(rpy), abs=1e-14)


def test_what_is_no_rotation() -> None:
    for R in (2 * np.eye(3), np.diag([1.0, 1.0, -1.0]), np.full((3, 3), np.nan), np.zeros((3, 3))):
        assert not is_rotation(R)
