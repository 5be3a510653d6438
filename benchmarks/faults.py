"""Commands killed at random instants, and disks that are full: is anything lost or left there.

    python benchmarks/faults.py [--kills 1000] [--disks 100] [--first 0] [--part 1/1] [--out FILE]

identify, excite, study, export, average and simulate write beside files of the user, most of them over an earlier
output (`--force`). Each is killed by SIGKILL and SIGTERM in turns. To be cheap, a case is a fork of one process that
has imported what the commands need; one in eight is a process of its own, which spends its life importing. An
instant is a time drawn uniformly from the length of an undisturbed run, or, in every third case, one of that run's
operations on files, drawn uniformly: between two of them may lie microseconds. `study` writes the pages of a study
that has been computed before, as nothing is written while one computes.

What is then asked: once the next command has looked at the output, do either the earlier files or the new ones
stand there, all and whole (by their checksums, or byte for byte); is the user's file beside them untouched, and nothing
else left, in the folder of temporary files neither; has every process of the command ended; did SIGTERM end it within
2 s. Each full disk is a small file system in memory (Linux, as root; else these are left out) with room for a part of
what is written, which holds the temporary files as well in every other case.

One line of JSON a case goes to FILE; a campaign that is cut short goes on from there with the same command. Ends with 1
if anything was lost or left. Prints what the processor was used for it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import Row, campaign, parser, spent

import numpy as np

from benchmarks.isolated import import_for, run_and_leave

SEED = 20261122
TERM_SECONDS = 2.0
# A worker process that is still importing when its parent is killed notices as soon as it begins to work.
ORPHAN_SECONDS = 30.0
FRESH, BY_STEP = 8, 3  # one case in so many is a process of its own, or is killed at an operation on files
THESIS, EARLIER = "thesis.txt", b"an earlier file of this name"
STUDY = "nini2024"


@dataclass(frozen=True)
class Command:
    """arguments: with IN for the folder of inputs and OUT for what is written.    outputs: names of what is written.

    folder: whether the one output is a folder with a manifest.    renews: whether it replaces an earlier output.
    """

    arguments: tuple[str, ...]
    outputs: tuple[str, ...]
    folder: bool = False
    renews: bool = True

    def words(self, inputs: Path, out: Path) -> list[str]:
        """Its arguments, with folders put in."""
        return [
            word.replace("IN", str(inputs), 1) if word.startswith("IN") else word.replace("OUT", str(out), 1)
            for word in self.arguments
        ]


COMMANDS = {
    "identify": Command(
        ("identify", "IN/arm.toml", "IN/log.parquet", "-c", "IN/experiment.toml", "--out", "OUT/run", "--force"),
        ("run",), folder=True,
    ),
    "excite": Command(
        ("excite", "IN/arm.toml", "--plan", "IN/motion.toml", "--out", "OUT/plan", "--force"),
        ("plan",), folder=True,
    ),
    "study": Command(("study", STUDY, "--out", "OUT", "--force"), (STUDY,), folder=True),
    "export": Command(("export", "IN/run", "--to", "OUT/robot.urdf", "--force"), ("robot.urdf",)),
    "export of C": Command(("export", "IN/run", "--to", "OUT/robot.c", "--force"), ("robot.c", "robot.h")),
    "average": Command(
        ("average", "IN/arm.toml", "IN/periodic.parquet", "--period", "2.0", "--out", "OUT/mean.parquet", "--force"),
        ("mean.parquet",),
    ),
    "simulate": Command(
        ("simulate", "IN/arm.toml", "--duration", "2", "--runs", "3", "--workers", "2", "--out", "OUT/runs"),
        ("runs",), folder=True, renews=False,
    ),
    "simulate one": Command(
        ("simulate", "IN/arm.toml", "--duration", "2", "--out", "OUT/one.parquet"), ("one.parquet",), renews=False
    ),
}  # fmt: skip
SHORT_SEARCH = """[motion]
seconds = 6.0
harmonics = 2
frequency = 0.3
[search]
starts = 1
workers = 1
[limits]
lower = [-2.0, -2.0]
upper = [2.0, 2.0]
velocity = [2.0, 2.0]
"""
WRITES = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate", "os.link", "os.symlink"}
Files = dict[str, bytes]


@dataclass(frozen=True)
class Ready:
    """Of a command: its output before a case, that of an undisturbed run, its seconds, operations on files."""

    folder: Path
    whole: Files
    seconds: float
    fresh_seconds: float
    steps: int


@dataclass
class Started:
    """A command that runs.    errors: file of its standard error; temporary: its folder of temporary files."""

    pid: int
    errors: Path
    temporary: Path
    began: float

    def wait(self) -> tuple[int, str]:
        """Waits for the end; the exit code, and what was printed as errors."""
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status), self.errors.read_text(errors="replace")

    def left(self) -> list[str]:
        """Temporary files, and processes that are still there."""
        ends = time.perf_counter() + ORPHAN_SECONDS
        while (orphans := _of_session(self.pid)) and time.perf_counter() < ends:
            time.sleep(0.02)
        for orphan in orphans:
            with contextlib.suppress(ProcessLookupError):
                os.kill(orphan, signal.SIGKILL)
        files = [str(path.relative_to(self.temporary)) for path in sorted(self.temporary.rglob("*"))]
        return [f"temporary {name}" for name in files] + [f"process {orphan}" for orphan in orphans]


def start(
    name: str,
    inputs: Path,
    out: Path,
    temporary: Path,
    fresh: bool = False,
    hook: Callable[[], None] | None = None,
) -> Started:
    """Starts a command in a session of its own.    fresh: not as a fork.    hook: is called in the fork first."""
    temporary.mkdir(parents=True, exist_ok=True)
    errors = temporary.with_suffix(".err")
    errors.touch()  # a fork may be killed before it opens it
    words = COMMANDS[name].words(inputs, out)
    began = time.perf_counter()
    if fresh:
        with errors.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "dynid", *words], stdout=subprocess.DEVNULL, stderr=file,
                env=os.environ | {"TMPDIR": str(temporary)}, start_new_session=True,
            )  # fmt: skip
        process.returncode = 0  # waited for here
        return Started(process.pid, errors, temporary, began)
    child = os.fork()
    if child:
        return Started(child, errors, temporary, began)

    def prepare() -> None:
        os.setsid()
        for number, target in ((1, Path(os.devnull)), (2, errors)):
            file = os.open(target, os.O_WRONLY | os.O_CREAT)
            os.dup2(file, number)
            os.close(file)
        os.environ["TMPDIR"], tempfile.tempdir = str(temporary), None
        sys.modules["__main__"] = sys.modules["dynid.__main__"]  # what worker processes import
        if hook is not None:
            hook()

    run_and_leave(words, prepare)


def _of_session(session: int) -> list[int]:
    processes = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] != "Z":
                processes.append(int(folder.name))
    return processes


def at_step(out: Path, act: Callable[[int], None]) -> Callable[[], None]:
    """A hook that calls act(k) before the k-th operation that changes files below a folder."""
    place, lock, count = str(out), threading.Lock(), [0]

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in WRITES or not str(arguments[0]).startswith(place):
            return
        if event == "open" and not int(arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR):
            return
        with lock:
            count[0] += 1
            number = count[0]
        act(number)

    return lambda: sys.addaudithook(audit)


def tree(folder: Path) -> Files:
    """Every file below a folder with its content, and every empty folder."""
    content = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_file():
            content[name] = path.read_bytes()
        elif not any(path.iterdir()):
            content[name + "/"] = b""
    return content


def judged(command: Command, out: Path, before: Files, whole: Files) -> str:
    """What is wrong with an output after a kill and the look of the next command; "" = nothing."""
    from dynid.base import recover

    for name in {*command.outputs, *(name for name in whole if "/" not in name)}:  # the index of studies, too
        recover(out / name)
    after = tree(out)
    if after == before:
        return ""
    theirs = [name for name in before if Path(name).name == THESIS]
    if any(after.pop(name, None) != before[name] for name in theirs):
        return f"lost: {THESIS}"
    outputs = {name: after.pop(name) for name in list(after) if name.split("/")[0] in command.outputs}
    for name in set(before) & set(after):  # the index of studies, of before or of now
        if after[name] in (before[name], whole.get(name)):
            del after[name]
    if strange := [name for name in after if after[name] != whole.get(name)]:
        return f"left: {strange[:5]}"
    earlier = {
        name: data
        for name, data in before.items()
        if name.split("/")[0] in command.outputs and name not in theirs
    }
    return "" if outputs == earlier else _mixture(command, out, outputs, whole)


def _mixture(command: Command, out: Path, outputs: Files, whole: Files) -> str:
    from dynid.base.files import MANIFEST

    if command.folder and command.renews:
        prefix = f"{command.outputs[0]}/"
        try:
            listed = json.loads((out / prefix / MANIFEST).read_text(encoding="utf-8"))["sha256"]
        except (OSError, ValueError) as error:
            return f"lost: no manifest ({error})"
        sums = {
            name.removeprefix(prefix): hashlib.sha256(data).hexdigest()
            for name, data in outputs.items()
            if name != prefix + MANIFEST
        }
        return "" if sums == listed else f"mixture: {sorted(sums.items() ^ listed.items())}"
    expected = {name: whole[name] for name in whole if name.split("/")[0] in command.outputs}
    wrong = sorted(name for name in {*outputs, *expected} if outputs.get(name) != expected.get(name))
    return f"neither earlier nor new: {wrong}" if wrong else ""


def kill(number: int, name: str, inputs: Path, ready: Ready, base: Path) -> Row:
    """One command, killed."""
    command = COMMANDS[name]
    rng = np.random.default_rng([SEED, number])
    out = base / f"kill-{number}"
    shutil.copytree(ready.folder, out)
    before = tree(out)
    sent = signal.SIGTERM if number % 2 else signal.SIGKILL
    turn = number // (2 * len(COMMANDS))
    fresh = turn % FRESH == 0 and name != "study"
    hook, when = None, ""
    sent_at = base / f"sent-{number}"
    if not fresh and turn % BY_STEP == 0:
        step = int(rng.integers(1, ready.steps + 1))
        when = f"step {step}"

        def act(now: int) -> None:
            if now == step:
                sent_at.write_text(repr(time.perf_counter()))
                os.kill(os.getpid(), sent)

        hook = at_step(out, act)
    started = start(name, inputs, out, base / f"temporary-{number}", fresh, hook)
    if not when:
        delay = rng.uniform(0.0, 1.05 * (ready.fresh_seconds if fresh else ready.seconds))
        time.sleep(max(0.0, delay - (time.perf_counter() - started.began)))
        sent_at.write_text(repr(time.perf_counter()))
        os.kill(started.pid, sent)
        when = f"{delay:.3f} s"
    code, errors = started.wait()
    took = time.perf_counter() - float(sent_at.read_text()) if sent_at.exists() else 0.0
    left = started.left()
    wrong = judged(command, out, before, ready.whole)
    if left:
        wrong = wrong or f"left: {left}"
    if sent == signal.SIGTERM and took > TERM_SECONDS:
        wrong = wrong or f"slow: {took:.1f} s"
    if "Traceback" in errors:
        wrong = wrong or f"traceback: {errors[-1500:]}"
    if not wrong:
        shutil.rmtree(out)
    shutil.rmtree(started.temporary)
    started.errors.unlink()
    sent_at.unlink(missing_ok=True)
    kind = "fresh" if fresh else "step" if hook else "time"
    return {"case": f"kill-{number}", "command": name, "kind": kind, "signal": sent.name, "at": when,
            "took": round(took, 3), "code": code, "wrong": wrong}  # fmt: skip


def full_disk(number: int, name: str, inputs: Path, ready: Ready, base: Path) -> Row:
    """One command on a disk that is too small for what it writes beside what stands there."""
    rng = np.random.default_rng([SEED, 10**6 + number])
    disk = base / f"disk-{number}"
    disk.mkdir()
    present, new = (sum(-(-len(data) // 4096) for data in files.values()) + len(files)
                 for files in (tree(ready.folder), ready.whole))  # fmt: skip
    room = 4096 * (present + 16 + int(new * rng.uniform(0.0, 1.3)))
    subprocess.run(["/bin/mount", "-t", "tmpfs", "-o", f"size={room}", "tmpfs", str(disk)], check=True)
    try:
        out = disk / "out"
        shutil.copytree(ready.folder, out)
        before = tree(out)
        with_temporary = bool(number // len(COMMANDS) % 2)
        temporary = (disk if with_temporary else base) / f"temporary-{number}"
        (base / f"temporary-{number}.err").touch()
        started = start(name, inputs, out, temporary)
        code, errors = started.wait()
        wrong = judged(COMMANDS[name], out, before, ready.whole)
        if left := started.left():
            wrong = wrong or f"left: {left}"
        if code not in (0, 6) or "Traceback" in errors:
            wrong = wrong or f"ended with {code}: {errors[-300:]}"
        if code == 6 and tree(out) != before and name != "study":  # of which the index may be what failed
            wrong = wrong or "exit 6, and something has changed"
    finally:
        subprocess.run(["/bin/umount", str(disk)], check=True)
    disk.rmdir()
    return {"case": f"disk-{number}", "command": name, "kind": "temporary" if with_temporary else "output",
            "room": room, "code": code, "wrong": wrong}  # fmt: skip


def prepare(base: Path) -> tuple[Path, dict[str, Ready]]:
    """Inputs, and for each command an output of an earlier run with a file of the user's beside it."""
    from benchmarks.mutated_files import prepare as sound_files

    inputs = base / "inputs"
    inputs.mkdir()
    sound_files(inputs)
    (inputs / "motion.toml").write_text(SHORT_SEARCH)
    _write_periodic(inputs / "periodic.parquet")
    import dynid_studies.run as studies

    import dynid.__main__  # noqa: F401

    computed = studies.run_study(STUDY)
    studies.run_study = lambda *_: computed
    import_for(*(command.words(inputs, base / "first") for command in COMMANDS.values()))
    return inputs, {name: _ready(name, inputs, base) for name in COMMANDS}


