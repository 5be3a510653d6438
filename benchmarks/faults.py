"""Commands killed at random instants, and disks that are full: is anything lost or left there.

    python benchmarks/faults.py [--kills 1000] [--disks 100] [--out FILE]

Each kill starts a command that renews an existing output (`--force` where there is one), waits a time drawn uniformly
from the length of an undisturbed run, and sends SIGKILL or SIGTERM in turns. What is then asked: do the earlier
files or the new ones stand there, whole; is a file that the user has put beside them untouched; did SIGTERM end the
command within 2 s; and, once the next command has looked at the output, is nothing else left. Each full disk is a
small file system in memory (Linux, as root; else these are left out) with room for a part of what is written.

One line of JSON a case goes to FILE; a campaign that is cut short goes on from there with the same command. Ends with 1
if anything was lost or left. Prints what the processor was used for it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

SEED = 20261122
TERM_SECONDS = 2.0
THESIS = "years of work"


@dataclass(frozen=True)
class Command:
    """arguments: with IN for the folder of inputs and OUT for what is written.    output: name of what is written."""

    name: str
    arguments: tuple[str, ...]
    output: str
    renews: bool = True


SHORT_SEARCH = """[motion]
seconds = 6.0
harmonics = 2
frequency = 0.3
[search]
starts = 2
workers = 2
"""
COMMANDS = (
    Command(
        "identify",
        ("identify", "IN/robot.toml", "IN/logs/train.parquet", "--out", "OUT/run", "--force"),
        "run",
    ),
    Command("demo", ("demo", "--fast", "--out", "OUT/demo", "--force"), "demo"),
    Command(
        "excite",
        ("excite", "IN/robot.toml", "--plan", "IN/motion.toml", "--out", "OUT/plan", "--force"),
        "plan",
    ),
    Command("export", ("export", "IN", "--to", "OUT/robot.urdf"), "robot.urdf", renews=False),
    Command(
        "simulate",
        ("simulate", "IN/robot.toml", "--out", "OUT/runs", "--runs", "4", "--workers", "2"),
        "runs",
        renews=False,
    ),
)


def run(command: Command, inputs: Path, out: Path) -> subprocess.Popen[bytes]:
    """Starts a command."""
    words = [
        word.replace("IN", str(inputs), 1) if word.startswith("IN") else word.replace("OUT", str(out), 1)
        for word in command.arguments
    ]
    return subprocess.Popen(
        [sys.executable, "-m", "dynid", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its content."""
    return {
        str(one.relative_to(folder)): one.read_bytes() for one in sorted(folder.rglob("*")) if one.is_file()
    }


def remove(path: Path) -> None:
    """Removes a file or a folder."""
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def judged(command: Command, out: Path, before: dict[str, bytes]) -> str:
    """What is wrong with an output after a kill and the look of the next command; empty = nothing."""
    from dynid.base.atomic_write import MANIFEST, recover

    target = out / command.output
    recover(target)
    after = tree(out)
    if after == before:
        return ""
    theirs = "thesis.txt" if not command.renews else f"{command.output}/thesis.txt"
    if after.pop(theirs, b"") != THESIS.encode():
        return "lost: thesis.txt"
    if strange := [name for name in after if not name.startswith(command.output)]:
        return f"left: {', '.join(strange)}"
    if not command.renews:
        return "" if len(after) in (1, 4) and all(after.values()) else f"mixture: {sorted(after)}"
    try:
        listed = json.loads(after[f"{command.output}/{MANIFEST}"])["files"]
    except (KeyError, ValueError):
        return "lost: no manifest"
    here = {name.removeprefix(f"{command.output}/") for name in after} - {MANIFEST}
    return "" if here == set(listed) else f"mixture: {sorted(here ^ set(listed))}"


def kill(
    number: int, command: Command, inputs: Path, ready: Path, seconds: float, base: Path
) -> dict[str, object]:
    """One command, killed."""
    rng = np.random.default_rng([SEED, number])
    out = base / f"kill-{number}"
    shutil.copytree(ready, out)
    before = tree(out)
    term = bool(number % 2)
    process = run(command, inputs, out)
    delay = rng.uniform(0.0, 1.05 * seconds)
    time.sleep(delay)
    process.send_signal(signal.SIGTERM if term else signal.SIGKILL)
    sent = time.perf_counter()
    _, err = process.communicate()
    took = time.perf_counter() - sent
    wrong = judged(command, out, before)
    if term and took > TERM_SECONDS:
        wrong = wrong or f"slow: {took:.1f} s"
    if b"Traceback" in err:
        wrong = wrong or f"traceback: {err.decode()[-1500:]}"
    if not wrong:
        shutil.rmtree(out)
    return {"case": f"kill-{number}", "command": command.name, "signal": "TERM" if term else "KILL",
            "after": round(delay, 3), "took": round(took, 3), "code": process.returncode, "wrong": wrong}  # fmt: skip


