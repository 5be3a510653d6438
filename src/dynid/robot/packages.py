"""Packages of ROS by name: in named folders, above a file, and where the environment says."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from dynid.base.errors import InputError, Place

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]*")
# How deep in a workspace packages are looked for, as repositories hold several.
_DEPTH = 3
# How far above a description its package may begin, as in package/urdf/robots/; and what descriptions include.
_UP = 3
_INCLUDED = (".xacro", ".urdf", ".xml", ".yaml", ".yml")
_NAMED = b"<name>%s</name>"
_MANIFEST = "package.xml"
_MANIFEST_BYTES = 1_000_000


def find_package(name: str, folder: Path, place: Place, named: Sequence[str] = ()) -> Path:
    """The folder of a package.

    named: folders of the user's, each a package, or holding packages. Then come a folder above `folder` of that name,
    or of another one whose package.xml has the name, and packages (with a package.xml) beside one of those, then
    ROS_PACKAGE_PATH, then share of AMENT_PREFIX_PATH.
    Raises InputError if there is none.
    """
    if _NAME.fullmatch(name):
        for candidate in _candidates(name, folder, named):
            return candidate
    looked = [f"above '{folder}'", *(f"in '{one}'" for one in named)]
    raise InputError(
        "package-missing",
        found=f"no folder of the package '{name}' {' or '.join(looked)}",
        expected="the package there, or on ROS_PACKAGE_PATH or AMENT_PREFIX_PATH",
        do="name the folder that holds it: --packages DIR",
        place=place,
    )


def file_of_package(name: str, within: str, folder: Path) -> Path | None:
    """A file of a package whose folder is not found, where it lies as it does in the package; None if it does not.

    within: its path in the package.    Folders of packages are renamed, and copied without their package.xml: the file
    then lies in the same place of `folder`, of one above it, or of a folder of the package's name in these, which are
    no more than _UP levels up. Folders that hold the user's own are none: any file of the machine would be in them.
    """
    if not _NAME.fullmatch(name) or Path(within).suffix.lower() not in _INCLUDED:
        return None
    folder = folder.resolve()
    for above in (folder, *folder.parents)[: _UP + 1]:
        if above != folder and (above == above.parent or Path.home().is_relative_to(above)):
            break
        for package in (above / name, above):
            path = (package / within).resolve()
            if path.is_relative_to(package) and _is_file(path):
                return path
    return None


def _candidates(name: str, folder: Path, named: Sequence[str]) -> Iterator[Path]:
    for one in named:
        yield from _within(Path(one), name)
    for above in (folder.resolve(), *folder.resolve().parents):
        if above.name == name or _says(above, name):
            yield above
        # Without this file any folder of the machine, such as /etc, could be taken for a package.
        if _is_file(above / name / _MANIFEST):
            yield above / name
    for workspace in _listed("ROS_PACKAGE_PATH"):
        yield from _within(workspace, name)
    for prefix in _listed("AMENT_PREFIX_PATH"):
        if _is_folder(prefix / "share" / name):
            yield prefix / "share" / name


def _listed(variable: str) -> list[Path]:
    return [Path(one) for one in os.environ.get(variable, "").split(os.pathsep) if one]


def _within(folder: Path, name: str) -> Iterator[Path]:
    # A folder that is the package or holds it, by the folder's name or by that in its package.xml.
    if not _is_folder(folder):
        return
    if folder.resolve().name == name or _says(folder, name):
        yield folder
    if _is_folder(folder / name):
        yield folder / name
    level = [folder]
    for _ in range(_DEPTH):
        level = [child for one in level for child in _folders(one)]
        for one in level:
            if _is_file(one / _MANIFEST) and (one.name == name or _says(one, name)):
                yield one


def _folders(folder: Path) -> list[Path]:
    try:
        return sorted(one for one in folder.iterdir() if one.is_dir() and not one.name.startswith("."))
    except OSError:
        return []


def _says(folder: Path, name: str) -> bool:
    try:
        with (folder / _MANIFEST).open("rb") as file:
            return _NAMED % name.encode() in b"".join(file.read(_MANIFEST_BYTES).split())
    except OSError:
        return False


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False
