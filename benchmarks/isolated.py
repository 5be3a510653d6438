"""Commands in processes of their own: how they ended, what they took, and what no ending may have."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

MEMORY_GB, SECONDS = 2.0, 30.0  # of a command on a small file, the latter of processor
WARNING = re.compile(r"^\S+\.py:\d+: \w*Warning", re.MULTILINE)  # Python's own, and those of libraries


@dataclass(frozen=True)
class Ending:
    """Exit code, all that was printed, time (s), memory (GB) and processor time (s)."""

    code: int
    text: str
    seconds: float
    gb: float
    cpu: float

    @property
    def spent(self) -> dict[str, float]:
        """What the command took."""
        return {"seconds": round(self.seconds, 2), "gb": round(self.gb, 3), "cpu": round(self.cpu, 2)}

    def fault(self, codes: Collection[int], left: Collection[str]) -> str:
        """What is wrong with it, "" = nothing.    codes: that are right; left: what it wrote."""
        if self.code not in codes:
            return f"exit {self.code}, not {tuple(codes)}"
        if "Traceback" in self.text:
            return "traceback"
        if WARNING.search(self.text):
            return "warning of a library"
        if self.code != 0 and left:
            return f"left: {sorted(left)[:5]}"
        if self.gb > MEMORY_GB or self.cpu > SECONDS:
            return f"{self.gb:.1f} GB, {self.cpu:.0f} s of processor"
        return ""


def run_and_leave(words: Sequence[object], prepare: Callable[[], None]) -> NoReturn:
    """Runs `dynid words` in a forked process and ends it as the command ends; 99 where nothing ran."""
    code = 99
    try:
        prepare()
        sys.argv = ["dynid", *map(str, words)]
        from dynid.cli.main import main

        main()
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def isolated(words: Sequence[object], prepare: Callable[[], None] = lambda: None) -> Ending:
    """Runs `dynid words` in a fork of this process.    prepare: is called there first."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.dup2(writing, 1)
        os.dup2(writing, 2)
        run_and_leave(words, prepare)
    os.close(writing)
    start = time.perf_counter()
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read().decode(errors="replace")
    _, status, used = os.wait4(child, 0)
    return Ending(
        os.waitstatus_to_exitcode(status),
        text,
        time.perf_counter() - start,
        used.ru_maxrss / 1e6,
        used.ru_utime + used.ru_stime,
    )


def import_for(*commands: Sequence[object]) -> None:
    """Imports here what commands import, so that forks need not do it again; the commands run in forks themselves."""
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as names:

        def note() -> None:
            Path(names.name).write_text("\n".join(sys.modules), encoding="utf-8")

        for words in commands:
            isolated(words, lambda: _at_exit(note))
            for name in names.read().split():
                with contextlib.suppress(Exception):  # a module that its own package alone can import
                    importlib.import_module(name)
            names.seek(0)


def _at_exit(act: Callable[[], None]) -> None:
    """Has a fork that `isolated` started do something before it ends, which runs no handlers of atexit."""
    leave = os._exit

    def left(code: int) -> None:
        act()
        leave(code)

    os._exit = left  # type: ignore[assignment]


def files_in(folder: Path) -> set[str]:
    """Paths of all that lies in a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}
