"""Every class of bad input, five variants each: the exit code and the words that it must end with.

    python benchmarks/bad_inputs.py [--variants 5] [--classes 1,8,49] [--part 1/1] [--out FILE]

Robot descriptions, logs, experiment files and command lines with one fault each, generated with a seed: another joint,
line, format or size of the fault a variant. A class says with which exit codes a command may end (0 done, 2 usage,
3 bad input, 4 data unfit, 5 solver, 6 resources, 7 refused) and a pattern that its output must match. A failure is
another code, a pattern that is not there, a traceback, a warning of a library, anything left beside the inputs by a
command that stopped, over 2 GB of memory or 30 s of processor. One line of JSON a case goes to FILE, from which an
interrupted campaign goes on. Ends with 1 if a case failed. ELSEWHERE names the classes that other campaigns or tests
hold, and those that have no counterpart here.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import Row, campaign, parser

import numpy as np

from benchmarks.isolated import files_in, import_for, isolated
from tests.bad_inputs.clean_logs import (
    NAMES,
    ROWS,
    Columns,
    clean_columns,
    write_arm,
    write_csv,
    write_parquet,
)

SEED = 20261124

ELSEWHERE = {
    29: "MuJoCo expands replicate and hfield; tests/bad_inputs/test_models.py",
    36: "checksums of bags and pages: benchmarks/mutated_files.py, tests/log/test_bag_damage.py",
    **dict.fromkeys((37, 38, 39, 40), "tests/log/test_bag_damage.py"),
    **dict.fromkeys((41, 42), "tests/log/test_bag.py"),
    63: "no YAML is read but the metadata of bags: tests/log/test_bag_damage.py",
    64: "experiment files do not extend one another",
    **dict.fromkeys((69, 71, 72, 74), "benchmarks/faults.py"),
    **dict.fromkeys((75, 76, 77, 78), "no remote workers"),
    81: "inputs are read once and their digests kept in the run",
    **dict.fromkeys(range(82, 89), "no web server"),
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A command in a folder, and how it may end.    words: arguments; codes: allowed; says: pattern of its output."""

    words: tuple[str, ...]
    codes: tuple[int, ...]
    says: str
    prepare: Callable[[], None] = field(default=lambda: None)


