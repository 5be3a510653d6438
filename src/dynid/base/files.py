"""Bounded reading of files; atomic writing of files and folders, with a lock on the output."""

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


# Locks on outputs: a lock file next to the output contains the process id. The lock ends with the process, even if the
# process is killed.

# Bytes: file systems limit names to 255, and names of temporary files add up to 40.
LONGEST_STEM = 200


@dataclasses.dataclass
class _OutputLock:
    lock: BaseFileLock | None
    count: int
    made: list[Path]


_locked_outputs: dict[Path, _OutputLock] = {}
_guard = threading.RLock()


def stem(place: Path) -> str:
    """Return the stem of temporary file names for an output: its name, shortened with a hash if it is long."""
    name = place.name
    if len(os.fsencode(name)) <= LONGEST_STEM:
        return name
    return (
        os.fsencode(name)[:100].decode(errors="ignore") + hashlib.sha256(os.fsencode(name)).hexdigest()[:16]
    )


def lock_file(place: Path) -> Path:
    """Return the path of the lock file of an output."""
    return place.with_name(f".{stem(place)}.lock")


def lock_output(place: Path) -> Callable[[], None]:
    """Lock an output for this process and return the function that releases it.

    A process may lock an output several times. Missing parent folders are created, and removed at the end if they are
    still empty. Nothing is locked on file systems without locks.

    Raises RefusedError if another process has locked the output, OSError if nothing can be written there.
    """
    with _guard:
        output = _locked_outputs.get(place)
        if output is None:
            output = _locked_outputs[place] = _new_lock(place)
        output.count += 1
    return lambda: _release(place)


def forget_all() -> None:
    """Remove all lock files of this process, which is about to exit."""
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
            found=f"output '{place}' in use by another process{f' (pid {owner})' if owner else ''}",
            expected="one process per output",
            do="wait until it has finished, or choose another --out",
        ) from error
    except OSError:
        if not path.exists():
            raise
        # The file was created, so this file system has no locks.
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
        # Forget the lock last: after an interruption here, `forget_all` still removes its file.
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


# Atomic writing: files and folders are written under a hidden name next to their place and moved there at the end.
#
# A folder that `--force` may replace contains a list of its files, `manifest.json`. Only those files are replaced.
#
# A killed process leaves its hidden files. The next process that opens or writes the output restores the earlier files
# from there and removes the rest (`recover`). A lock shows whether the writing process is still alive.

MANIFEST = "manifest.json"
# Names of earlier and new files, next to the earlier files while new ones replace them.
_JOURNAL = "journal.json"
# s: how long `abandon` waits for files that are being moved, which takes milliseconds.
_MOVING_SECONDS = 0.3

_active: set[Path] = set()
_moving = threading.RLock()
_written: list[Path] = []


@dataclass(frozen=True)
class FolderKind:
    """A kind of output folder that may be replaced.

    Parameters
    ----------
    name : str
        Word for it in manifests and messages.
    without_manifest : callable
        Names of dynid's files in a folder without a manifest, as older versions wrote it; None = not of this kind.

    """

    name: str
    without_manifest: Callable[[Path], Iterable[str] | None]


