"""Where the meshes that a description names lie, and what is said of those that cannot be read there."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import DynidError, InputError, Place, RefusedError
from dynid.robot.xml import Element, inside, present

PACKAGE_SCHEMES = ("package://", "model://")
NEEDED_FOR = "only the shapes of `dynid limits` and `dynid excite --shapes` are read from meshes"
_LISTED = 4


def mesh_path(name: str, folder: Path, place: Place, packages: Path | None = None) -> Path:
    """Path of a mesh that a description in `folder` names; it need not exist.

    A mesh of package://NAME is looked for in a folder NAME above the file, or in NAME beside one of the folders above
    if it holds a package.xml; with `packages` in packages / NAME alone.
    Raises RefusedError if the name is remote, or leads out of its folder or package, InputError if there is no such
    package or the name is no path.
    """
    scheme = next((one for one in PACKAGE_SCHEMES if name.startswith(one)), None)
    if scheme is None:
        return inside(folder, name.removeprefix("file://"), place)
    package, _, within = name.removeprefix(scheme).partition("/")
    return inside(_package(folder, package, place, packages), within.lstrip("/"), place)


def _package(folder: Path, name: str, place: Place, packages: Path | None) -> Path:
    known = name not in ("", ".", "..") and "\\" not in name and "\0" not in name
    if packages is not None:
        if known and (packages / name).is_dir():
            return packages / name
    elif known:
        for above in (folder.resolve(), *folder.resolve().parents):
            if above.name == name:
                return above
            # Without this file any folder of the machine, such as /etc, could be taken for a package.
            if (above / name / "package.xml").is_file():
                return above / name
    where = f"above '{folder}'" if packages is None else f"in '{packages}'"
    raise InputError(
        "package-missing",
        found=f"no folder of the package '{name}' {where}",
        expected="the file within its package, or beside it",
        do="name the folder that holds the packages, where the command has --packages",
        place=place,
    )


def note_absent_meshes(files: Iterable[tuple[str, Element]], folder: Path, diagnostics: Diagnostics) -> None:
    """Says which meshes of the named files are missing or outside the folder; opens no file.

    files: names and the elements that name them: meshes, and textures and the like, which nothing reads.
    Raises RefusedError for a file that would have to be fetched over a network.
    """
    missing: dict[str, Place] = {}
    packaged: dict[str, Place] = {}
    outside: dict[str, Place] = {}
    for name, element in files:
        absent = packaged if name.startswith(PACKAGE_SCHEMES) else missing
        try:
            if present(mesh_path(name, folder, element.place)):
                continue
        except RefusedError as error:
            if error.identifier == "remote-file":
                raise
            absent = outside
        except DynidError:
            pass  # no such package, or no name that a file can have
        if element.tag == "mesh":
            absent.setdefault(name, element.place)
    if missing:
        text = f"{_listed(missing)} not found; {NEEDED_FOR}"
        diagnostics.warn("mesh-missing", text, next(iter(missing.values())))
    if packaged:
        text = f"{_listed(packaged)} not found in a package above the file; {NEEDED_FOR}"
        diagnostics.note("mesh-missing", text, next(iter(packaged.values())))
    if outside:
        text = f"{_listed(outside)} outside '{folder}', where nothing is opened; {NEEDED_FOR}"
        diagnostics.note("mesh-outside", text, next(iter(outside.values())))


def _listed(names: Iterable[str]) -> str:
    quoted = [f"'{name}'" for name in names]
    more = len(quoted) - _LISTED
    listed = ", ".join(quoted[:_LISTED]) + (f" and {more} more" if more > 0 else "")
    return f"mesh {listed} is" if len(quoted) == 1 else f"meshes {listed} are"
