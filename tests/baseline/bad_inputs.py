"""A dozen and more of wrong inputs, and how the command line ends for each: exit code and codes of errors."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from dynid.robot import load_robot
from tests.bad_inputs.clean_logs import MAPPING, clean_columns, write_arm, write_csv
from tests.baseline.records import command


def prepared(folder: Path) -> dict[str, tuple[object, ...]]:
    """Words of each command, its files written to the folder."""
    robot = write_arm(folder / "arm.toml")
    columns = clean_columns(load_robot(robot))
    log = write_csv(folder / "log.csv", columns)
    (folder / "mapping.toml").write_text(MAPPING)
    (folder / "empty.urdf").write_text("")
    (folder / "torn.urdf").write_text('<robot name="a"><link name="base">')
    (folder / "heavy.toml").write_text(robot.read_text().replace("mass = 4.0", "mass = -4.0"))
    (folder / "prose.csv").write_text("These are not the numbers that you look for.\n")
    write_csv(folder / "unmeasured.csv", {key: x for key, x in columns.items() if not key.startswith("tau_")})
    write_csv(folder / "short.csv", {key: x[:20] for key, x in columns.items()})
    write_csv(folder / "milliseconds.csv", columns | {"t": 1000.0 * columns["t"]})
    write_csv(folder / "still.csv", {k: x if k == "t" else np.full_like(x, x[0]) for k, x in columns.items()})
    (folder / "key.toml").write_text(f"{MAPPING}[prepare]\ncutof = 8\n")
    (folder / "range.toml").write_text(f"{MAPPING}[prepare]\norder = 9\n")
    (folder / "term.toml").write_text(f'{MAPPING}[model]\nterms = ["rigid_body", "viscose"]\n')
    (folder / "plugin.toml").write_text(f'plugins = ["my_absent"]\n{MAPPING}')
    (folder / "taken").mkdir()
    (folder / "taken" / "precious.txt").write_text("mine")
    (folder / "file").write_text("")

    def identify(robot: object, log: object, *words: object, out: str = "run") -> tuple[object, ...]:
        given = words if "--config" in words else ("--config", folder / "mapping.toml", *words)
        return ("identify", robot, log, *given, "--out", folder / out)

    return {
        "no argument": ("identify",),
        "unknown option": identify(robot, log, "--fast"),
        "unknown command": ("identfy",),
        "option out of range": ("app", "--port", 70000),
        "unknown code": ("explain", "no-such-code"),
        "no robot file": identify(folder / "none.urdf", log),
        "empty robot file": identify(folder / "empty.urdf", log),
        "torn XML": identify(folder / "torn.urdf", log),
        "negative mass": identify(folder / "heavy.toml", log),
        "no log": identify(robot, folder / "none.csv"),
        "log without numbers": identify(robot, folder / "prose.csv"),
        "log without efforts": identify(robot, folder / "unmeasured.csv"),
        "twenty samples": identify(robot, folder / "short.csv"),
        "milliseconds as seconds": identify(robot, folder / "milliseconds.csv"),
        "robot that stands": identify(robot, folder / "still.csv"),
        "unknown key": identify(robot, log, "--config", folder / "key.toml"),
        "value out of range": identify(robot, log, "--config", folder / "range.toml"),
        "unknown term": identify(robot, log, "--config", folder / "term.toml"),
        "missing plug-in": identify(robot, log, "--config", folder / "plugin.toml"),
        "folder that exists": identify(robot, log, out="taken"),
        "folder that is no run": identify(robot, log, "--force", out="taken"),
        "folder below a file": identify(robot, log, out="file/run"),
        "report of no run": ("report", folder / "taken"),
        "comparison of one run": ("compare", folder / "taken"),
        "lock of no joint": ("inspect", robot, "--lock", "j9=0"),
        "unknown schema": ("schema", "robots"),
    }


def ended() -> dict[str, list[Any]]:
    """Exit code, then the codes of errors that --json gives, of each case."""
    made: dict[str, list[Any]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name, words in prepared(Path(scratch)).items():
            end = command(*words, "--json")
            # The parser stops before --json is read.
            errors = json.loads(end.out)["errors"] if end.out.startswith("{") else []
            made[name] = [end.code, *sorted({one["code"] for one in errors})]
    return made
