"""The process of a job: runs its command and records the exit code; python -m dynid.app.runner LOCK FOLDER."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def run(lock: int, folder: Path) -> None:
    """Run the command of a job, with its output in files of the job's folder.

    The command inherits the lock's file descriptor. A signal to the process group reaches the command as well, and this
    process waits for its end.
    """
    asked: list[int] = []
    for ending_signal in (signal.SIGTERM, signal.SIGINT):
        signal.signal(ending_signal, lambda number, _: asked.append(number))
    stored = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    call = [
        sys.executable,
        "-P",
        "-m",
        "dynid",
        *stored["arguments"],
        *([] if stored["live"] else ["--json"]),
    ]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
        child = subprocess.Popen(  # noqa: S603 - dynid's own command, no shell
            call,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=environment,
            pass_fds=(lock,) if os.name == "posix" else (),
        )
        if asked:  # the signal came before the command had started
            child.terminate()
        code = child.wait()
    part = folder / "ended.json.part"
    part.write_text(json.dumps({"code": code, "ended": time.time()}), encoding="utf-8")
    part.replace(folder / "ended.json")


if __name__ == "__main__":
    run(int(sys.argv[1]), Path(sys.argv[2]))
