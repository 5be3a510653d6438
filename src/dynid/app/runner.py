"""The process that runs one job's command and writes down how it ended: python -m dynid.app.runner LOCK FOLDER."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def run(lock: int, folder: Path) -> None:
    """Runs the command of a job's folder, its output to files there.

    lock: descriptor of the job's lock, which the command inherits.

    A signal to the group reaches the command as well; this process waits for its end.
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
        if asked:  # before the command was there to hear it
            child.terminate()
        code = child.wait()
    part = folder / "ended.json.part"
    part.write_text(json.dumps({"code": code, "ended": time.time()}), encoding="utf-8")
    part.replace(folder / "ended.json")


if __name__ == "__main__":
    run(int(sys.argv[1]), Path(sys.argv[2]))
