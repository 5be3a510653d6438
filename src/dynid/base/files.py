"""Files read within a size and written as a whole or not at all, with a lock on the output."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import secrets
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dynid.base.errors import InputError, Place, RefusedError, ResourceError
from dynid.base.records import dataclass

if TYPE_CHECKING:
    from filelock import BaseFileLock


# Who writes an output now: a lock beside it that names the process, and goes with it however the process
# ends.

# File systems end names at 255 bytes; what stands beside an output adds up to 40 to its name.
LONGEST_STEM = 200


@dataclasses.dataclass
class _OutputLock:
    lock: BaseFileLock | None
    count: int
    made: list[Path]


_locked_outputs: dict[Path, _OutputLock] = {}
_guard = threading.RLock()


def stem(place: Path) -> str:
    """What the names of files beside an output begin with, after a dot: its name, shortened with a hash if long."""
    name = place.name
    if len(os.fsencode(name)) <= LONGEST_STEM:
        return name
    return (
        os.fsencode(name)[:100].decode(errors="ignore") + hashlib.sha256(os.fsencode(name)).hexdigest()[:16]
    )


def lock_file(place: Path) -> Path:
    """The file that stands beside an output while it is locked."""
    return place.with_name(f".{stem(place)}.lock")


def lock_output(place: Path) -> Callable[[], None]:
    """Locks an output for this process, which may do so many times, and returns what releases it.

    Folders above it are made, and go again if they are still empty at the end. Where the file system knows no locks,
    nothing is locked.

    Raises RefusedError if another process holds it; OSError if nothing can be written there.
    """
    with _guard:
        output = _locked_outputs.get(place)
        if output is None:
            output = _locked_outputs[place] = _new_lock(place)
        output.count += 1
    return lambda: _release(place)


def forget_all() -> None:
    """Removes all locks of this process, which is about to end at once."""
    for place in list(_locked_outputs):
        with suppress(OSError):
            lock_file(place).unlink()


def _new_lock(place: Path) -> _OutputLock:
    made = _make_parents(place.parent)
    try:
        return _OutputLock(_acquire(place), 0, made)
    except BaseException:
        _remove_parents(made)
        raise


def _acquire(place: Path) -> BaseFileLock | None:
    from filelock import FileLock, Timeout

    path = lock_file(place)
    lock = FileLock(path, timeout=0, thread_local=False, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout as error:
        owner = ""
        with suppress(OSError):  # on Windows a locked file cannot be read
            owner = path.read_text(errors="replace")[:20].strip()
        raise RefusedError(
            "output-busy",
            found=f"'{place}' is being written by another process{f' (pid {owner})' if owner else ''}",
            expected="one at a time",
            do="wait until it is done, or choose another --out",
        ) from error
    except OSError:
        if not path.exists():
            raise
        # The file could be made, but there are no locks on this file system.
        with suppress(OSError):
            path.unlink()
        return None
    with suppress(OSError):
        path.write_text(str(os.getpid()))
    return lock


def _release(place: Path) -> None:
    with _guard:
        output = _locked_outputs[place]
        output.count -= 1
        if output.count:
            return
        # Known until its file is gone: whoever is interrupted here removes it by `forget_all`.
        if output.lock is not None:
            with suppress(OSError):
                lock_file(place).unlink()
        del _locked_outputs[place]
        if output.lock is not None:
            output.lock.release()
        _remove_parents(output.made)


def _make_parents(folder: Path) -> list[Path]:
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for parent in reversed(missing):
        parent.mkdir(exist_ok=True)
    return missing


def _remove_parents(made: list[Path]) -> None:
    for folder in made:
        with suppress(OSError):
            folder.rmdir()


# Files and folders that appear as a whole or not at all: written beside their place, moved there at the
# end.
#
# A folder that `--force` may renew carries a list of the files that were written into it, `manifest.json`.
# Those files are replaced, and nothing else in the folder is touched.
#
# A process that is killed leaves what it wrote beside the place, under a hidden name. Whoever opens or
# writes that output next restores the earlier files from there and removes the rest (`recover`); a lock
# distinguishes the dead from the living.

MANIFEST = "manifest.json"
# Beside the earlier files while new ones take their place: the names of both.
_JOURNAL = "journal.json"
# Time that `abandon` waits for files that are being moved; that takes milliseconds.
_MOVING_SECONDS = 0.3

_active: set[Path] = set()
_moving = threading.RLock()
_written: list[Path] = []


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
    place = _link_target(folder)
    try:
        with _claimed(place):
            _replaceable(folder, kind, force)
            with _scratch(place) as scratch:
                scratch.mkdir()
                yield scratch
                if kind is not None:
                    _write_manifest(scratch, kind)
                with _moving:
                    listed = _replaceable(folder, kind, force)
                    if listed is None:
                        scratch.rename(place)
                    else:
                        _replace_files(scratch, place, listed)
                    _written.append(folder)
    except OSError as error:
        raise _cannot_write(error, folder) from error


@contextmanager
def staged_files(*paths: Path) -> Iterator[tuple[Path, ...]]:
    """A new file beside each path to write to; they replace the paths when the block ends, unless it fails.

    A link in place of a file stays a link. Where a process is killed between two of several files, those that are left
    take their place as soon as the first of the paths is opened or written again.
    Raises ResourceError for an OSError in the block.
    """
    places = tuple(_link_target(path) for path in paths)
    # Files of one folder belong together: one lock, and unfinished ones are found by the name of the first.
    first: dict[Path, Path] = {}
    for place in places:
        first.setdefault(place.parent, place)
    try:
        with ExitStack() as stack:
            for place in places:
                if place in first.values():
                    stack.enter_context(_claimed(place))
                else:
                    recover(place)
            scratch = tuple(stack.enter_context(_scratch(place, first[place.parent])) for place in places)
            yield scratch
            with _moving:
                _move_into_place(scratch, places)
                _written.extend(paths)
    except OSError as error:
        raise _cannot_write(error, *paths) from error


def claim(folder: Path) -> Callable[[], None]:
    """Takes an output for this process before anything is computed, and returns what gives it up.

    What a killed process left of it is put in order. Raises RefusedError if another process is writing it;
    ResourceError if nothing can be written there.
    """
    place = _link_target(folder)
    try:
        release = lock_output(place)
    except OSError as error:
        raise _cannot_write(error, folder) from error
    _recover(place)
    return release


def recover(folder: Path) -> None:
    """Puts in order what a killed process left of an output: earlier files come back, unfinished ones go.

    Does nothing where another process is writing, or nothing may be written.
    """
    place = _link_target(folder)
    if not lock_file(place).exists() and not any(_leftovers(place)):
        return
    with suppress(OSError, RefusedError), _claimed(place):
        pass


def written() -> tuple[Path, ...]:
    """The outputs that this process has put in their place."""
    return tuple(_written)


def abandon() -> None:
    """Removes all unfinished outputs of this process, which is about to end at once; may run in any thread.

    Files that are just taking their place get there first. Where that takes too long, what is needed to bring the
    earlier files back is left to the next command, as after a kill.
    """
    if _moving.acquire(timeout=_MOVING_SECONDS):
        for scratch in list(_active):
            _remove(scratch)
    forget_all()


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
    return () if listed is None else tuple(_unlisted(folder.resolve(), listed))


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
    return None if names is None else frozenset(name for name in names if _is_file_inside(place, name))


def edited_files(folder: Path, kind: FolderKind) -> tuple[str, ...]:
    """Names of the files in a folder of this kind that are no longer what dynid wrote, by their checksums."""
    try:
        data = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        sums = data["sha256"].items() if data["kind"] == kind.name else ()
        return tuple(name for name, expected in sums if _checksum(folder / name) != expected)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return ()


def _checksum(path: Path) -> str:
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def renew_checksums(folder: Path) -> None:
    """Writes the manifest of a folder whose files dynid itself has changed with their checksums of now."""
    data = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    data["sha256"] = {name: _checksum(folder / name) for name in data["files"]}
    with staged_files(folder / MANIFEST) as (part,):
        part.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _manifest(folder: Path, kind: FolderKind) -> Iterable[str] | None:
    try:
        data = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or data.get("kind") != kind.name or not isinstance(data.get("files"), list):
        return None
    return [MANIFEST, *(name for name in data["files"] if isinstance(name, str))]


def _write_manifest(folder: Path, kind: FolderKind) -> None:
    files = _files(folder)
    sums = {name: _checksum(folder / name) for name in files}
    text = json.dumps({"kind": kind.name, "files": files, "sha256": sums}, indent=1, ensure_ascii=False)
    (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")


def _is_file_inside(folder: Path, name: str) -> bool:
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
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())


def _unlisted(folder: Path, listed: frozenset[str], within: str = "") -> Iterator[str]:
    for entry in sorted(os.scandir(folder / within), key=lambda item: item.name):
        name = within + entry.name
        is_folder = entry.is_dir(follow_symlinks=False)
        if is_folder and any(item.startswith(f"{name}/") for item in listed):
            yield from _unlisted(folder, listed, f"{name}/")
        elif name not in listed:
            yield f"{name}/" if is_folder else name


def _replaceable(folder: Path, kind: FolderKind | None, force: bool) -> frozenset[str] | None:
    # The files that make way; None = there is nothing yet.
    if kind is not None and force and (listed := listed_files(folder, kind)) is not None:
        return listed
    refuse_existing(folder)
    return None


@contextmanager
def _claimed(place: Path) -> Iterator[None]:
    release = lock_output(place)
    try:
        _recover(place)
        yield
    finally:
        release()


@contextmanager
def _scratch(place: Path, named: Path | None = None) -> Iterator[Path]:
    scratch = _scratch_path(place, "partial", named)
    _active.add(scratch)
    try:
        yield scratch
    finally:
        _remove(scratch)
        _active.discard(scratch)


def sweep(folder: Path) -> None:
    """Deletes what killed writers left half-written in a folder that no other command writes into now."""
    for path in (*folder.glob(".*.partial"), *folder.glob(".*.lock")):
        _remove(path)


def remove(path: Path) -> None:
    """Deletes a file, a link or a folder with everything in it, on its user's word; raises OSError if it cannot."""
    path.unlink() if not path.is_dir() or path.is_symlink() else shutil.rmtree(path)


