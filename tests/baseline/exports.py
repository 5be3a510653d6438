"""Files that models and motions are exported to.

Models: the fast demo's run with the parameters that are stored for it (rows/demo___fast.json), so that the rounding of
the identification, which differs between processors, is not in them. Motions: a Fourier series of known coefficients.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import dynid
from dynid.kernel import backend
from tests.baseline.records import (
    STORED,
    command,
    keys_of,
    read_text,
    store,
    stored,
    text_differences,
    write_text,
)
from tests.baseline.rows import full_values, real_row

FOLDER = STORED / "exports"
# Format -> name of its file; C writes a header, too.
MODELS = {
    "urdf": "arm.urdf",
    "mjcf": "arm.xml",
    "sdf": "arm.sdf",
    "c": "arm.c",
    "json": "arm.json",
    "khalil": "khalil.csv",
    "pinocchio": "pinocchio.csv",
    "lerobot": "lerobot.json",
}
SAMPLES = 3  # models of the ensemble whose file of samples is looked at
# The format of servos' gains is written by runs of logs of commands alone; that real log's run is exported instead.
ACTUATORS, ACTUATORS_ROW = "actuators.json", "z1_pace robot.xml"
# Of numbers of a text. Sums that cancel leave rounding of about 1e-16 of their parts, which are below 100.
RELATIVE, ABSOLUTE = 1e-9, 1e-12
PACKED = (".c",)  # stored compressed
# Lines that are kept of a motion's file, from its beginning.
FIRST_LINES = 6


def model_texts(run: Path, folder: Path) -> dict[str, str]:
    """Every format of the demo's model, by file name."""
    result = with_stored_parameters(dynid.load(run))
    made = {}
    for kind, name in MODELS.items():
        target = folder / name
        exported = (with_calibration(result) if kind == "lerobot" else result).export(target, kind)
        for path in exported.files:
            made[path.name] = normal(path.read_text(encoding="utf-8"), run)
    return made


def samples(run: Path, folder: Path) -> dict[str, Any]:
    """Arrays of a file of samples, with type and shape."""
    result = with_stored_parameters(dynid.load(run))
    dynid.export(result, folder / "samples.npz", ensemble=SAMPLES)
    with np.load(folder / "samples.npz") as data:
        return {name: f"{data[name].dtype.kind} {data[name].shape}" for name in sorted(data.files)}


def with_stored_parameters(result: dynid.Result) -> dynid.Result:
    """The run with the stored parameters in place of its own, which differ by rounding."""
    values = np.array(full_values(stored("rows/demo___fast")["parameters"]))
    return replace(result, estimate=replace(result.estimate, parameters=values))


def with_calibration(result: dynid.Result) -> dynid.Result:
    """The run, as if its log had been in shares of the ranges of calibrated motors."""
    motors = {
        joint: {
            "id": i,
            "drive_mode": i % 2,
            "homing_offset": -310 + i,
            "range_min": 742 + i,
            "range_max": 3351,
        }
        for i, joint in enumerate(result.robot.joint_names)
    }
    position = {"columns": "state[{joint}.pos]", "unit": "%", "calibration": motors}
    log = {"time": {"column": "t", "unit": "s"}, "position": position}
    return replace(result, experiment={**result.experiment, "log": log})


def normal(text: str, run: Path) -> str:
    """A text without the folder of this run and without dynid's version."""
    text = text.replace(str(run), "RUN")
    return re.sub(r"(dynid[ \w]*?)" + re.escape(dynid.__version__), r"\1VERSION", text)


def actuators(run: Path, folder: Path) -> str:
    """Gains and friction for simulated servos, of a run of a log of commands."""
    target = folder / ACTUATORS
    ended = command("export", run, "--to", target, "--format", "actuators")
    assert ended.code == 0, ended.err
    return normal(target.read_text(encoding="utf-8"), run)


