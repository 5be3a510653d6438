"""README's command on arms with their meshes: an independent program finds no contact and the clearance asked for."""

from __future__ import annotations

import json
import warnings
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynid.excitation.settings import CLEARANCE
from dynid.trajectories import read_motion
from tests.command_line import SHORT_SEARCH, Run, planned

pytest.importorskip("coal")
pinocchio = pytest.importorskip("pinocchio")
SHARE = Path(pinocchio.__file__).resolve().parents[4] / "share"
ROBOTS = SHARE / "example-robot-data" / "robots"
ARMS = {
    "ur10": ROBOTS / "ur_description" / "urdf" / "ur10_robot.urdf",
    "panda": ROBOTS / "panda_description" / "urdf" / "panda.urdf",
}
if not all(path.exists() for path in ARMS.values()):
    pytest.skip("example-robot-data is not installed", allow_module_level=True)
# Every so many seconds pinocchio measures all pairs, which takes 15 ms.
STEP = 0.05


def least_distances(path: Path, folder: Path, step: float) -> tuple[dict[tuple[str, str], float], float]:
    """By pinocchio, with its own reader and geometry: of links two joints apart or more, and of the floor."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = pinocchio.buildModelFromUrdf(str(path))
        geometry = pinocchio.buildGeomFromUrdf(
            model, str(path), pinocchio.GeometryType.COLLISION, package_dirs=[str(SHARE)]
        )
    objects = geometry.geometryObjects
    for a, b in combinations(range(len(objects)), 2):
        i, j = objects[a].parentJoint, objects[b].parentJoint
        if i != j and model.parents[i] != j and model.parents[j] != i:
            geometry.addCollisionPair(pinocchio.CollisionPair(a, b))
    data, found = model.createData(), pinocchio.GeometryData(geometry)
    planned_motion = read_motion(folder)
    # A finger that follows another one is a joint of its own to pinocchio.
    names = [name if name in planned_motion.joints else planned_motion.joints[-1] for name in model.names[1:]]
    order = [planned_motion.joints.index(name) for name in names]
    t = np.arange(0.0, planned_motion.trajectory.duration, step)
    q = planned_motion.trajectory.motion(t)[0][:, order]
    least: dict[tuple[str, str], float] = {}
    lowest = np.inf
    for row in q:
        pinocchio.computeDistances(model, data, geometry, found, row)
        for pair, result in zip(geometry.collisionPairs, found.distanceResults, strict=True):
            a, b = (objects[k].name.rsplit("_", 1)[0] for k in (pair.first, pair.second))
            least[a, b] = min(least.get((a, b), np.inf), result.min_distance)
        # Bodies behind the second joint: the foot stands on the floor, the first link turns above it.
        for one, placed in zip(objects, found.oMg, strict=True):
            if one.parentJoint > 1 and hasattr(one.geometry, "vertices"):
                heights = (np.array(one.geometry.vertices()) @ placed.rotation.T + placed.translation)[:, 2]
                lowest = min(lowest, float(heights.min()))
    return least, lowest


def checked(run: Run, arm: str, folder: Path, *options: Any, step: float = STEP) -> None:
    done = run("excite", ARMS[arm], "--floor", 0, "--out", folder / "traj", *options)
    assert done.code == 0, done.err
    assert done.out.startswith(
        "checked on the robot's collision shapes; the final motion verified at 1000 Hz with coal"
    )
    stored = json.loads((folder / "traj" / "plan.json").read_text())
    assert stored["not_checked"] == []
    least, lowest = least_distances(ARMS[arm], folder / "traj", step)
    assert min(least.values()) >= CLEARANCE
    assert lowest >= CLEARANCE
    # What both measured, the check of dynid measured at least as near; it skips what it knows to be far enough.
    by_name = {one["pair"]: one["distance"] for one in stored["verified"]["least"]}
    for (a, b), distance in least.items():
        name = f"{a} - {b}" if f"{a} - {b}" in by_name else f"{b} - {a}"
        assert by_name[name] >= CLEARANCE - 1e-6
        assert distance >= CLEARANCE
    assert {round(100 * stage["share"]) for stage in stored["stages"]} == {25, 50, 100}
    assert all(stage["rests"] for stage in stored["stages"])


@pytest.mark.parametrize("arm", list(ARMS))
def test_a_short_search_is_clear_of_everything(arm: str, run: Run, tmp_path: Path) -> None:
    keys = SHORT_SEARCH | {"search.iterations": 2}
    checked(run, arm, tmp_path, *planned(tmp_path, keys))


@pytest.mark.slow
@pytest.mark.parametrize("arm", list(ARMS))
def test_the_command_of_the_readme_is_clear_of_everything(arm: str, run: Run, tmp_path: Path) -> None:
    checked(run, arm, tmp_path, "--time", 30, step=0.01)
