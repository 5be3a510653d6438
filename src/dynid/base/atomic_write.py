"""Files and folders that appear as a whole or not at all: written beside their place, moved there at the end.

A folder that `--force` may renew carries a list of the files that were written into it, `manifest.json`. Those files
are replaced, and nothing else in the folder is touched.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from dynid.base.errors import RefusedError, ResourceError

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class FolderKind:
    """A kind of output folder that may be renewed.

    name: word for it, in its manifest and in messages.
    without_manifest: names of dynid's files in a folder from before there were manifests; None = not of this kind.
    """

    name: str
    without_manifest: Callable[[Path], Iterable[str] | None]


@contextmanager
def staged_folder(folder: Path, kind: FolderKind | None = None, force: bool = False) -> Iterator[Path]:
    """A new folder to write into, whose files take their place in `folder` when the block ends.

    kind: what is written; a manifest is added, so that the folder can be renewed (None: it never is).
    force: whether a folder of that kind is renewed: the files on its list make way for the new ones, all others stay.
    After any error, and after Ctrl-C, everything is as it was. A link in place of the folder stays a link.

    Raises RefusedError if something else stands there, at the beginning or at the end, or a file that is not on the
    list bears the name of a new one; ResourceError for an OSError in the block.
    """
    place = _real(folder)
    _replaceable(folder, kind, force)
    scratch = _beside(place, "partial")
    try:
        scratch.mkdir(parents=True)
        yield scratch
        if kind is not None:
            _write_manifest(scratch, kind)
        listed = _replaceable(folder, kind, force)
        if listed is None:
            scratch.rename(place)
        else:
            _renew(scratch, place, listed)
    except OSError as error:
        raise _cannot_write(error, folder) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def staged_files(*paths: Path) -> Iterator[tuple[Path, ...]]:
    """A new file beside each path to write to; they replace the paths when the block ends, unless it fails.

    A link in place of a file stays a link.    Raises ResourceError for an OSError in the block.
    """
    places = tuple(_real(path) for path in paths)
    scratch = tuple(_beside(path, "partial") for path in places)
    try:
        yield scratch
        for part, path in zip(scratch, places, strict=True):
            part.replace(path)
    except OSError as error:
        raise _cannot_write(error, *paths) from error
    finally:
        for part in scratch:
            # An error here would hide the one that left the file behind.
            with suppress(OSError):
                part.unlink()


def refuse_existing(path: Path, do: str = "choose another name") -> None:
    """Raises RefusedError if an output exists already."""
    if path.exists():
        raise RefusedError(
            "output-exists",
            found=f"output '{path}' exists already",
            expected="a place that does not exist yet",
            do=do,
        )


def other_files(folder: Path, kind: FolderKind) -> tuple[str, ...]:
    """What stays when a folder is renewed: the files that are not on its list; whole folders of such end in a slash."""
    listed = listed_files(folder, kind)
    return () if listed is None else tuple(_others(folder.resolve(), listed))


def check_place(folder: Path, inputs: Sequence[Path], force: bool, kind: FolderKind) -> tuple[str, ...]:
    """Refuses an output folder before anything is computed; returns what stays in one that is to be renewed.

    Raises RefusedError if it exists (unless `force` and it is of that kind) or holds an input; ResourceError if its
    parent cannot be written.
    """
    target = folder.resolve()
    for path in inputs:
        source = path.resolve()
        if source == target or target in source.parents:
            raise RefusedError(
                "output-is-input",
                found=f"output '{folder}' holds the input '{path}'",
                expected="another folder",
            )
    if not force:
        refuse_existing(folder, f"choose another --out, or --force to replace that {kind.name}")
    if folder.exists() and listed_files(folder, kind) is None:
        raise RefusedError(
            f"not-a-{kind.name}",
            found=f"'{folder}' is not a {kind.name} folder",
            expected=f"a {kind.name} of dynid to replace",
            do="choose another --out",
        )
    parent = target.parent
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise ResourceError(
            "cannot-write",
            found=f"no permission to write in '{parent}'",
            expected="a writable folder for --out",
        )
    return other_files(folder, kind)


def listed_files(folder: Path, kind: FolderKind) -> frozenset[str] | None:
    """Names of the files in a folder that belong to it, relative and with slashes; None = no folder of this kind."""
    if not folder.is_dir():
        return None
    place = folder.resolve()
    names = _manifest(place, kind)
    if names is None:
        names = kind.without_manifest(place)
    return None if names is None else frozenset(name for name in names if _is_own_file(place, name))


def _manifest(folder: Path, kind: FolderKind) -> Iterable[str] | None:
    try:
        data = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or data.get("kind") != kind.name or not isinstance(data.get("files"), list):
        return None
    return [MANIFEST, *(name for name in data["files"] if isinstance(name, str))]


def _write_manifest(folder: Path, kind: FolderKind) -> None:
    text = json.dumps({"kind": kind.name, "files": _files(folder)}, indent=1, ensure_ascii=False)
    (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")


def _is_own_file(folder: Path, name: str) -> bool:
    # A list may have been written by anyone: nothing outside the folder is ever its own, links included.
    try:
        path = folder / name
        inside = path.parent.resolve()
        return (
            (inside == folder or folder in inside.parents)
            and path.name not in ("", ".", "..")
            and (path.is_symlink() or path.is_file())
        )
    except (OSError, ValueError):
        return False


def _files(folder: Path) -> list[str]:
    return sorted(one.relative_to(folder).as_posix() for one in folder.rglob("*") if not one.is_dir())


def _others(folder: Path, listed: frozenset[str], within: str = "") -> Iterator[str]:
    for entry in sorted(os.scandir(folder / within), key=lambda one: one.name):
        name = within + entry.name
        is_folder = entry.is_dir(follow_symlinks=False)
        if is_folder and any(one.startswith(f"{name}/") for one in listed):
            yield from _others(folder, listed, f"{name}/")
        elif name not in listed:
            yield f"{name}/" if is_folder else name


def _replaceable(folder: Path, kind: FolderKind | None, force: bool) -> frozenset[str] | None:
    # The files that make way; None = there is nothing yet.
    if kind is not None and force and (listed := listed_files(folder, kind)) is not None:
        return listed
    refuse_existing(folder)
    return None


def _renew(scratch: Path, folder: Path, listed: frozenset[str]) -> None:
    # The manifest goes first and comes last: a folder left half way by a lost power supply is of no kind at all.
    old = sorted(listed, key=lambda name: (name != MANIFEST, name))
    new = sorted(_files(scratch), key=lambda name: (name == MANIFEST, name))
    _refuse_clash(folder, listed, new)
    earlier = _beside(folder, "earlier")
    try:
        for name in old:
            _move(folder / name, earlier / name)
        for name in new:
            _move(scratch / name, folder / name)
    except BaseException:
        for name in new:
            if not os.path.lexists(scratch / name):
                _move(folder / name, scratch / name)
        for name in old:
            if os.path.lexists(earlier / name):
                _move(earlier / name, folder / name)
        _remove_empty(earlier, old)
        with suppress(OSError):
            earlier.rmdir()
        _remove_empty(folder, set(new) - listed)
        raise
    shutil.rmtree(earlier, ignore_errors=True)
    _remove_empty(folder, listed)


def _refuse_clash(folder: Path, listed: frozenset[str], new: Sequence[str]) -> None:
    for name in new:
        if name in listed:
            continue
        parents = [folder / one for one in Path(name).parents if str(one) != "."]
        clash = next(
            (one for one in parents if one.is_symlink() or (one.exists() and not one.is_dir())), None
        )
        if clash is None and os.path.lexists(folder / name):
            clash = folder / name
        if clash is not None:
            raise RefusedError(
                "output-exists",
                found=f"'{clash}' is in the way of a new file, and is not on the list of that folder",
                expected="no file of one's own under a name that is to be written",
                do="move it away, or choose another --out",
            )


def _move(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    source.rename(target)


def _remove_empty(folder: Path, names: Iterable[str]) -> None:
    parents = {
        parent for name in names for parent in (folder / name).parents if folder in (parent, *parent.parents)
    }
    for parent in sorted(parents - {folder}, key=lambda one: -len(one.parts)):
        with suppress(OSError):
            parent.rmdir()


def _real(path: Path) -> Path:
    return path.resolve() if path.is_symlink() else path


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.{ending}")


def _cannot_write(error: OSError, *paths: Path) -> ResourceError:
    names = ", ".join(f"'{path}'" for path in paths)
    return ResourceError(
        "cannot-write",
        found=f"writing {names} failed: {error.strerror or error}",
        expected="space and permission",
    )