def motion_texts(folder: Path) -> dict[str, Any]:
    """Of each format of motions: names of its files, and lines, keys or columns of them."""
    # Users name the formats; the functions behind them are the package's own.
    export = import_module("dynid.excitation.settings")
    basis = import_module("dynid.trajectories")
    made: dict[str, Any] = {}
    for form in export.Format:
        joints = 7 if form.value == "kuka_fri" else 6
        coefficients = np.random.default_rng(0).normal(0, 0.2, (5, joints))
        motion = basis.BasisTrajectory(basis.FourierBasis(4.0, 2, 0.5, 1.0), coefficients)
        names = tuple(f"joint_{i + 1}" for i in range(joints))
        place = folder / form.value
        export.write_motion(place, names, motion, form, 10.0)
        files = sorted(path for path in place.rglob("*") if path.is_file())
        made[form.value] = {str(path.relative_to(place)): content(path) for path in files}
    return made


def content(path: Path) -> Any:
    """First lines and number of lines of a text, columns and rows of a table; of a bag that it is one."""
    if path.suffix == ".parquet":
        table = pq.read_table(path)
        return {"columns": [f"{one.name} {one.type}" for one in table.schema], "rows": table.num_rows}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        return "binary"
    return {"lines": len(lines), "first": [normal(line, path.parent) for line in lines[:FIRST_LINES]]}


def keys_of_commands(run: Path, folder: Path) -> dict[str, list[str]]:
    """Keys of what commands print with --json, of the demo's files."""
    robot, log, other = run / "robot.toml", run / "logs" / "train.parquet", run / "logs" / "validate.parquet"
    commands: Mapping[str, tuple[object, ...]] = {
        "inspect": (robot,),
        "check": (robot, log, "--no-fit"),
        "init": (robot, log, "--out", folder / "experiment.toml"),
        "identify": (robot, log, "--no-auto", "--validate", other, "--out", folder / "again"),
        "validate": (run, other),
        "compare": (run, run),
        "report": (run,),
        "export": (run, "--to", folder / "model.json"),
        "explain": ("torque-scale",),
        "show": (robot, "--out", folder / "robot.html"),
        "simulate": (robot, "--duration", 2, "--out", folder / "simulated.parquet"),
    }
    made = {}
    for name, words in commands.items():
        ended = command(name, *words, "--json")
        assert ended.code == 0, (name, ended.out, ended.err)
        made[name] = keys_of(ended.json)
    return made


def export_differences(now: Mapping[str, str]) -> list[str]:
    """Where exported models differ from the stored ones.

    Sums of C code are gathered by numbers that are equal to the last bit, which depends on the instruction set: where
    the baseline was written with another one, lines of the code's temporary variables are left out.
    """
    lines = []
    for name, text in now.items():
        texts = (text, read_text(f"exports/{name}"))
        if name.endswith(".c") and backend() != stored("kernel"):
            texts = (without_temporaries(texts[0]), without_temporaries(texts[1]))
        lines += [f"{name}, {one}" for one in text_differences(*texts, RELATIVE, ABSOLUTE)]
    return lines


def without_temporaries(text: str) -> str:
    """C code without the lines that hold variables t1, t2, ..."""
    return "\n".join(line for line in text.splitlines() if not re.search(r"\bt\d+\b", line))


def motion_differences(now: Any, before: Any, path: str = "") -> list[str]:
    """Where files of motions differ from the stored ones."""
    if isinstance(before, dict) and isinstance(now, dict):
        if set(now) != set(before):
            return [f"{path}: now {sorted(now)}, was {sorted(before)}"]
        return [line for key in before for line in motion_differences(now[key], before[key], f"{path}/{key}")]
    if isinstance(before, list) and all(isinstance(one, str) for one in before):
        joined = ("\n".join(now), "\n".join(before))
        return [f"{path}, {one}" for one in text_differences(*joined, RELATIVE, ABSOLUTE)]
    return [] if now == before else [f"{path}: now {now!r}, was {before!r}"]


def write(run: Path, data: Path) -> None:
    """Stores the exports; run: folder of the fast demo."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for name, text in model_texts(run, folder).items():
            write_text(f"exports/{name}", text, Path(name).suffix in PACKED)
        store("samples", samples(run, folder))
        store("motions", motion_texts(folder / "motions"))
        (folder / "commands").mkdir()
        store("keys_of_commands", keys_of_commands(run, folder / "commands"))
        (folder / "real").mkdir()
        real_row(ACTUATORS_ROW, data, folder / "real")
        write_text(f"exports/{ACTUATORS}", actuators(folder / "real" / "run", folder / "real"))
