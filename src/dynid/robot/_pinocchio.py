"""The one place where pinocchio is loaded: it builds the tree of a checked URDF and merges the fixed joints."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.arrays import Float
from dynid.errors import ResourceError


@dataclass
class BuiltTree:
    """Moving joints in tree order: names, parents, placements (n, 4, 4), merged inertias (n, 10), links of each body."""

    joint_names: list[str]
    parent: list[int]
    placement: Float
    inertia: Float
    links: list[list[str]]


def build(urdf: str) -> BuiltTree:
    """Builds the tree of a URDF text; raises ResourceError if pinocchio is not installed."""
    try:
        import pinocchio as pin  # noqa: PLC0415
    except ImportError as error:
        raise ResourceError(
            "missing-package", found="no pinocchio", expected="the package that builds URDF trees", do="pip install 'pin>=4.1,<5'"
        ) from error
    model = pin.buildModelFromXML(urdf)
    n = model.njoints - 1
    links: list[list[str]] = [[] for _ in range(n)]
    for frame in model.frames:
        if frame.type == pin.FrameType.BODY and frame.parentJoint > 0:
            links[frame.parentJoint - 1].append(frame.name)
    return BuiltTree(
        joint_names=[str(name) for name in model.names][1:],
        parent=[int(model.parents[i + 1]) - 1 for i in range(n)],
        placement=np.array([model.jointPlacements[i + 1].homogeneous for i in range(n)]),
        inertia=np.array([model.inertias[i + 1].toDynamicParameters() for i in range(n)]),
        links=links,
    )
