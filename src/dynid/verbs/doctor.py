"""Whether this installation works: versions, kernel, packages, and a robot identified on the spot."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, entry_points, metadata, requires, version
from pathlib import Path

from dynid.base.parallel import default_threads
from dynid.base.records import dataclass
from dynid.base.version import __version__
from dynid.kernel import backend, using
from dynid.verbs.demo import NUMPY_HINT, run_demo

# What the extras are for; those of developers are not looked for.
EXTRAS = {
    "app": "the local page, dynid app",
    "bags": "ROS bags and MCAP",
    "collision": "clearances of designed motions, checked by coal",
    "excel": "Excel's workbooks",
    "fleet": "fleets on Dask",
    "hdf5": "HDF5 and MATLAB 7.3 logs",
    "plot": "a result's figure in notebooks, by plotly",
    "usd": "USD robots",
    "xacro": "xacro robots",
}
# A fitted model misses less of the noise-free torque than this share of what the imprecise description misses.
BETTER = 0.5
# 95 % intervals of the trial's base parameters may miss the truth for so many: one in a thousand installations more.
COVERED = 0.8
_NAME = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.    works: None = absent, and needed only for what `text` names."""

    name: str
    works: bool | None
    text: str
    do: str = ""

    def __str__(self) -> str:
        mark = {True: "+", False: "x", None: "-"}[self.works]
        return f" {mark} {self.name}: {self.text}" + (f"; {self.do}" if self.do else "")


def examine(trial: bool = True) -> tuple[Check, ...]:
    """Looks at Python, kernel, packages, extras, plug-ins and the disk, and identifies a simulated arm.

    trial: whether an arm is identified, by the kernel in use.
    """
    found = [
        Check("dynid", True, f"{__version__}, Python {platform.python_version()}, {platform.platform()}"),
        _kernel(),
        Check("processors", True, f"{os.cpu_count()}, of which {default_threads()} are used"),
        *_packages(),
        *_extras(),
        _plugins(),
        _disk(),
    ]
    return (*found, _trial()) if trial else tuple(found)


def _kernel() -> Check:
    name = backend()
    return Check("kernel", True, name, NUMPY_HINT if name == "numpy" else "")


def _needed() -> dict[str, list[str]]:
    # Packages by extra, "" = always.
    try:
        lines = requires("dynid") or []
    except PackageNotFoundError:  # run from a source tree that was not installed
        lines = []
    found: dict[str, list[str]] = {}
    for line in lines:
        name, marker = _NAME.match(line), re.search(r"extra == ['\"]([^'\"]+)", line)
        if name is not None:
            found.setdefault(marker.group(1) if marker else "", []).append(name.group())
    return found


def _packages() -> list[Check]:
    names = _needed().get("", [])
    if not names:
        return [Check("packages", None, "not known: dynid runs from a source tree", "pip install .")]
    there, missing = _sorted_out(names)
    checks = [Check("packages", True, ", ".join(there))] if there else []
    if missing:
        checks.append(
            Check("packages", False, "missing: " + ", ".join(missing), f"pip install {' '.join(missing)}")
        )
    return checks


def _extras() -> list[Check]:
    needed, checks = _needed(), []
    for extra, use in EXTRAS.items():
        if extra not in needed:
            continue
        there, missing = _sorted_out(needed[extra])
        if missing:
            checks.append(Check(extra, None, f"not installed: {use}", f"pip install 'dynid[{extra}]'"))
        else:
            checks.append(Check(extra, True, f"{', '.join(there)}: {use}"))
    return checks


def _sorted_out(names: list[str]) -> tuple[list[str], list[str]]:
    there, missing = [], []
    for name in names:
        try:
            there.append(f"{metadata(name)['Name']} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    return there, missing


def _plugins() -> Check:
    groups = entry_points().groups
    found = sorted(
        f"{one.name} ({one.group.removeprefix('dynid.')}"
        + (f" of {one.dist.name})" if one.dist is not None else ")")
        for group in groups
        if group.startswith("dynid.")
        for one in entry_points(group=group)
    )
    broken = [
        one.module
        for group in groups
        if group.startswith("dynid.")
        for one in entry_points(group=group)
        if one.module.partition(".")[0] not in sys.modules
        and importlib.util.find_spec(one.module.partition(".")[0]) is None
    ]
    if broken:
        return Check("plug-ins", False, f"without their package: {', '.join(broken)}", "install them again")
    return Check("plug-ins", True, ", ".join(found) or "none")


def _disk() -> Check:
    folder = Path(tempfile.gettempdir())
    try:
        with tempfile.TemporaryDirectory(prefix="dynid-"):
            return Check("temporary files", True, str(folder))
    except OSError as error:
        return Check(
            "temporary files", False, f"{folder}: {error.strerror}", "set TMPDIR to a folder to write to"
        )


def _trial() -> Check:
    name = "trial"
    with tempfile.TemporaryDirectory(prefix="dynid-") as scratch, using(backend().partition(" ")[0]):
        found = run_demo(Path(scratch) / "run", fast=True)
    before, after = float(found.prior_error.mean()), float(found.model_error.mean())
    text = (
        f"a simulated arm identified in {found.seconds:.1f} s: {100 * after:.2g} % of its torque missed, "
        f"{100 * before:.2g} % before; {found.covered} of {found.base_count} base parameters inside their intervals"
    )
    works = after < BETTER * before and found.covered >= COVERED * found.base_count
    return Check(
        name,
        works,
        text,
        "" if works else "this installation computes wrong results: report it to its maintainers",
    )