@dataclass
class CaseFiles:
    """The folder of a case, a generator of its own, and the number of the variant."""

    folder: Path
    base: Path
    variant: int
    rng: np.random.Generator

    def write(self, name: str, text: str | bytes) -> str:
        """Writes a file and returns its path."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return str(path)

    def pick(self, *options: Any) -> Any:
        """Another option a variant."""
        return options[self.variant % len(options)]

    # --- robots

    def urdf(self, at: int = 0, **changes: str) -> str:
        """A URDF of three to five joints; changes: pieces of one link and joint by name."""
        lines = ['<robot name="arm"><link name="base"/>']
        for i in range(1, 3 + self.variant % 3 + 1):
            piece = {
                "name": f"l{i}", "joint": f"j{i}", "type": "revolute", "parent": "base" if i == 1 else f"l{i - 1}",
                "child": f"l{i}", "mass": "1.5", "ixx": "0.02", "iyy": "0.03", "izz": "0.04", "axis": "0 0 1",
                "limit": '<limit lower="-2" upper="2" velocity="3" effort="50"/>', "extra": "", "visual": "",
            }  # fmt: skip
            if i == at:
                piece |= changes
            inertial = piece.get(
                "inertial",
                f'<inertial><origin xyz="0.1 0 0"/><mass value="{piece["mass"]}"/><inertia ixx="{piece["ixx"]}" ixy="0"'
                f' ixz="0" iyy="{piece["iyy"]}" iyz="0" izz="{piece["izz"]}"/></inertial>',
            )
            lines += [
                f'<link name="{piece["name"]}">{inertial}{piece["visual"]}</link>',
                f'<joint name="{piece["joint"]}" type="{piece["type"]}">',
                f'<parent link="{piece["parent"]}"/><child link="{piece["child"]}"/>',
                f'<origin xyz="0.2 0 0" rpy="1.57 0 0"/><axis xyz="{piece["axis"]}"/>{piece["limit"]}{piece["extra"]}',
                "</joint>",
            ]
        return "\n".join([*lines, "</robot>"]) + "\n"

    @property
    def joint(self) -> int:
        """One of the joints 1 to 3."""
        return 1 + self.variant % 3

    def robot(self, text: str | bytes, name: str = "arm.urdf") -> tuple[str, ...]:
        """The command that looks at a description."""
        return ("inspect", self.write(name, text))

    # --- logs

    def log(self, fault: Callable[[Columns], Columns], parquet: bool | None = None) -> str:
        """A log with a fault, as CSV or Parquet by turns."""
        columns = fault({name: np.array(values) for name, values in CLEAN.items()})
        binary = self.variant % 2 == 1 if parquet is None else parquet
        path = self.folder / ("log.parquet" if binary else "log.csv")
        return str((write_parquet if binary else write_csv)(path, columns))

    def check(self, log: str) -> tuple[str, ...]:
        """The command that looks at a log."""
        return ("check", str(self.base / "arm.toml"), log, "--no-fit")

    def identify(self, log: str, *more: str) -> tuple[str, ...]:
        """The command that fits it."""
        return (
            "identify", str(self.base / "arm.toml"), log, "-c", str(self.base / "quick.toml"), "--out",
            str(self.folder / "out"), *more,
        )  # fmt: skip

    def text(self) -> list[str]:
        """Lines of the clean log as CSV."""
        return (self.base / "log.csv").read_text(encoding="utf-8").splitlines()


CLEAN: Columns = {}
QUICK = '[model]\nterms = ["rigid_body", "viscous", "coulomb"]\n\n[estimate]\nmethod = "wls"\nfolds = 4\n'
MJCF = (
    '<mujoco><worldbody>\n<body name="l1"><inertial pos="0 0 0" mass="1" diaginertia="0.1 0.1 0.1"/>\n'
    '<joint name="j1" axis="0 0 1"/></body>\n</worldbody></mujoco>\n'
)


def prepare(base: Path) -> None:
    """A three-joint arm, its clean log, and settings that are quick."""
    from dynid.robot import load_robot

    (base / "quick.toml").write_text(QUICK, encoding="utf-8")
    CLEAN.update(clean_columns(load_robot(write_arm(base / "arm.toml"))))
    write_csv(base / "log.csv", CLEAN)
    write_parquet(base / "log.parquet", CLEAN)


def changed(name: str, rows: Any, value: Any) -> Callable[[Columns], Columns]:
    """Some rows of a column replaced."""

    def fault(columns: Columns) -> Columns:
        columns[name][rows] = value
        return columns

    return fault


def scaled(prefix: str, factor: float) -> Callable[[Columns], Columns]:
    """All columns of a signal times a factor."""
    return lambda c: {k: v * factor if k.startswith(prefix + "_") else v for k, v in c.items()}


def only(rows: Any) -> Callable[[Columns], Columns]:
    """Some rows alone."""
    return lambda c: {k: v[rows] for k, v in c.items()}


# --- the classes ------------------------------------------------------------------------------------------------------

CLASSES: dict[int, tuple[str, Callable[[CaseFiles], Case]]] = {}


def bad_input(number: int, title: str, case: Callable[[Any, CaseFiles], Case] = lambda made, b: made) -> Any:
    """Registers a class by a function that makes a case, or what `case` makes one of."""

    def register(make: Callable[[CaseFiles], Any]) -> None:
        CLASSES[number] = (title, lambda b: case(make(b), b))

    return register


def description(number: int, title: str, codes: Sequence[int], says: str) -> Any:
    """A class of robot models: the function gives the text, or name and text."""

    def case(made: Any, b: CaseFiles) -> Case:
        name, text = made if isinstance(made, tuple) else ("arm.urdf", made)
        return Case(b.robot(text, name), tuple(codes), says)

    return bad_input(number, title, case)


def log_class(number: int, title: str, codes: Sequence[int], says: str) -> Any:
    """A class of logs: the function writes one and gives its path."""
    return bad_input(number, title, lambda log, b: Case(b.check(log), tuple(codes), says))


def doubt(number: int, title: str, says: str) -> Any:
    """A class of logs about which there is a doubt: done, with the verdict that says so."""
    return bad_input(number, title, lambda log, b: Case(b.identify(log), (0,), says))


def setting(number: int, title: str, says: str) -> Any:
    """A class of experiment files: the function gives the text."""

    def case(text: str, b: CaseFiles) -> Case:
        words = ("identify", str(b.base / "arm.toml"), str(b.base / "log.csv"))
        return Case(
            (*words, "-c", b.write("experiment.toml", text), "--out", str(b.folder / "out")), (3, 2), says
        )

    return bad_input(number, title, case)


NAMED = ("arm.urdf", "arm.xml", "arm.toml", "arm.sdf", "robot.urdf")

description(1, "empty or not XML", (3,), r"arm\.|robot\.")(
    lambda b: (NAMED[b.variant % 5], b.pick("", " \n\n", "hello\nworld", "\x7fELF", "{}"))
)


@description(2, "unclosed tag", (3,), r"arm\.urdf:\d+")
def _(b: CaseFiles) -> str:
    lines = b.urdf().splitlines()
    places = [i for i, line in enumerate(lines) if line == "</joint>"]
    del lines[places[b.variant % len(places)]]
    return "\n".join(lines)


@description(3, "truncated", (3,), r"arm\.urdf:\d+")
def _(b: CaseFiles) -> str:
    text = b.urdf()
    return text[: int(len(text) * (0.3 + 0.12 * b.variant))]


@description(4, "odd encoding or NUL", (3,), r"byte|encod|character|UTF|utf|invalid token|not well-formed")
def _(b: CaseFiles) -> bytes:
    data, at = b.urdf().encode(), 60 + 30 * b.variant
    return data[:at] + b.pick(b"\x00", b"\xff\xfe", b"\xc3\x28", b"\x00\x00", b"\xf0\x28\x8c") + data[at:]


description(5, "DOCTYPE or entity", (7,), r"DOCTYPE|entit")(
    lambda b: (
        b.pick(
            '<!DOCTYPE robot [<!ENTITY a "b">]>',
            '<!DOCTYPE robot SYSTEM "x.dtd">',
            "<!DOCTYPE robot>",
            '<!DOCTYPE r [<!ENTITY a SYSTEM "file:///etc/passwd">]>',
            '<!DOCTYPE r [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]>',
        )
        + "\n"
        + b.urdf()
    )
)


@description(6, "too deep", (7,), r"depth|deep|nested")
def _(b: CaseFiles) -> str:
    depth = 257 + 100 * b.variant
    return "<robot name='a'>" + "<x>" * depth + "</x>" * depth + "</robot>"


@description(7, "too many links", (7,), r"10[ _,']?000|links|elements|MB|bytes")
def _(b: CaseFiles) -> str:
    links = "".join(f'<link name="x{i}"/>' for i in range(10_001 + 500 * b.variant))
    return f'<robot name="a"><link name="base"/>{links}</robot>'


# One piece of one link or joint: another value a variant.
for _number, _title, _codes, _pattern, _piece, *_values in (
    (8, "mass of NaN or Inf", (3,), r"arm\.urdf:\d+.*l\d", "mass", "nan", "inf", "-inf", "NaN", "1e999"),
    (9, "negative mass", (3,), r"arm\.urdf:\d+.*l\d", "mass", "-1", "-0.001", "-1e9", "-5", "-1e-6"),
    (10, "zero mass on a moving link", (0, 3), r"link 'l\d'.*mass 0", "mass", "0", "0.0", "-0", "0e5", "0.000"),
    (11, "number with comma or unit", (3,), r"arm\.urdf:\d+.*'(1,5|1\.5kg|1_5|1\.5 kg|)'|1 number", "mass",
     "1,5", "1.5kg", "1_5", "", "1.5 kg"),
    (14, "triangle inequality violated", (0, 3), r"triangle", "izz", "0.0502", "0.0505", "0.09", "1", "0.2"),
    (15, "axis of no length", (3,), r"axis", "axis", "0 0 0", "nan 0 1", "0 inf 0", "0 0 -0", "0 0 nan"),
    (16, "limit missing", (0,), r"(?i)limit", "limit", "", '<limit velocity="1" effort="1"/>', "", "<limit/>", ""),
    (23, "unknown type of joint", (3,), r"revolute", "type", "revolut", "hinge", "", "REVOLUTE", "screw"),
):  # fmt: skip
    description(_number, _title, _codes, _pattern)(
        lambda b, piece=_piece, values=_values: b.urdf(b.joint, **{piece: b.pick(*values)})
    )


@bad_input(12, "inertial missing")
def _(b: CaseFiles) -> Case:
    text = b.urdf(b.joint, inertial="")
    if b.variant < 3:
        return Case(b.robot(text), (0,), r"(?i)no inertia|unknown|without")
    words = ("simulate", b.write("arm.urdf", text), "--out", str(b.folder / "out"), "--runs", "1")
    return Case(words, (3,), r"(?i)inertia")


description(13, "inertia that is not positive", (3,), r"eigenvalue|\[-")(
    lambda b: b.urdf(
        b.joint, **{b.pick("ixx", "iyy", "izz", "ixx", "izz"): b.pick("-0.1", "-1", "-0.5", "-10", "-0.2")}
    )
)


@description(17, "limits exchanged", (3,), r"limits|lower")
def _(b: CaseFiles) -> str:
    low, high = b.pick(("2", "1"), ("1", "-1"), ("0.1", "0"), ("5", "-5"), ("3", "2.9"))
    return b.urdf(b.joint, limit=f'<limit lower="{low}" upper="{high}" velocity="1" effort="1"/>')


@description(18, "cycle", (3,), r"cycle|->")
def _(b: CaseFiles) -> str:
    joint = 1 + b.variant % 3
    return b.urdf().replace(
        f'<parent link="{"base" if joint == 1 else f"l{joint - 1}"}"/>', '<parent link="l3"/>', 1
    )


@description(19, "two parents", (3,), r"two|parent")
def _(b: CaseFiles) -> str:
    extra = (
        f'<joint name="other" type="fixed"><parent link="base"/><child link="l{1 + b.joint % 3}"/></joint>'
    )
    return b.urdf().replace("</robot>", extra + "</robot>")


description(20, "two roots", (3,), r"--root")(
    lambda b: b.urdf().replace("</robot>", f'<link name="alone{b.variant}"/></robot>')
)


@description(21, "duplicate name", (3,), r"lines? \d+|twice|duplicate")
def _(b: CaseFiles) -> str:
    if b.variant % 2:
        return b.urdf(2, joint="j1")
    return b.urdf().replace("</robot>", f'<link name="l{b.joint}"/></robot>')


description(22, "unknown child", (3,), r"(child|parent) link '.+' does not exist")(
    lambda b: b.urdf(b.joint, **{b.pick("child", "parent"): b.pick("l1x", "L2", "bas", "lnk", "l 3")})
)


@description(24, "mimic of nothing or in a circle", (0, 3), r"mimics '|mimic joint|j\d -> j\d")
def _(b: CaseFiles) -> str:
    target = b.pick("nobody", f"j{b.joint}", "J1", "", f"j{b.joint}")
    return b.urdf(b.joint, extra=f'<mimic joint="{target}"/>')


MESH = '<visual><geometry><mesh filename="{}"/></geometry></visual>'


@description(25, "mesh missing", (0,), r"(?i)mesh")
def _(b: CaseFiles) -> str:
    path = b.pick("x.stl", "package://arm/x.stl", "meshes/y.dae", "./z.obj", "model://a/b.stl")
    return b.urdf(b.joint, visual=MESH.format(path))


@bad_input(26, "mesh outside the folder")
def _(b: CaseFiles) -> Case:
    path = b.pick("../../etc/passwd", "/etc/passwd", "file:///etc/passwd", "../x.stl", "a/../../x.stl")
    text = b.urdf(b.joint, visual=MESH.format(path), extra="").replace(
        "visual>", b.pick("visual>", "collision>")
    )
    if b.variant % 2:
        return Case(("limits", b.write("arm.urdf", text)), (7, 3), r"(?i)mesh|outside")
    return Case(b.robot(text), (0,), r"(?i)mesh")


@bad_input(27, "mesh over the network")
def _(b: CaseFiles) -> Case:
    path = b.pick(
        "http://example.org/x.stl", "https://example.org/x.stl", "ftp://a/b.stl", "HTTP://x/y.dae", "http://"
    )
    text = b.urdf(b.joint, visual=MESH.format(path))
    if b.variant % 2:
        return Case(
            ("limits", b.write("arm.urdf", text.replace("visual>", "collision>"))),
            (7, 3),
            r"(?i)mesh|http|ftp",
        )
    return Case(b.robot(text), (0,), r"(?i)mesh")


@description(28, "MJCF include outside the folder", (7,), r"(?i)outside|include")
def _(b: CaseFiles) -> Any:
    path = b.pick("../x.xml", "/etc/passwd", "a/../../x.xml", "../../y.xml", "/var/../etc/hosts")
    return "arm.xml", MJCF.replace("<worldbody>", f'<include file="{path}"/><worldbody>')


@description(30, "gravity that is no number", (3,), r"gravity|number|finite|arm")
def _(b: CaseFiles) -> Any:
    value = b.pick("nan", "inf", "-inf", "x", "")
    if b.variant % 2:
        return "arm.xml", MJCF.replace("<worldbody>", f'<option gravity="0 0 {value}"/><worldbody>')
    return "arm.toml", (b.base / "arm.toml").read_text(encoding="utf-8").replace("-9.81", value or '""')


@description(31, "unknown convention or wrong rows", (3,), r"arm\.toml:\d+")
def _(b: CaseFiles) -> Any:
    text = (b.base / "arm.toml").read_text(encoding="utf-8")
    old, new = b.pick(
        ('"placements"', '"placement"'), ('"placements"', '"dh"'), ('"placements"', "3"),
        ("xyz = [0.0, 0.0, 0.3]", "xyz = [0.0, 0.0]"), ("axis = [0.0, 0.0, 1.0]", "axis = 1.0"),
    )  # fmt: skip
    return "arm.toml", text.replace(old, new, 1)


@description(32, "hostile name of a joint", (0,), r"")
def _(b: CaseFiles) -> str:
    name = b.pick("&lt;img onerror=x&gt;", "=cmd|' /C calc'!A0", "*/ int main", "\u202ejoint", "a" * 100)
    return b.urdf(b.joint, joint=name)


@log_class(33, "log missing or empty", (3,), r"(?i)missing|empty|no such|without rows|not found|no file")
def _(b: CaseFiles) -> str:
    if b.variant == 0:
        return str(b.folder / "none.csv")
    return b.write("log.csv", b.pick("", "", " \n\n", b.text()[0] + "\n", "\n"))


@log_class(34, "content of another format", (3,), r"parquet|csv|format|magic")
def _(b: CaseFiles) -> str:
    csv, parquet = ((b.base / f"log.{kind}").read_bytes() for kind in ("csv", "parquet"))
    name, data = b.pick(
        ("log.parquet", csv), ("log.csv", parquet), ("log.bin", b"\x00\x01rubbish" * 50), ("log.mcap", csv),
        ("log.parquet", b"PK\x03\x04" * 30),
    )  # fmt: skip
    return b.write(name, data)


@log_class(35, "truncated Parquet", (4, 3), r"(?i)truncat|footer|damaged|cut|bytes")
def _(b: CaseFiles) -> str:
    data = (b.base / "log.parquet").read_bytes()
    return b.write("log.parquet", data[: int(len(data) * b.pick(0.9, 0.5, 0.2, 0.99, 0.05))])


@log_class(43, "ragged rows", (3,), r"row \d+")
def _(b: CaseFiles) -> str:
    lines, row = b.text(), int(b.rng.integers(1, ROWS))
    lines[row] = lines[row] + ",1" if b.variant % 2 else lines[row].rpartition(",")[0]
    return b.write("log.csv", "\n".join(lines) + "\n")


@log_class(44, "other separators", (0, 3), r"")
def _(b: CaseFiles) -> str:
    delimiter, decimal = b.pick((";", ","), ("\t", "."), (";", "."), ("\t", ","), ("|", "."))
    return str(write_csv(b.folder / "log.csv", CLEAN, delimiter, decimal))


@log_class(45, "text in a cell", (3,), r"row \d+.*'.+' = '")
def _(b: CaseFiles) -> str:
    lines, row = b.text(), int(b.rng.integers(1, ROWS))
    cells = lines[row].split(",")
    cells[int(b.rng.integers(1, 7))] = b.pick("abc", "1.5Nm", "12:30", "#REF!", "1_0")
    lines[row] = ",".join(cells)
    return b.write("log.csv", "\n".join(lines) + "\n")


log_class(46, "no header", (3,), r"\[log\]|column")(
    lambda b: b.write("log.csv", "\n".join(b.text()[1 + b.variant :]) + "\n")
)


@log_class(47, "columns of other names", (0, 3), r"column|\[log\]|without effort")
def _(b: CaseFiles) -> str:
    text = "\n".join(b.text()) + "\n"
    old, new = b.pick(
        ("q_j2", "q_jj2"), ("tau_", "i"), ("q_j", "pos"), ("tau_j3", "torque3"), ("q_j1", "Q_J1")
    )
    return b.write("log.csv", text.replace(old, new))


@log_class(48, "two columns of a name", (3,), r"(?i)duplicate|twice|two")
def _(b: CaseFiles) -> str:
    old, new = b.pick(
        ("dq_j3", "dq_j2"), ("tau_j1", "tau_j2"), (",q_j3", ",q_j1"), ("tau_j3", "t"), ("dq_j1", "dq_j2")
    )
    return b.write("log.csv", ("\n".join(b.text()) + "\n").replace(old, new, 1))


@log_class(49, "missing values", (4,), r"(?i)missing|no .* at all|nan")
def _(b: CaseFiles) -> str:
    name = b.pick("q_j2", "tau_j3", "dq_j1", "q_j3", "tau_j1")
    rows = b.pick(slice(5, None, 50), slice(5, None, 40), slice(0, 200), slice(None), slice(3, None, 10))
    return b.log(changed(name, rows, b.pick(np.nan, np.inf, np.nan, np.nan, -np.inf)))


@log_class(50, "time that goes back", (4,), r"row \d+")
def _(b: CaseFiles) -> str:
    row = int(b.rng.integers(50, ROWS - 50))
    return b.log(changed("t", row, CLEAN["t"][row] - b.pick(0.5, 1.0, 0.2, 5.0, 0.05)) if b.variant < 4 else (
        lambda c: {**c, "t": np.tile(c["t"][:1000], 2)}
    ))  # fmt: skip


@bad_input(51, "stamps twice")
def _(b: CaseFiles) -> Case:
    row = int(b.rng.integers(50, ROWS - 50))
    if b.variant % 2:
        twice = np.sort(np.r_[np.arange(ROWS), [row, row + 7]])
        return Case(b.check(b.log(only(twice))), (0,), r"(?i)row|identical|duplicate|twice")
    return Case(b.check(b.log(changed("t", row, CLEAN["t"][row - 1]))), (4,), rf"row {row}")


@log_class(52, "gap", (0,), r"(?i)gap|segment|part|split")
def _(b: CaseFiles) -> str:
    first = 300 + 250 * b.variant
    return b.log(only(np.r_[0:first, first + 60 + 40 * b.variant : ROWS]))


doubt(53, "degrees, milliamperes, wrong clock", r"(?i)degree|mA|times|clock|side|unit|limit")(
    lambda b: b.log(
        b.pick(
            scaled("q", 180 / np.pi),
            scaled("dq", 180 / np.pi),
            scaled("tau", 1000.0),
            scaled("tau", 0.01),
            lambda c: {**c, "t": 1.2 * c["t"]},
        )
    )
)


@doubt(54, "gravity compensated torque", r"(?i)gravity")
def _(b: CaseFiles) -> str:
    from dynid.robot import load_robot
    from dynid.simulation import rigid_torque

    robot = load_robot(b.base / "arm.toml")
    q = np.column_stack([CLEAN[f"q_{name}"] for name in NAMES])
    g = rigid_torque(robot, robot.inertia_prior, q, 0 * q, 0 * q) * b.pick(1.0, 0.98, 1.02, 0.95, 1.05)
    return b.log(lambda c: {**c, **{f"tau_{n}": c[f"tau_{n}"] - g[:, j] for j, n in enumerate(NAMES)}})


@doubt(55, "sign", r"(?i)sign|opposed|absolute")
def _(b: CaseFiles) -> str:
    name = b.pick("dq_j2", "tau_j3", "tau_j2", "dq_j1", "dq_j3")
    return b.log(lambda c: {**c, name: -c[name]})


@doubt(56, "exchanged columns", r"(?i)order|exchanged|column of")
def _(b: CaseFiles) -> str:
    first, other = b.pick(
        ("dq_j1", "dq_j3"), ("tau_j1", "tau_j2"), ("dq_j1", "dq_j2"), ("tau_j1", "tau_j3"), ("dq_j2", "dq_j3")
    )
    return b.log(lambda c: {**c, first: c[other], other: c[first]})


@doubt(57, "late torque", r"(?i)late|delay|lag|behind|sample")
def _(b: CaseFiles) -> str:
    late = b.pick(8, 12, 16, 20, 30)
    return b.log(lambda c: {k: np.roll(v, late) if k.startswith("tau_") else v for k, v in c.items()})


@log_class(58, "standstill", (4,), r"(?i)still")
def _(b: CaseFiles) -> str:
    def stopped(c: Columns) -> Columns:
        for j, name in enumerate(NAMES):
            c[f"q_{name}"] = 0.1 * j + 1e-4 * b.rng.uniform(size=ROWS)
            c[f"dq_{name}"] = 1e-4 * b.rng.normal(size=ROWS)
        return c

    return b.log(stopped)


@log_class(59, "a joint that never moved", (0,), r"j\d")
def _(b: CaseFiles) -> str:
    name = NAMES[b.variant % 3]

    def held(c: Columns) -> Columns:
        c[f"q_{name}"] = np.full(ROWS, 0.3) + 1e-6 * b.rng.normal(size=ROWS)
        c[f"dq_{name}"] = 1e-5 * b.rng.normal(size=ROWS)
        return c

    return b.log(held)


log_class(60, "too few samples", (4, 3), r"(?i)rows|short|samples|time")(
    lambda b: b.log(only(slice(b.pick(1, 2, 10, 30, 49))))
)


setting(61, "unknown key", r"experiment\.toml:\d+")(
    lambda b: (
        QUICK
        + b.pick(
            "fold = 3\n",
            "[prepar]\ncutoff = 3.0\n",
            "[prepare]\ncutof = 3.0\n",
            "x = 1\n",
            "[log]\ntimee = 1\n",
        )
    )
)

setting(62, "wrong type or range", r"experiment\.toml:\d+")(
    lambda b: (
        "[prepare]\n"
        + b.pick('cutoff = "8"\n', "order = true\n", "cutoff = -1.0\n", "rate = nan\n", "cutoff = [8.0]\n")
    )
)


@bad_input(65, "unknown option")
def _(b: CaseFiles) -> Case:
    words = b.pick(("--fold", "3"), ("--nonsense",), ("-z",), ("--methd", "wls"), ("--out",))
    return Case((*b.identify(str(b.base / "log.csv"))[:3], *words), (2,), r"(?i)option|argument|usage")


@bad_input(66, "output is an input")
def _(b: CaseFiles) -> Case:
    log = b.log(lambda c: c)
    robot = str(shutil.copy(b.base / "arm.toml", b.folder / "arm.toml"))
    out = b.pick(log, robot, str(b.folder), log, robot)
    words = ("identify", robot, log, "-c", str(b.base / "quick.toml"), "--out", out, "--force")
    return Case(words, (7,), r"(?i)input|would|exists|holds|not")


@bad_input(67, "output exists")
def _(b: CaseFiles) -> Case:
    b.write("out/" + b.pick("run.json", "notes.txt", "x/y.txt", "report.html", ".hidden"), "{}")
    return Case(b.identify(str(b.base / "log.csv")), (7,), r"(?i)exist|--force|not empty")


@bad_input(68, "validation on the training log")
def _(b: CaseFiles) -> Case:
    log = b.log(lambda c: c)
    return Case(b.identify(log, "--validate", log), (0,), r"(?i)training|same|valid")


@bad_input(70, "output below a file")
def _(b: CaseFiles) -> Case:
    b.write("file", "x")
    words = b.identify(str(b.base / "log.csv"))
    return Case(
        (*words[:-1], str(b.folder / "file" / "out")), (6, 7, 2, 3), r"(?i)folder|file|write|directory"
    )


@bad_input(73, "two runs, one output")
def _(b: CaseFiles) -> Case:
    words = b.identify(str(b.base / "log.csv"))

    def hold_it() -> None:
        if os.fork() == 0:  # another process, which ends with the case's folder
            from dynid.base.files import lock_output

            os.closerange(0, 256)  # the reader of the case's output waits for its last writer
            lock_output(b.folder / "out")
            while b.folder.exists():
                time.sleep(0.1)
            os._exit(0)
        time.sleep(0.5)

    return Case(words, (7,), r"\d+", hold_it)


@bad_input(79, "memory")
def _(b: CaseFiles) -> Case:
    text = f"[prepare]\nrate = {b.pick('1e7', '1e8', '5e6', '1e9', '3e7')}\n" + QUICK
    path = b.write("experiment.toml", text)
    words = ("identify", str(b.base / "arm.toml"), str(b.base / "log.csv"), "-c", path)
    return Case((*words, "--out", str(b.folder / "out")), (3, 6, 7), r"(?i)rate|memory|rows|GB")


@bad_input(80, "constraints that exclude one another")
def _(b: CaseFiles) -> Case:
    low, high = b.pick((50, 60), (100, 120), (200, 300), (1000, 1001), (40, 41))
    text = (
        '[model]\nterms = ["rigid_body", "viscous", "coulomb"]\n[estimate]\nmethod = "feasible"\nconstraints = ['
        f'{{ constraint = "total_mass", least = {low}.0, greatest = {high}.0 }}, '
        '{ constraint = "total_mass", least = 1.0, greatest = 2.0 }]\n'
    )
    path = b.write("experiment.toml", text)
    words = ("identify", str(b.base / "arm.toml"), str(b.base / "log.csv"), "-c", path)
    return Case((*words, "--out", str(b.folder / "out")), (5, 3), r"(?i)mass|constraint")


# --- running ----------------------------------------------------------------------------------------------------------


def run(number: int, variant: int, base: Path) -> Row:
    """One case, and what came of it."""
    folder = base / f"case-{number}-{variant}"
    folder.mkdir()
    case = CLASSES[number][1](
        CaseFiles(folder, base, variant, np.random.default_rng([SEED, number, variant]))
    )
    before = files_in(folder)
    ended = isolated(case.words, case.prepare)
    left = files_in(folder) - before
    if number == 73:
        left.discard(".out.lock")  # of the process that holds the output
    text = re.sub(r"\s+", " ", ended.text)
    wrong = ended.fault(case.codes, left)
    if not wrong and not re.search(case.says, text, re.S):
        wrong = f"does not say {case.says!r}"
    shutil.rmtree(folder)
    words = " ".join(word.replace(str(base), "") for word in case.words)
    row = {"class": number, "variant": variant, "code": ended.code, "wrong": wrong, **ended.spent}
    return row if not wrong else row | {"command": words, "text": text[-600:]}


def show(row: Row) -> None:
    """Prints a case that failed."""
    if row["wrong"]:
        title, text = CLASSES[row["class"]][0], row["text"][-300:]
        print(row["class"], row["variant"], title, row["wrong"], row["command"], text, sep=" | ", flush=True)


def main() -> int:
    """Runs the campaign; 1 = a case failed."""
    given = parser(__doc__, variants=5, classes="", part="1/1", out=Path("bad-inputs.jsonl")).parse_args()
    numbers = [int(x) for x in given.classes.split(",")] if given.classes else sorted(CLASSES)
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        prepare(base)
        clean, log = CaseFiles(base, base, 0, np.random.default_rng(SEED)), str(base / "log.csv")
        import_for(clean.robot(clean.urdf()), clean.check(log), clean.identify(log, "--force"))
        rows = campaign(
            {(number, variant): (number, variant) for number in numbers for variant in range(given.variants)},
            lambda job: run(*job, base),
            lambda row: (row["class"], row["variant"]),
            given,
            show,
        )
    failed = [row for row in rows if row["wrong"]]
    codes = dict(sorted(Counter(row["code"] for row in rows).items()))
    print(
        f"{len(rows)} cases of {len({row['class'] for row in rows})} classes: {len(failed)} failed, by exit code "
        f"{codes}; processor time {sum(row['cpu'] for row in rows) / 60:.1f} min"
    )
    for number, why in sorted(ELSEWHERE.items()):
        print(f"class {number}: {why}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