def full_disk(number: int, command: Command, inputs: Path, ready: Path, base: Path) -> dict[str, object]:
    """One command on a disk that is too small for what it writes beside what stands there."""
    rng = np.random.default_rng([SEED, 10**6 + number])
    out = base / f"disk-{number}"
    out.mkdir()
    held = sum(len(content) for content in tree(ready).values())
    room = int(held * rng.uniform(1.02, 1.9)) // 4096 * 4096 + 65536
    subprocess.run(["/bin/mount", "-t", "tmpfs", "-o", f"size={room}", "tmpfs", str(out)], check=True)
    try:
        shutil.copytree(ready, out, dirs_exist_ok=True)
        before = tree(out)
        process = run(command, inputs, out)
        _, err = process.communicate()
        wrong = judged(command, out, before)
        if process.returncode not in (0, 6) or b"Traceback" in err:
            wrong = wrong or f"ended with {process.returncode}: {err.decode()[-300:]}"
        if process.returncode == 6 and tree(out) != before:
            wrong = wrong or "exit 6, and something has changed"
    finally:
        subprocess.run(["/bin/umount", str(out)], check=True)
    out.rmdir()
    return {"case": f"disk-{number}", "command": command.name, "room": room, "code": process.returncode,
            "wrong": wrong}  # fmt: skip


def prepare(base: Path) -> tuple[Path, dict[str, tuple[Path, float]]]:
    """Inputs, and for each command an output of an earlier run with a file of the user's, and its undisturbed time."""
    inputs = base / "inputs"
    subprocess.run(
        [sys.executable, "-m", "dynid", "demo", "--fast", "--out", str(inputs)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    (inputs / "motion.toml").write_text(SHORT_SEARCH)
    ready = {}
    for command in COMMANDS:
        folder = base / f"ready-{command.name}"
        folder.mkdir()
        start = time.perf_counter()
        process = run(command, inputs, folder)
        _, err = process.communicate()
        if process.returncode != 0:
            raise SystemExit(f"{command.name} ends with {process.returncode}: {err.decode()}")
        seconds = time.perf_counter() - start
        place = folder / command.output if command.renews else folder
        (place / "thesis.txt").write_text(THESIS)
        if not command.renews:
            remove(folder / command.output)
        ready[command.name] = (folder, seconds)
    return inputs, ready


def main() -> int:
    """Runs the campaign; 1 = something was lost or left."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--disks", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path("faults.jsonl"))
    options = parser.parse_args()
    done = set()
    results = []
    if options.out.exists():
        results = [json.loads(line) for line in options.out.read_text(encoding="utf-8").splitlines()]
        done = {one["case"] for one in results}
    can_mount = sys.platform == "linux" and os.geteuid() == 0
    with tempfile.TemporaryDirectory() as name, options.out.open("a", encoding="utf-8") as log:
        base = Path(name)
        inputs, ready = prepare(base)
        cases = [("kill", number) for number in range(options.kills)]
        cases += [("disk", number) for number in range(options.disks if can_mount else 0)]
        for kind, number in cases:
            if f"{kind}-{number}" in done:
                continue
            command = COMMANDS[(number // 2) % len(COMMANDS)]
            folder, seconds = ready[command.name]
            if kind == "kill":
                result = kill(number, command, inputs, folder, seconds, base)
            else:
                result = full_disk(number, command, inputs, folder, base)
            results.append(result)
            log.write(json.dumps(result) + "\n")
            log.flush()
            if result["wrong"]:
                print(result, flush=True)
    wrong = [one for one in results if one["wrong"]]
    kills = [one for one in results if one["case"].startswith("kill")]
    slowest = max((one["took"] for one in kills if one["signal"] == "TERM"), default=0.0)
    used = sum(os.times()[:4])
    print(
        f"{len(kills)} kills (slowest end after SIGTERM {slowest:.2f} s), {len(results) - len(kills)} full disks, "
        f"{len(wrong)} with something lost, left or slow; {used:.0f} s of processor"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
