"""Files and folders appear whole or not at all, whatever stops the writing."""

from __future__ import annotations

import ast
import errno
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dynid.base import (
    DynidError,
    FolderKind,
    RefusedError,
    ResourceError,
    UsageError,
    check_place,
    claim,
    recover,
    refuse_existing,
    staged_files,
    staged_folder,
)
from dynid.base import files as atomic_write

SOURCE = Path(__file__).resolve().parents[1] / "src" / "dynid"
FAILURES = [
    OSError(28, "No space left on device"),
    UsageError("bad", found="a bad format"),
    RuntimeError("a bug"),
    KeyboardInterrupt(),
    SystemExit(1),
]


def files_of_mine(folder: Path) -> list[str] | None:
    return ["mine.json", "deep/old.txt"] if (folder / "mine.json").is_file() else None


MINE = FolderKind("mine", files_of_mine)
OTHER = FolderKind("other", lambda folder: None)


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else b"" for p in folder.rglob("*")}


def earlier_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    (folder / "deep").mkdir(parents=True)
    (folder / "mine.json").write_text("{}")
    (folder / "deep" / "old.txt").write_text("old")
    return folder


# A folder


def test_nothing_is_seen_until_the_folder_is_whole(tmp_path: Path) -> None:
    out = tmp_path / "new" / "deep" / "out"
    with staged_folder(out) as scratch:
        (scratch / "a.txt").write_text("a")
        assert not out.exists()
        assert scratch.parent == out.parent
    assert tree(tmp_path / "new" / "deep") == {"out": b"", "out/a.txt": b"a"}