def _write_periodic(path: Path) -> None:
    from dynid.log import write_log

    t = np.arange(0.0, 10.0, 0.005)
    wave = np.sin(np.pi * t)
    names = [f"{signal}_{joint}" for signal in ("q", "tau") for joint in ("shoulder", "elbow")]
    write_log(path, t, dict.fromkeys(names, wave))


def _ready(name: str, inputs: Path, base: Path) -> Ready:
    command, folder = COMMANDS[name], base / f"ready-{name}"
    folder.mkdir()
    if not command.folder and command.renews:
        for output in command.outputs:
            (folder / output).write_bytes(EARLIER)
    elif command.renews:
        _undisturbed(name, inputs, folder, base)
    ((folder / command.outputs[0] if command.folder and command.renews else folder) / THESIS).write_text(
        "years of work"
    )
    times, fresh = [], []
    for _ in range(3):
        again = base / f"again-{name}"
        shutil.copytree(folder, again)
        times.append(_undisturbed(name, inputs, again, base))
        whole = tree(again)
        shutil.rmtree(again)
    shutil.copytree(folder, again)
    fresh.append(_undisturbed(name, inputs, again, base, name != "study"))
    shutil.rmtree(again)
    shutil.copytree(folder, again)
    counted = base / "steps"
    _undisturbed(
        name, inputs, again, base, hook=at_step(again, lambda k: counted.write_text(str(k)) and None)
    )
    shutil.rmtree(again)
    return Ready(folder, whole, sorted(times)[1], fresh[0], int(counted.read_text()))