def _remove(path: Path) -> None:
    # An error here would hide the one that left something behind.
    with suppress(OSError):
        path.unlink() if not path.is_dir() or path.is_symlink() else shutil.rmtree(path, ignore_errors=True)


def _leftovers(place: Path) -> Iterator[Path]:
    name = re.compile(rf"\.{re.escape(stem(place))}\.\d+-[0-9a-f]{{8}}\.(partial|earlier|moving)")
    with suppress(OSError):
        yield from sorted(
            path for path in place.parent.iterdir() if name.fullmatch(path.name) and path not in _active
        )


def _recover(place: Path) -> None:
    # Called with the lock held: what lies here belongs to no living process.
    for leftover in sorted(_leftovers(place), key=lambda path: path.suffix == ".partial"):
        if leftover.suffix == ".earlier":
            _restore(place, leftover)
        elif leftover.suffix == ".moving":
            _finish_moves(leftover)
        _remove(leftover)


def _move_into_place(scratch: Sequence[Path], places: Sequence[Path]) -> None:
    # Every name holds one file or the other all the time; with a list of the moves a killed process's are finished.
    if len(places) < 2:
        for part, place in zip(scratch, places, strict=True):
            part.replace(place)
        return
    with _scratch(places[0]) as unfinished:
        moves = {
            str(part.absolute()): str(place.absolute()) for part, place in zip(scratch, places, strict=True)
        }
        unfinished.write_text(json.dumps(moves), encoding="utf-8")
        listed = unfinished.with_suffix(".moving")
        _active.add(listed)
        try:
            unfinished.rename(listed)
            for part, place in zip(scratch, places, strict=True):
                part.replace(place)
        except BaseException:
            with suppress(OSError):
                _finish_moves(listed)
            raise
        finally:
            _remove(listed)
            _active.discard(listed)