@pytest.mark.parametrize("failure", FAILURES, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("replaced", [False, True])
def test_a_failure_half_way_leaves_all_as_it_was(
    failure: BaseException, replaced: bool, tmp_path: Path
) -> None:
    out = earlier_folder(tmp_path) if replaced else tmp_path / "out"
    before = tree(tmp_path)
    expected = ResourceError if isinstance(failure, OSError) else type(failure)

    def stopped() -> None:
        with staged_folder(out, MINE, force=True) as scratch:
            (scratch / "mine.json").write_text("{}")
            (scratch / "inside").mkdir()
            raise failure

    with pytest.raises(expected) as caught:
        stopped()
    assert tree(tmp_path) == before
    if isinstance(failure, OSError):
        assert isinstance(caught.value, DynidError)
        assert caught.value.exit_code == 6
        assert f"writing '{out}' failed: No space left on device" in str(caught.value)


def test_what_is_there_is_refused_with_nothing_written(tmp_path: Path) -> None:
    out = earlier_folder(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    before = tree(tmp_path)
    for path in (out, tmp_path / "empty", tmp_path / "file"):
        for kind, force in ((None, True), (MINE, False), (OTHER, True)):
            with (
                pytest.raises(RefusedError, match="output-exists") as caught,
                staged_folder(path, kind, force),
            ):
                pytest.fail("must not begin")
            assert caught.value.exit_code == 7
    assert tree(tmp_path) == before


def test_a_folder_of_its_own_is_renewed(tmp_path: Path) -> None:
    out = earlier_folder(tmp_path)
    for text in ("new", "newer"):
        with staged_folder(out, MINE, force=True) as scratch:
            (scratch / "new.txt").write_text(text)
        listed = json.loads((out / "manifest.json").read_text())
        assert listed.pop("sha256") == {"new.txt": hashlib.sha256((out / "new.txt").read_bytes()).hexdigest()}
        assert listed == {"kind": "mine", "files": ["new.txt"]}
        assert (out / "new.txt").read_text() == text
        assert sorted(tree(tmp_path)) == ["out", "out/manifest.json", "out/new.txt"]


def write_listed(out: Path, *names: str) -> None:
    with staged_folder(out, MINE, force=True) as scratch:
        for name in names:
            (scratch / name).parent.mkdir(exist_ok=True)
            (scratch / name).write_text(name)


def test_files_of_others_stay_where_they_are(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_listed(out, "a.txt", "deep/b.txt", "low/c.txt")
    (out / "thesis.txt").write_text("years of work")
    (out / "deep" / "notes.txt").write_text("mine")
    (out / "far" / "away").mkdir(parents=True)
    (out / "far" / "away" / "d.txt").write_text("mine too")
    (out / "far" / "link").symlink_to(tmp_path / "nowhere")
    number = (out / "thesis.txt").stat().st_ino
    assert check_place(out, (), True, MINE) == ("deep/notes.txt", "far/", "thesis.txt")
    write_listed(out, "e.txt")
    files = {name: text for name, text in tree(out).items() if text}
    assert set(files) == {"e.txt", "manifest.json", "thesis.txt", "deep/notes.txt", "far/away/d.txt"}
    assert (out / "thesis.txt").stat().st_ino == number
    assert (out / "far" / "link").is_symlink()
    assert not (out / "low").exists()
    assert [one.name for one in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("name", ["b.txt", "deep/b.txt", "link/b.txt", "a.txt/b.txt"])
def test_a_file_of_ones_own_is_never_written_over(name: str, tmp_path: Path) -> None:
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    write_listed(out, "first.txt")
    elsewhere.mkdir()
    (out / "link").symlink_to(elsewhere)
    (out / "a.txt").write_text("mine")
    (out / "deep").mkdir()
    for mine in ("b.txt", "deep/b.txt", "link/b.txt"):
        (out / mine).write_text("mine")
    before = tree(tmp_path)
    with pytest.raises(RefusedError, match="name of a new file"):
        write_listed(out, name)
    assert tree(tmp_path) == before


def test_a_list_cannot_name_files_elsewhere(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_listed(out, "a.txt")
    (tmp_path / "thesis.txt").write_text("years of work")
    (out / "link").symlink_to(tmp_path)
    names = [
        "a.txt",
        "../thesis.txt",
        str(tmp_path / "thesis.txt"),
        "link/thesis.txt",
        "link",
        "..",
        "",
        "a\0b",
    ]
    (out / "manifest.json").write_text(json.dumps({"kind": "mine", "files": [*names, 3]}))
    write_listed(out, "a.txt")
    assert (tmp_path / "thesis.txt").read_text() == "years of work"
    assert not (out / "link").exists(), "a link is a file on the list, what it leads to is not"


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"kind": "mine"}', '{"kind": "other", "files": ["thesis.txt"]}']
)
def test_a_list_of_something_else_is_none(text: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "manifest.json").write_text(text)
    (out / "thesis.txt").write_text("years of work")
    before = tree(tmp_path)
    with pytest.raises(RefusedError, match="not-a-mine"):
        check_place(out, (), True, MINE)
    with pytest.raises(RefusedError, match="output-exists"):
        write_listed(out, "a.txt")
    assert tree(tmp_path) == before


@pytest.mark.parametrize("there", [True, False])
def test_a_link_in_place_of_an_output_stays_a_link(there: bool, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    link, target = tmp_path / "link", tmp_path / "disk" / "target"
    link.symlink_to(target)
    if there:
        write_listed(target, "old.txt")
    write_listed(link, "a.txt")
    with staged_files(tmp_path / "disk" / "b.txt") as (file,):
        file.write_text("b")
    (tmp_path / "b").symlink_to(tmp_path / "disk" / "b.txt")
    with staged_files(tmp_path / "b") as (file,):
        file.write_text("new")
    assert link.is_symlink()
    assert (tmp_path / "b").is_symlink()
    assert (tmp_path / "disk" / "b.txt").read_text() == "new"
    assert sorted(one.name for one in target.iterdir()) == ["a.txt", "manifest.json"]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["b", "disk", "link"]
    assert sorted(one.name for one in (tmp_path / "disk").iterdir()) == ["b.txt", "target"]


def test_what_appears_meanwhile_is_kept(tmp_path: Path) -> None:
    out = tmp_path / "out"

    def overtaken() -> None:
        with staged_folder(out, MINE, force=True) as scratch:
            (scratch / "mine.json").write_text("{}")
            out.mkdir()
            (out / "thesis.tex").write_text("years of work")

    with pytest.raises(RefusedError, match="output-exists"):
        overtaken()
    assert tree(tmp_path) == {"out": b"", "out/thesis.tex": b"years of work"}


@pytest.mark.parametrize("failure", [OSError(5, "Input/output error"), KeyboardInterrupt()])
@pytest.mark.parametrize("stuck", ["mine.json", "manifest.json", "deep/old.txt", "deep/new.txt"])
def test_the_earlier_files_come_back_when_the_new_ones_cannot_take_their_place(
    failure: BaseException, stuck: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = earlier_folder(tmp_path)
    (out / "thesis.txt").write_text("years of work")
    before, rename, done = tree(tmp_path), Path.rename, []

    def fails(self: Path, target: Path) -> Path:
        if str(self).endswith(stuck) and not done:
            done.append(self)
            raise failure
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fails)
    expected = ResourceError if isinstance(failure, OSError) else KeyboardInterrupt
    with pytest.raises(expected):
        write_listed(out, "mine.json", "deep/new.txt")
    assert done
    assert tree(tmp_path) == before


# Ends itself, without any clean-up, at one operation of the file system after another: renames, removals, new files.
def kill_at(step: int) -> None:
    """Ends this process before its operation on files of that number, counted from 1."""
    seen = 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        if event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree") or (
            event == "open"
            and isinstance(arguments[0], (str, bytes))
            and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        ):
            seen += 1
            if seen == step:
                os._exit(9)

    sys.addaudithook(hook)


KILLED = """
import os, sys
from pathlib import Path
from tests.test_staging import earlier_folder, kill_at, tree, write_listed
from dynid.base import recover

outcomes = []
for step in range(1, 200):
    base = Path(sys.argv[1]) / str(step)
    base.mkdir()
    out = earlier_folder(base)
    (out / "thesis.txt").write_text("years of work")
    before = tree(base)
    child = os.fork()
    if child == 0:
        kill_at(step)
        write_listed(out, "mine.json", "deep/new.txt", "other/one.txt")
        os._exit(0)
    done = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    recover(out)
    after = tree(base)
    outcomes.append("before" if after == before else "after" if "out/other/one.txt" in after else "mixture")
    if outcomes[-1] == "after":
        assert sorted(one for one in after if not one.endswith(("deep", "other", "out"))) == [
            "out/deep/new.txt", "out/manifest.json", "out/mine.json", "out/other/one.txt", "out/thesis.txt"
        ], after
    if done:
        break
print(" ".join(outcomes))
"""


KILLED_BETWEEN_FILES = """
import os, sys
from pathlib import Path
from tests.test_staging import kill_at, tree
from dynid.base import staged_files
from dynid.base import recover

outcomes = []
for step in range(1, 200):
    base = Path(sys.argv[1]) / str(step)
    base.mkdir()
    paths = [base / name for name in ("a.c", "a.h", "notes.txt")]
    for path in (*paths[:2], base / "thesis.txt"):
        path.write_text("old")
    child = os.fork()
    if child == 0:
        kill_at(step)
        with staged_files(*paths) as scratch:
            for part in scratch:
                part.write_text("new")
        os._exit(0)
    done = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    recover(paths[0])
    after = tree(base)
    assert after.pop("thesis.txt") == b"old"
    outcomes.append(
        "before" if after == {"a.c": b"old", "a.h": b"old"}
        else "after" if after == {"a.c": b"new", "a.h": b"new", "notes.txt": b"new"}
        else "mixture"
    )
    if done:
        break
print(" ".join(outcomes))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize(("program", "steps"), [(KILLED, 10), (KILLED_BETWEEN_FILES, 5)])
def test_a_kill_at_any_step_is_mended_by_whoever_comes_next(program: str, steps: int, tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[1],
    )
    assert ended.returncode == 0, ended.stderr
    outcomes = ended.stdout.split()
    assert set(outcomes) == {"before", "after"}
    assert outcomes == sorted(outcomes, reverse=True)
    assert outcomes.count("before") > steps


def test_who_ends_while_files_are_moved_keeps_what_brings_the_earlier_ones_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = earlier_folder(tmp_path)
    before, kept = tree(out), tmp_path / "kept"
    move = atomic_write._move

    def slowly(source: Path, target: Path) -> None:
        move(source, target)
        if not kept.exists():
            other = threading.Thread(target=atomic_write.abandon)
            other.start()
            other.join()
            shutil.copytree(tmp_path, kept)  # all that such an end leaves

    monkeypatch.setattr(atomic_write, "_MOVING_SECONDS", 0.01)
    monkeypatch.setattr(atomic_write, "_move", slowly)
    write_listed(out, "mine.json", "deep/new.txt")
    monkeypatch.undo()
    assert tree(kept / "out") != before
    recover(kept / "out")
    assert tree(kept) == {"out": b""} | {f"out/{name}": data for name, data in before.items()}


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_locks_nothing(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fcntl = pytest.importorskip("fcntl")

    def refused(*arguments: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refused)
    release = claim(tmp_path / "out")
    assert tree(tmp_path) == {}
    release()
    assert tree(tmp_path) == {}


def test_a_second_process_is_refused_at_the_start(tmp_path: Path) -> None:
    out = tmp_path / "out"
    program = (
        "import sys, time\nfrom pathlib import Path\nfrom dynid.base.files import claim\n"
        "claim(Path(sys.argv[1]))\nprint('mine', flush=True)\ntime.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(out)], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"mine\n"
        with pytest.raises(RefusedError, match=rf"output-busy.*pid {other.pid}"):
            claim(out)
        other.kill()
    release = claim(out)
    assert [one.name for one in tmp_path.iterdir()] == [".out.lock"]
    release()
    assert tree(tmp_path) == {}


def test_folders_made_for_an_output_go_with_it(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), staged_folder(tmp_path / "a" / "b" / "out"):
        raise KeyboardInterrupt
    assert tree(tmp_path) == {}


def test_long_names_are_written(tmp_path: Path) -> None:
    out = tmp_path / ("n" * 250)
    write_listed(out, "a.txt")
    assert [one.name for one in tmp_path.iterdir()] == ["n" * 250]


# Places that cannot be written


@contextmanager
def as_an_ordinary_user() -> Iterator[None]:
    # Permissions do not hold the superuser back.
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp())
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def write_both(folder: Path) -> None:
    with staged_folder(folder / "out") as scratch:
        (scratch / "a.txt").write_text("a")
    with staged_files(folder / "b.txt") as (file,):
        file.write_text("b")


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no users of this kind here")
def test_a_read_only_parent_is_reported(shared_folder: Path) -> None:
    shared_folder.chmod(0o777)
    with as_an_ordinary_user():
        write_both(shared_folder)
    shutil.rmtree(shared_folder / "out")
    (shared_folder / "b.txt").unlink()
    shared_folder.chmod(0o555)
    with as_an_ordinary_user():
        with pytest.raises(ResourceError, match="Permission denied"), staged_folder(shared_folder / "out"):
            pytest.fail("must not begin")
        with (
            pytest.raises(ResourceError, match="Permission denied"),
            staged_files(shared_folder / "b.txt") as (file,),
        ):
            file.write_text("b")
    assert tree(shared_folder) == {}


def test_a_parent_that_is_a_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    with pytest.raises(ResourceError, match="cannot-write"):
        write_both(tmp_path / "file")
    assert tree(tmp_path) == {"file": b"text"}


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to one process there")
def test_the_real_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    # Jobs in the background of a shell are begun with the signal ignored, and so would be what they begin.
    program = (
        "import signal, sys, time\nfrom pathlib import Path\n"
        "from dynid.base.files import staged_files, staged_folder\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "base = Path(sys.argv[1])\n"
        "with staged_folder(base / 'out') as folder, staged_files(base / 'a.txt') as (file,):\n"
        "    (folder / 'x').write_text('x')\n    file.write_text('a')\n"
        "    print('writing', flush=True)\n    time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        assert len(tree(tmp_path)) == 5
        process.send_signal(signal.SIGINT)
        _, reported = process.communicate(timeout=30)
    assert "KeyboardInterrupt" in reported
    assert tree(tmp_path) == {}


# Files


def test_files_replace_together(tmp_path: Path) -> None:
    paths = (tmp_path / "a.txt", tmp_path / "b.txt")
    paths[0].write_text("old")
    with staged_files(*paths) as scratch:
        for part, text in zip(scratch, "ab", strict=True):
            part.write_text(text)
        assert paths[0].read_text() == "old"
    assert tree(tmp_path) == {"a.txt": b"a", "b.txt": b"b"}


def test_an_interruption_between_files_lets_all_take_their_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = (tmp_path / "a.txt", tmp_path / "b.txt")
    replace = Path.replace

    def interrupted(part: Path, place: Path) -> None:
        replace(part, place)
        monkeypatch.undo()
        raise KeyboardInterrupt

    def write() -> None:
        with staged_files(*paths) as scratch:
            for part, text in zip(scratch, "ab", strict=True):
                part.write_text(text)
            monkeypatch.setattr(Path, "replace", interrupted)

    with pytest.raises(KeyboardInterrupt):
        write()
    assert tree(tmp_path) == {"a.txt": b"a", "b.txt": b"b"}


def test_a_list_of_moves_cannot_touch_other_files(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    (tmp_path / "deep").mkdir()
    part = tmp_path / ".out.txt.1-00000000.partial"
    part.write_text("new")
    moves = {
        str(tmp_path / "thesis.txt"): str(tmp_path / "out.txt"),
        str(part): str(tmp_path / "deep" / "out.txt"),
    }
    (tmp_path / ".out.txt.1-00000000.moving").write_text(json.dumps(moves))
    recover(tmp_path / "out.txt")
    assert tree(tmp_path) == {"thesis.txt": b"years of work", "deep": b""}


@pytest.mark.parametrize("failure", FAILURES, ids=lambda one: type(one).__name__)
def test_a_failure_between_files_keeps_the_old_ones(failure: BaseException, tmp_path: Path) -> None:
    paths = (tmp_path / "a.txt", tmp_path / "b.txt")
    paths[0].write_text("old")
    expected = ResourceError if isinstance(failure, OSError) else type(failure)

    def stopped() -> None:
        with staged_files(*paths) as scratch:
            scratch[0].write_text("new")
            raise failure

    with pytest.raises(expected):
        stopped()
    assert tree(tmp_path) == {"a.txt": b"old"}


def test_refusing_says_what_to_do(tmp_path: Path) -> None:
    refuse_existing(tmp_path / "new")
    with pytest.raises(RefusedError, match="choose another --out"):
        refuse_existing(tmp_path, "choose another --out")


# Everyone uses it


def test_nothing_else_moves_or_deletes_what_was_written() -> None:
    movers = set()
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if not re.search(r"rmtree|rename|mkdtemp|\.partial|\.tmp", text):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute) and node.attr in ("rmtree", "rename", "mkdtemp"):
                movers.add(str(path.relative_to(SOURCE)))
            if isinstance(node, ast.Constant) and str(node.value).endswith((".partial", ".tmp")):
                movers.add(str(path.relative_to(SOURCE)))
    assert movers == {"base/files.py"}
