"""URDF: links and joints, checked."""

from __future__ import annotations

from pathlib import Path

from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import DynidError
from dynid.base.records import dataclass
from dynid.robot.link_checks import check_size, checked_tree
from dynid.robot.link_model import model_of_links
from dynid.robot.links import LinkTree
from dynid.robot.mesh_files import note_absent_meshes
from dynid.robot.model import RobotModel
from dynid.robot.reading import Reading
from dynid.robot.source import RobotFile
from dynid.robot.urdf_parts import read_joints, read_links, with_world
from dynid.robot.xml import Element


def read_urdf(robot: Element, path: Path, reading: Reading, diagnostics: Diagnostics) -> RobotModel:
    """The robot of a <robot> element; gravity is 9.81 m/s^2 along -z of the root link.

    Raises RefusedError for robots over the size budget, InputErrors with all that is wrong otherwise.
    """
    return model_of_links(lint(robot, path.parent, reading, diagnostics), str(path))


def lint(robot: Element, folder: Path, reading: Reading, diagnostics: Diagnostics) -> LinkTree:
    """The checked tree of a <robot> element; the root of the reading picks one if there are several.

    Raises RefusedError for robots over the size budget, InputErrors with all that is wrong otherwise.
    """
    check_size(robot, len(robot.all("link")))
    named = [
        (element.attributes["filename"], element)
        for element in robot.walk()
        if element.tag in ("mesh", "texture") and element.attributes.get("filename")
    ]
    note_absent_meshes(named, folder, diagnostics, reading.packages)
    errors: list[DynidError] = []
    links = read_links(robot, errors)
    joints = read_joints(robot, errors, diagnostics)
    links = with_world(links, joints, diagnostics)
    name = robot.attributes.get("name", "")
    return checked_tree(name, robot, links, joints, reading, errors, diagnostics)


@dataclass(frozen=True)
class UrdfFormat:
    """URDF, recognised by <robot>."""

    name: str = "URDF"

    def knows(self, file: RobotFile) -> bool:
        """Whether the root element is <robot>."""
        return file.tag == "robot"

    def read(self, file: RobotFile) -> RobotModel:
        """The robot; raises as `read_urdf`."""
        return read_urdf(file.root, file.path, file.reading, file.diagnostics)