def _undisturbed(
    name: str,
    inputs: Path,
    out: Path,
    base: Path,
    fresh: bool = False,
    hook: Callable[[], None] | None = None,
) -> float:
    started = start(name, inputs, out, base / "temporary", fresh, hook)
    code, errors = started.wait()
    took = time.perf_counter() - started.began
    left = started.left()
    if code != 0 or left:
        raise SystemExit(f"{name} ends with {code}, leaves {left}: {errors}")
    return took


def main() -> int:
    """Runs the campaign; 1 = something was lost or left."""
    given = parser(__doc__, kills=1000, disks=100, first=0, part="1/1", out=Path("faults.jsonl")).parse_args()
    can_mount = sys.platform == "linux" and os.geteuid() == 0
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        inputs, ready = prepare(base)
        for name, r in ready.items():
            print(f"{name}: {r.seconds:.2f} s, alone {r.fresh_seconds:.2f} s, {r.steps} operations on files")
        names = list(COMMANDS)
        kills = range(given.first, given.first + given.kills)
        disks = range(given.first, given.first + given.disks * can_mount)
        jobs = {f"kill-{k}": (kill, k, names[k // 2 % len(names)]) for k in kills}
        jobs |= {f"disk-{k}": (full_disk, k, names[k % len(names)]) for k in disks}
        results = campaign(
            jobs,
            lambda job: job[0](job[1], job[2], inputs, ready[job[2]], base),
            lambda row: row["case"],
            given,
            lambda row: print(row, flush=True) if row["wrong"] else None,
        )
    wrong = [row for row in results if row["wrong"]]
    killed, filled = ([r for r in results if r["case"].startswith(kind)] for kind in ("kill", "disk"))
    slowest = max((row["took"] for row in killed if row["signal"] == "SIGTERM"), default=0.0)
    for kind in ("command", "kind", "code"):
        print(f"kills by {kind}: {dict(Counter(row[kind] for row in killed))}")
    print(f"full disks by exit code: {dict(Counter(row['code'] for row in filled))}")
    print(
        f"{len(killed)} kills (slowest end after SIGTERM {slowest:.2f} s), {len(filled)} full disks, "
        f"{len(wrong)} with something lost, left or slow; {spent():.0f} s of processor"
    )
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
