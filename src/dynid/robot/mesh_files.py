"""Where the meshes that a description names lie, and what is said of those that cannot be read there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import DynidError, Place, RefusedError
from dynid.robot.packages import find_package
from dynid.robot.xml import Element, inside, present

PACKAGE_SCHEMES = ("package://", "model://")
NEEDED_FOR = "only the shapes of `dynid limits` and `dynid excite` are read from meshes"
_LISTED = 4


def mesh_path(name: str, folder: Path, place: Place, packages: Sequence[str] = ()) -> Path:
    """Path of a mesh that a description in `folder` names; it need not exist.

    packages: folders of the user's, see `find_package`; files may lie in them as well.
    Raises RefusedError if the name is remote, or leads out of its folder or package, InputError if there is no such
    package or the name is no path.
    """
    name = name.removeprefix("file://")
    scheme = next((one for one in PACKAGE_SCHEMES if name.startswith(one)), None)
    if scheme is None:
        return inside(folder, name, place, packages)
    package, _, within = name.removeprefix(scheme).partition("/")
    return inside(find_package(package, folder, place, packages), within.lstrip("/"), place)


def note_absent_meshes(
    files: Iterable[tuple[str, Element]], folder: Path, diagnostics: Diagnostics, packages: Sequence[str] = ()
) -> None:
    """Notes which meshes of the named files are missing, outside the folder or remote; opens no file.

    files: names and the elements that name them: meshes, and textures and the like, which nothing reads.
    """
    absent: dict[str, dict[str, Place]] = {}
    lost: set[str] = set()  # packages that were looked for once, which may take a walk through a workspace
    for name, element in files:
        named = name.removeprefix("file://")
        package = named.partition("://")[2].partition("/")[0] if named.startswith(PACKAGE_SCHEMES) else ""
        found = "packaged" if package in lost else _absence(name, folder, element.place, packages)
        if package and found == "packaged":
            lost.add(package)
        if found and element.tag == "mesh":
            absent.setdefault(found, {}).setdefault(name, element.place)
    for reason, places in absent.items():
        identifier, text = _REASONS[reason]
        text = f"{_listed(places)} {text.format(folder=folder)}; {NEEDED_FOR}"
        diagnostics.note(identifier, text, next(iter(places.values())))


_REASONS = {
    "missing": ("mesh-missing", "not found"),
    "packaged": ("mesh-missing", "not found in a package; --packages names a folder that holds it"),
    "outside": (
        "mesh-outside",
        "outside '{folder}', where nothing is opened; --packages names further folders",
    ),
    "remote": ("mesh-remote", "on a network, from which nothing is fetched"),
}


def _absence(name: str, folder: Path, place: Place, packages: Sequence[str]) -> str:
    try:
        return "" if present(mesh_path(name, folder, place, packages)) else "missing"
    except RefusedError as error:
        return "remote" if error.identifier == "remote-file" else "outside"
    except DynidError as error:  # no such package, or no name that a file can have
        return "packaged" if error.identifier == "package-missing" else "missing"


def _listed(names: Iterable[str]) -> str:
    quoted = [f"'{name}'" for name in names]
    more = len(quoted) - _LISTED
    listed = ", ".join(quoted[:_LISTED]) + (f" and {more} more" if more > 0 else "")
    return f"mesh {listed} is" if len(quoted) == 1 else f"meshes {listed} are"