def _finish_moves(listed: Path) -> None:
    # May be cut short at any place and begun again.
    try:
        moves = dict(json.loads(listed.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return
    for part, place in moves.items():
        # Only unfinished files beside the list are moved, and within its folder: anyone may have written a list.
        here = Path(part).parent == Path(place).parent == listed.parent.absolute()
        if here and re.fullmatch(r"\..*\.partial", Path(part).name) and Path(part).is_file():
            Path(part).replace(place)


def _replace_files(scratch: Path, folder: Path, listed: frozenset[str]) -> None:
    # The manifest goes first and comes last: a folder left half way is of no kind at all until it is restored.
    old = sorted(listed, key=lambda name: (name != MANIFEST, name))
    new = sorted(_files(scratch), key=lambda name: (name == MANIFEST, name))
    _refuse_clash(folder, listed, new)
    earlier = _scratch_path(folder, "earlier")
    _active.add(earlier)
    try:
        earlier.mkdir()
        _write_journal(earlier, old, new)
        for name in old:
            _move(folder / name, earlier / name)
        for name in new:
            _move(scratch / name, folder / name)
        # From here on the new files count.
        (earlier / _JOURNAL).unlink()
    except BaseException:
        _restore(folder, earlier)
        raise
    finally:
        # With its journal it is still needed: the next command tries again to restore from it.
        if not (earlier / _JOURNAL).exists():
            shutil.rmtree(earlier, ignore_errors=True)
        _active.discard(earlier)
    _remove_empty(folder, listed)


def _write_journal(earlier: Path, old: Sequence[str], new: Sequence[str]) -> None:
    part = earlier / f"{_JOURNAL}.part"
    part.write_text(json.dumps({"old": old, "new": new}), encoding="utf-8")
    part.rename(earlier / _JOURNAL)


def _restore(folder: Path, earlier: Path) -> None:
    # May be cut short at any place and begun again. Without a journal nothing was moved yet, or the new files count.
    try:
        names = json.loads((earlier / _JOURNAL).read_text(encoding="utf-8"))
        old, new = names["old"], names["new"]
    except (OSError, ValueError, KeyError, TypeError):
        return
    for name in new:
        # A new file stands in its place only once the earlier one of that name is out of it.
        if name not in old or os.path.lexists(earlier / name):
            with suppress(OSError):
                (folder / name).unlink()
    _remove_empty(folder, set(new) - set(old))
    for name in sorted(old, key=lambda name: (name == MANIFEST, name)):
        if os.path.lexists(earlier / name):
            _move(earlier / name, folder / name)
    (earlier / _JOURNAL).unlink()


def _refuse_clash(folder: Path, listed: frozenset[str], new: Sequence[str]) -> None:
    for name in new:
        if name in listed:
            continue
        parents = [folder / parent for parent in Path(name).parents if str(parent) != "."]
        clash = next(
            (
                parent
                for parent in parents
                if parent.is_symlink() or (parent.exists() and not parent.is_dir())
            ),
            None,
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
    for parent in sorted(parents - {folder}, key=lambda path: -len(path.parts)):
        with suppress(OSError):
            parent.rmdir()


def _link_target(path: Path) -> Path:
    return path.resolve() if path.is_symlink() else path


def _scratch_path(path: Path, ending: str, named: Path | None = None) -> Path:
    return path.with_name(f".{stem(named or path)}.{os.getpid()}-{secrets.token_hex(4)}.{ending}")


def _cannot_write(error: OSError, *paths: Path) -> ResourceError:
    names = ", ".join(f"'{path}'" for path in paths)
    return ResourceError(
        "cannot-write",
        found=f"writing {names} failed: {error.strerror or error}",
        expected="space and permission",
    )


# Bytes of an input file, at most so many, or one error that says what is wrong with it.


def read_bytes(path: str | Path, kind: str, limit: int) -> bytes:
    """Bytes of an input file, at most `limit` of them.

    Raises InputError if it is missing or a folder, RefusedError if it is larger, ResourceError if it cannot
    be read.
    """
    place = Place(file=str(path))
    try:
        with Path(path).open("rb") as file:
            data = file.read(limit + 1)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError("file-missing", found="no such file", expected=kind, place=place) from error
    except IsADirectoryError as error:
        raise InputError("file-missing", found="a folder", expected=kind, place=place) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise ResourceError("file-unreadable", found=f"'{reason}'", expected=kind, place=place) from error
    except ValueError as error:
        raise InputError("file-missing", found=f"a path with {error}", expected=kind, place=place) from error
    if len(data) > limit:
        raise RefusedError(
            "too-large", found=f"more than {limit} bytes", expected=f"at most {limit} bytes", place=place
        )
    return data