@contextmanager
def staged_folder(folder: Path, kind: FolderKind | None = None, force: bool = False) -> Iterator[Path]:
    """Write a folder atomically: yield a temporary folder whose files move to `folder` when the block ends.

    After any error, and after Ctrl-C, nothing has changed. A symbolic link in place of the folder stays a link.

    Parameters
    ----------
    folder : Path
        The output.
    kind : FolderKind, optional
        Adds a manifest, so that the folder can be replaced later.
    force : bool
        Replace an existing folder of that kind: files in its manifest are removed, all others stay.

    Yields
    ------
    Path

    Raises
    ------
    RefusedError
        If the folder exists and may not be replaced, or a file outside the manifest has the name of a new file.
    ResourceError
        For an OSError in the block.

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
    """Write files atomically: yield a temporary path for each, which replace the paths when the block succeeds.

    A symbolic link in place of a file stays a link. If the process is killed between two of several files, the others
    are moved as soon as the first of the paths is opened or written again.

    Parameters
    ----------
    *paths : Path
        The outputs.

    Yields
    ------
    tuple of Path

    Raises
    ------
    ResourceError
        For an OSError in the block.

    """
    places = tuple(_link_target(path) for path in paths)
    # Files of one folder share a lock, and their temporary files have the name of the first.
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
    """Lock an output before anything is computed, and return the function that releases it.

    Leftovers of a killed process are cleaned up first.

    Parameters
    ----------
    folder : Path
        The output.

    Returns
    -------
    callable

    Raises
    ------
    RefusedError
        If another process is writing it.
    ResourceError
        If nothing can be written there.

    """
    place = _link_target(folder)
    try:
        release = lock_output(place)
    except OSError as error:
        raise _cannot_write(error, folder) from error
    _recover(place)
    return release


def recover(folder: Path) -> None:
    """Clean up after a killed process: restore earlier files of an output and remove unfinished ones.

    Does nothing if another process is writing the output, or it is not writable.
    """
    place = _link_target(folder)
    if not lock_file(place).exists() and not any(_leftovers(place)):
        return
    with suppress(OSError, RefusedError), _claimed(place):
        pass


def written() -> tuple[Path, ...]:
    """Return the outputs that this process has finished."""
    return tuple(_written)


def abandon() -> None:
    """Remove all unfinished outputs of this process, which is about to exit; may run in any thread.

    Waits for files that are being moved. If that takes too long, the next command restores the earlier files, as after
    a kill.
    """
    if _moving.acquire(timeout=_MOVING_SECONDS):
        for scratch in list(_active):
            _remove(scratch)
    forget_all()


def refuse_existing(path: Path, do: str = "choose another name") -> None:
    """Raise RefusedError if an output already exists.

    Parameters
    ----------
    path : Path
        The output.
    do : str
        Advice in the message.

    """
    if path.exists():
        raise RefusedError(
            "output-exists",
            found=f"output '{path}', which exists already",
            expected="a path that does not exist yet",
            do=do,
        )


def other_files(folder: Path, kind: FolderKind) -> tuple[str, ...]:
    """Files that stay when a folder is replaced, since they are not in its manifest.

    Parameters
    ----------
    folder : Path
        The output.
    kind : FolderKind
        Its kind.

    Returns
    -------
    tuple of str
        Relative names; a folder without files of the manifest is one name that ends in a slash.

    """
    listed = listed_files(folder, kind)
    return () if listed is None else tuple(_unlisted(folder.resolve(), listed))


def check_place(folder: Path, inputs: Sequence[Path], force: bool, kind: FolderKind) -> tuple[str, ...]:
    """Check an output folder before anything is computed.

    Parameters
    ----------
    folder : Path
        The output.
    inputs : sequence of Path
        Files and folders that are read.
    force : bool
        Whether an existing folder of that kind may be replaced.
    kind : FolderKind
        Kind of the output.

    Returns
    -------
    tuple of str
        Files that stay when the folder is replaced, see `other_files`.

    Raises
    ------
    RefusedError
        If the folder exists and may not be replaced, or contains an input.
    ResourceError
        If its parent is not writable.

    """
    target = folder.resolve()
    for path in inputs:
        source = path.resolve()
        if source == target or target in source.parents:
            raise RefusedError(
                "output-is-input",
                found=f"output '{folder}', which contains the input '{path}'",
                expected="separate folders",
                do="choose another --out",
            )
    if not force:
        refuse_existing(folder, f"choose another --out, or --force to replace that {kind.name}")
    if folder.exists() and listed_files(folder, kind) is None:
        raise RefusedError(
            f"not-a-{kind.name}",
            found=f"'{folder}', which is not a {kind.name} folder of dynid",
            expected=f"a {kind.name} folder to replace",
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
    """Names of the files in a folder that belong to its manifest.

    Parameters
    ----------
    folder : Path
        The folder.
    kind : FolderKind
        Its kind.

    Returns
    -------
    frozenset of str or None
        Relative names with slashes; None if the folder is not of this kind.

    """
    if not folder.is_dir():
        return None
    place = folder.resolve()
    names = _manifest(place, kind)
    if names is None:
        names = kind.without_manifest(place)
    return None if names is None else frozenset(name for name in names if _is_file_inside(place, name))


def edited_files(folder: Path, kind: FolderKind) -> tuple[str, ...]:
    """Names of the files in a folder of this kind that were edited after dynid wrote them, by their checksums."""
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
    """Update the checksums in the manifest of a folder whose files dynid itself has changed."""
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
    # Anyone may have written the manifest: files outside the folder never count, links included.
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
    # Files that are replaced; None = the folder does not exist.
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
    """Delete temporary files of killed processes from a folder that no other command is writing into.

    Parameters
    ----------
    folder : Path
        The folder.

    """
    for path in (*folder.glob(".*.partial"), *folder.glob(".*.lock")):
        _remove(path)


def remove(path: Path) -> None:
    """Delete a file, a link or a folder with its contents, at the user's request.

    Parameters
    ----------
    path : Path
        What is deleted.

    Raises
    ------
    OSError
        If it cannot be deleted.

    """
    path.unlink() if not path.is_dir() or path.is_symlink() else shutil.rmtree(path)


def _remove(path: Path) -> None:
    # An error here would hide the original error.
    with suppress(OSError):
        path.unlink() if not path.is_dir() or path.is_symlink() else shutil.rmtree(path, ignore_errors=True)


def _leftovers(place: Path) -> Iterator[Path]:
    name = re.compile(rf"\.{re.escape(stem(place))}\.\d+-[0-9a-f]{{8}}\.(partial|earlier|moving)")
    with suppress(OSError):
        yield from sorted(
            path for path in place.parent.iterdir() if name.fullmatch(path.name) and path not in _active
        )


def _recover(place: Path) -> None:
    # Called with the output locked, so that the leftovers belong to no running process.
    for leftover in sorted(_leftovers(place), key=lambda path: path.suffix == ".partial"):
        if leftover.suffix == ".earlier":
            _restore(place, leftover)
        elif leftover.suffix == ".moving":
            _finish_moves(leftover)
        _remove(leftover)


def _move_into_place(scratch: Sequence[Path], places: Sequence[Path]) -> None:
    # Each name always has the old or the new file. The next process finishes the listed moves of a killed one.
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
    # May be interrupted anywhere and repeated.
    try:
        moves = dict(json.loads(listed.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return
    for part, place in moves.items():
        # Anyone may have written the list: only unfinished files next to it are moved, within its folder.
        here = Path(part).parent == Path(place).parent == listed.parent.absolute()
        if here and re.fullmatch(r"\..*\.partial", Path(part).name) and Path(part).is_file():
            Path(part).replace(place)


def _replace_files(scratch: Path, folder: Path, listed: frozenset[str]) -> None:
    # The manifest moves out first and in last, so that a half-replaced folder never looks complete.
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
        # Without the journal, the new files are valid.
        (earlier / _JOURNAL).unlink()
    except BaseException:
        _restore(folder, earlier)
        raise
    finally:
        # With its journal, the next command restores from it.
        if not (earlier / _JOURNAL).exists():
            shutil.rmtree(earlier, ignore_errors=True)
        _active.discard(earlier)
    _remove_empty(folder, listed)


def _write_journal(earlier: Path, old: Sequence[str], new: Sequence[str]) -> None:
    part = earlier / f"{_JOURNAL}.part"
    part.write_text(json.dumps({"old": old, "new": new}), encoding="utf-8")
    part.rename(earlier / _JOURNAL)


def _restore(folder: Path, earlier: Path) -> None:
    # May be interrupted anywhere and repeated. Without a journal, nothing was moved yet or the new files are valid.
    try:
        names = json.loads((earlier / _JOURNAL).read_text(encoding="utf-8"))
        old, new = names["old"], names["new"]
    except (OSError, ValueError, KeyError, TypeError):
        return
    for name in new:
        # A new file is in place only if the earlier file of that name has been moved out.
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
                found=f"'{clash}', which has the name of a new file and was not written by dynid",
                expected="no such file",
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
        expected="free space and write permission",
    )


# Bounded reading of input files.


# Bytes of memory for the content of a file, at least and as a multiple of its size, to refuse decompression bombs: real
# logs are compressed by a factor of 100 at most.
LEAST_BUDGET, TIMES_FILE = 1 << 28, 100


class Budget:
    """Memory allowed for the content of a file, spent before memory is allocated.

    Parameters
    ----------
    path : Path
        The file, whose size determines the budget.
    do : str
        Advice for a user whose file takes more.

    """

    def __init__(self, path: Path, do: str = "export the log without it, or in another format") -> None:
        self.path, self.do = path, do
        self.size = path.stat().st_size
        self.left = self.most = max(LEAST_BUDGET, TIMES_FILE * self.size)

    def spend(self, size: int, purpose: str) -> None:
        """Reserve memory.

        Parameters
        ----------
        size : int, bytes
            Memory to reserve.
        purpose : str
            What it is for, for the message.

        Raises
        ------
        RefusedError
            If less memory is left.

        """
        self.left -= size
        if size < 0 or self.left < 0:
            raise RefusedError(
                "too-large",
                found=f"{purpose}, which would take {self.most - self.left} bytes of memory for a file of "
                f"{self.size} bytes",
                expected=f"at most {self.most} bytes",
                do=self.do,
                place=Place(file=str(self.path)),
            )


def read_bytes(path: str | Path, kind: str, limit: int) -> bytes:
    """Read the bytes of an input file.

    Parameters
    ----------
    path : str or Path
        The file.
    kind : str
        What is expected there, for messages.
    limit : int, bytes
        Greatest size.

    Returns
    -------
    bytes

    Raises
    ------
    InputError
        If the file is missing or a folder.
    RefusedError
        If it is larger than the limit.
    ResourceError
        If it cannot be read.

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
        raise ResourceError(
            "file-unreadable", found=f"a read error: {reason}", expected=kind, place=place
        ) from error
    except ValueError as error:
        raise InputError("file-missing", found=f"a path with {error}", expected=kind, place=place) from error
    if len(data) > limit:
        raise RefusedError(
            "too-large", found=f"more than {limit} bytes", expected=f"at most {limit} bytes", place=place
        )
    return data
