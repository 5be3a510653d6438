"""Meshes and what a body inside one can weigh: own files, damaged files, laws of moments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from dynid.base import DynidError, InputError, RefusedError, SolverError, UsageError
from dynid.feasible import (
    BodyMass,
    CentreHalfSpaces,
    Condition,
    InsideHull,
    PhysicalBodies,
    enclosing_points,
    feasible_parameters,
)
from dynid.feasible.constraints import smallest_ellipsoid
from dynid.identification import Experiment, settings_to_experiment
from dynid.robot import load_robot, mesh_points, spread_directions
from dynid.robot import meshes as mesh_module
from dynid.spatial import from_com, from_pseudo_inertia
from dynid.terms import RigidBody
from tests.feasible.panda import ROBOT

COLUMNS = RigidBody().columns(load_robot(ROBOT))[:10]
SPREAD = np.array([2.5, *(0.75,) * 3, *(0.225,) * 6])
BOX = np.array([[x, y, z] for x in (0.0, 0.2) for y in (-0.1, 0.1) for z in (0.0, 0.4)])
FACES = [
    (0, 1, 3),
    (0, 3, 2),
    (4, 6, 7),
    (4, 7, 5),
    (0, 4, 5),
    (0, 5, 1),
    (2, 3, 7),
    (2, 7, 6),
    (0, 2, 6),
    (0, 6, 4),
]


def binary(points: np.ndarray = BOX, header: bytes = b"solid drawn by hand") -> bytes:
    facets = np.zeros(len(FACES), mesh_module._FACET)
    facets["corners"] = points[np.array(FACES)]
    return header.ljust(80, b"\0") + len(FACES).to_bytes(4, "little") + facets.tobytes()


def text(points: np.ndarray = BOX) -> bytes:
    lines = ["solid box"]
    for face in FACES:
        lines += ["facet normal 0 0 0", " outer loop"]
        lines += [f"  vertex {x:.9e} {y:.9e} {z:.9e}" for x, y, z in points[list(face)]]
        lines += [" endloop", "endfacet"]
    return "\n".join([*lines, "endsolid box", ""]).encode()


def obj(points: np.ndarray = BOX) -> bytes:
    lines = ["# by hand", "vn 9 9 9", *(f"v {x!r} {y!r} {z!r} 1.0" for x, y, z in points.tolist())]
    return "\n".join([*lines, *(f"f {a + 1}//1 {b + 1}//1 {c + 1}//1" for a, b, c in FACES), ""]).encode()


@pytest.mark.parametrize(("name", "data"), [("b.stl", binary()), ("t.STL", text()), ("o.obj", obj())])
def test_the_same_box_comes_out_of_every_format(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    corners = enclosing_points(mesh_points(tmp_path / name))
    np.testing.assert_allclose(sorted(corners.tolist()), sorted(BOX.tolist()), atol=1e-7)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.stl", b"", "mesh-truncated"),
        ("a.stl", b"part" + binary()[4:500], "8 of the 10 facets"),
        ("a.stl", b"x" * 80 + b"\xff\xff\xff\xff" + b"\0" * 50, "1 of the 4294967295 facets"),
        ("a.stl", binary(np.where(BOX == 0.4, np.nan, BOX)), "facet 1"),
        ("a.stl", text().replace(b"4.000000000e-01", b"inf", 1), "line 5|:5"),
        ("a.stl", text().replace(b"4.000000000e-01", b"0,4", 1), "0,4"),
        ("a.stl", b"solid nothing\nendsolid\n", "0 corners"),
        ("a.obj", b"v 1 2\n", "v 1 2"),
        ("a.obj", b"\x00\xff\xfe" * 100, "0 corners"),
        ("a.dae", b"<xml/>", ".stl or .obj"),
        ("missing.stl", None, "no such file"),
    ],
)
def test_damaged_and_foreign_files_are_refused(
    tmp_path: Path, name: str, data: bytes | None, message: str
) -> None:
    if data is not None:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=message):
        mesh_points(tmp_path / name)


def test_files_over_the_limit_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mesh_module, "MAX_BYTES", 100)
    (tmp_path / "a.stl").write_bytes(binary())
    with pytest.raises(RefusedError, match="100 bytes"):
        mesh_points(tmp_path / "a.stl")


def test_any_bytes_end_in_points_or_in_an_error_of_ours(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / "a.stl"
    for whole in (binary(), text(), obj()):
        for _ in range(60):
            data = bytearray(whole[: rng.integers(1, len(whole))])
            for place in rng.integers(0, len(data), 5):
                data[place] = rng.integers(0, 256)
            path.write_bytes(bytes(data))
            try:
                points = mesh_points(path)
            except DynidError:
                continue
            assert np.isfinite(points).all()


def test_many_corners_become_few_planes_around_them() -> None:
    points = np.random.default_rng(1).normal(size=(5000, 3))
    ball = 0.1 * points / np.linalg.norm(points, axis=1, keepdims=True) + [0.3, 0.0, 0.0]
    around = enclosing_points(ball)
    assert len(around) < 600
    box = CentreHalfSpaces.hull(1, around)
    assert (ball @ np.array(box.normals).T <= np.array(box.limits) + 1e-9).all()
    # Not far out either: planes in 134 directions.
    assert np.linalg.norm(around - [0.3, 0, 0], axis=1).max() < 0.1 * 1.06


def test_sizes_and_flat_meshes_are_reported() -> None:
    with pytest.raises(UsageError, match=r"0\.001"):
        enclosing_points(1000 * BOX)
    # A size is one wherever the frame stands.
    away = np.array([50.0, -30.0, 0.0])
    np.testing.assert_allclose(np.sort(enclosing_points(BOX + away) - away, axis=0), np.sort(BOX, axis=0))
    for axis in np.eye(3):
        with pytest.raises(UsageError, match="30 m long"):
            enclosing_points((BOX - BOX.mean(axis=0)) * (1.0 + axis * (30.0 / np.ptp(BOX, axis=0) - 1.0)))
    with pytest.raises(UsageError, match="flat-hull"):
        enclosing_points(BOX * [1.0, 1.0, 0.0])


def test_directions_are_spread_over_half_a_sphere() -> None:
    n = spread_directions(64)
    np.testing.assert_allclose(np.linalg.norm(n, axis=1), 1.0)
    nearest = np.sort(np.abs(n @ n.T) - 2 * np.eye(64), axis=1)[:, -1]
    assert np.degrees(np.arccos(nearest)).min() > 10
    np.testing.assert_allclose(n.T @ n / 64, np.eye(3) / 3, atol=0.02)


def test_smallest_ellipsoid_of_a_box_and_of_a_ball() -> None:
    A, centre = smallest_ellipsoid(BOX)
    np.testing.assert_allclose(centre, [0.1, 0.0, 0.2], atol=1e-3)
    np.testing.assert_allclose(A, np.diag(1 / (3 * np.array([0.1, 0.1, 0.2]) ** 2)), atol=0.3)
    points = np.random.default_rng(2).normal(size=(50, 3))
    A, centre = smallest_ellipsoid(points)
    away = points - centre
    assert np.einsum("ki,ij,kj->k", away, A, away).max() == pytest.approx(1.0)


def moments(points: np.ndarray, mass: np.ndarray) -> np.ndarray:
    lifted = np.column_stack([points, np.ones(len(points))])
    return from_pseudo_inertia((lifted.T * mass) @ lifted)


def worst(conditions: Sequence[Condition], pi: np.ndarray) -> float:
    return max(condition.violation(pi) for condition in conditions)


def test_every_body_inside_fulfils_it_and_bodies_reaching_out_do_not() -> None:
    rng = np.random.default_rng(3)
    corners = rng.uniform(-0.2, 0.3, (12, 3))
    constraint = InsideHull(1, tuple(map(tuple, corners.tolist()))).conditions(COLUMNS, SPREAD)
    for _ in range(40):
        inside = rng.dirichlet(np.full(12, 0.2), 8) @ corners
        assert worst(constraint, moments(inside, rng.uniform(0.01, 2, 8))) < 1e-12
    # Along its longest way, three quarters of the body's mass at the ends are the limit: at 1.2 times they stick out.
    centre = corners.mean(axis=0)
    assert worst(constraint, moments(centre + 1.2 * (corners - centre), np.ones(12))) > 1e-3
    # The centre of mass is inside, the inertia is that of a much longer body.
    assert worst(constraint, from_com(2.0, centre, np.diag([0.2, 0.2, 0.01]))) > 1e-2
    hull = CentreHalfSpaces.hull(1, corners).conditions(COLUMNS, SPREAD)
    assert worst(hull, from_com(2.0, centre, 0.2 * np.eye(3))) == 0


def test_a_fit_inside_a_hull_and_a_conflict() -> None:
    constraint = InsideHull(1, tuple(map(tuple, BOX.tolist())))
    prior = from_com(2.0, np.array([0.5, 0.0, 0.2]), 0.3 * np.eye(3))
    nothing = np.zeros((1, 10)), np.zeros(1)
    held = [PhysicalBodies(), constraint]
    found = feasible_parameters(*nothing, COLUMNS, held, prior, SPREAD, 1.0).parameters
    assert worst(constraint.conditions(COLUMNS, SPREAD), found) < 1e-6
    outside = CentreHalfSpaces.box(1, (0.3, -1.0, -1.0), (0.5, 1.0, 1.0))
    with pytest.raises(SolverError, match=r"body 1|centre of mass"):
        feasible_parameters(
            np.eye(1, 10), np.array([2.0]), COLUMNS,
            [*held, outside, BodyMass(1, 1.0)], prior, SPREAD, 1.0,
        )  # fmt: skip


def experiment(folder: Path, keys: str) -> Path:
    path = folder / "experiment.toml"
    path.write_text(f'[estimate]\nmethod = "feasible"\n[[estimate.limits]]\nbody = 2\n{keys}\n')
    return path


def test_a_mesh_in_the_experiment_file_becomes_a_hull_in_the_run(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "box.stl").write_bytes(binary(1000 * BOX))
    keys = 'mesh = "parts/box.stl"\nmesh_scale = 0.001\nmesh_xyz = [1, 0, 0]\nwhole_body = true'
    keys += "\nmesh_rpy = [0, 0, 1.5707963267948966]"
    settings = Experiment.read(experiment(tmp_path, keys)).settings()
    (entry,) = settings.estimator.limits  # type: ignore[attr-defined] # a FeasibleFit
    turned = np.array(entry["hull"]) - [1.0, 0.0, 0.0]
    expected = np.column_stack([-BOX[:, 1], BOX[:, 0], BOX[:, 2]])
    np.testing.assert_allclose(
        sorted(np.round(turned, 5).tolist()), sorted(np.round(expected, 5).tolist()), atol=1e-6
    )
    assert "mesh" not in entry
    (tmp_path / "parts" / "box.stl").unlink()
    assert Experiment.from_dict(settings_to_experiment(settings)).settings().estimator == settings.estimator


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ('mesh = "../box.stl"', "outside-root"),
        ('mesh = "http://x/box.stl"', "remote-file"),
        ('mesh = "none.stl"', "no such file"),
        ('mesh = "box.stl"', r"0\.001"),
        ("mesh_scale = 0.1", "body-limits|mesh_scale"),
        ("whole_body = true", "hull"),
    ],
)
def test_wrong_meshes_in_experiment_files(tmp_path: Path, keys: str, message: str) -> None:
    (tmp_path / "box.stl").write_bytes(binary(1000 * BOX))
    (tmp_path.parent / "box.stl").write_bytes(binary())
    with pytest.raises(DynidError, match=message) as stopped:
        Experiment.read(experiment(tmp_path, keys)).settings()
    assert stopped.value.exit_code in (2, 3, 7)
