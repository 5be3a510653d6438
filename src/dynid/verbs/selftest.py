"""What an identification recovers where its model is true: the run's model at its log's own motion, fitted again."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, entry_points, metadata, requires, version
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import UnfitDataError, UsageError
from dynid.base.parallel import Progress, default_threads, ordered_map, pass_threads
from dynid.base.records import dataclass
from dynid.base.registry import __version__
from dynid.estimate.scores import Residuals
from dynid.identification.experiment import Experiment
from dynid.identification.logs import training_log
from dynid.identification.pipeline import identify
from dynid.kernel import backend, using
from dynid.log.read import Log
from dynid.robot.model import RobotModel
from dynid.run.result import Identification
from dynid.signals.noise import MotionNoise
from dynid.signals.prepare import Prepared, prepare
from dynid.signals.samples import Samples, WithPast
from dynid.signals.settings import Preparation
from dynid.terms.exports import Column, Of
from dynid.verbs.demo import NUMPY_HINT, run_demo

# Whether this installation works: versions, kernel, packages, and a robot identified on the spot.

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


_ORDER = (Of.BODY, Of.JOINT, Of.ROBOT)


@dataclass(frozen=True)
class Recovered:
    """How base parameters of one link, or of one joint's friction and drive, came out.

    count: of parameters.    inside: of those whose true value lies in the 95 % interval.
    worst: greatest error, in half widths of the interval.
    """

    group: str
    count: int
    inside: int
    worst: float


@dataclass(frozen=True, eq=False)
class SelfTest:
    """A run's model, simulated and identified.

    refit: the identification.    truth: (b,) true values of its base parameters.
    missing: parameters of the run's model that the refit left out.
    torque_error: (n,) r.m.s. error of its torque over that of the true torque, without noise, on the same motion.
    """

    run: Identification
    refit: Identification
    truth: Float
    missing: tuple[str, ...]
    torque_error: Float

    @property
    def missed(self) -> Float:
        """(b,) distance from the true values, in half widths of the 95 % intervals."""
        estimate = self.refit.estimate
        half = np.maximum(estimate.half_width(), np.finfo(np.float64).tiny)
        return np.abs(estimate.value - self.truth) / half

    @property
    def share(self) -> float:
        """Share of true values inside their 95 % intervals."""
        return float((self.missed <= 1.0).mean())

    @property
    def groups(self) -> tuple[Recovered, ...]:
        """Base parameters by link, then by joint; each counts where its leading parameter belongs."""
        estimate, missed = self.refit.estimate, self.missed
        found: dict[str, list[float]] = {}
        leading = [estimate.columns[place] for place in estimate.base.independent]
        order = sorted(range(len(leading)), key=lambda k: (_ORDER.index(leading[k].of), leading[k].owner))
        for k in order:
            found.setdefault(self._group(leading[k]), []).append(float(missed[k]))
        return tuple(
            Recovered(group, len(own), sum(one <= 1.0 for one in own), max(own))
            for group, own in found.items()
        )

    def _group(self, column: Column) -> str:
        robot = self.refit.robot
        if column.of is Of.BODY:
            return f"link {robot.body_names[column.owner]}"
        return (
            f"friction and drive of {robot.joint_names[column.owner]}" if column.of is Of.JOINT else "robot"
        )

    def lines(self) -> list[str]:
        """The result in words."""
        groups = self.groups
        width = max(len(one.group) for one in groups)
        inside = sum(one.inside for one in groups)
        rows = [
            f"  {one.group:<{width}}  {one.inside:3d} of {one.count:<3d}  {one.worst:6.2f}" for one in groups
        ]
        errors = ", ".join(
            f"{name} {100 * one:.3g} %"
            for name, one in zip(self.refit.robot.joint_names, self.torque_error.tolist(), strict=True)
        )
        lines = [
            f"the model of '{self.run.robot.name}', simulated at its log's own motion with the noise of its residuals "
            "and positions, and identified as the run was:",
            f"  {'':<{width}}  inside their 95 % intervals; greatest error in half widths",
            *rows,
            f"all: {inside} of {len(self.truth)} true values inside their 95 % intervals ({100 * self.share:.0f} %)",
            f"error on data that were not fitted: {100 * _error(self.refit):.3g} % "
            f"(the run: {100 * _error(self.run):.3g} %)",
            f"error of the torque without noise: {errors}",
        ]
        if self.missing:
            lines.append(f"not in the model that was chosen: {', '.join(self.missing)}")
        return lines


def selftest(
    run: Identification,
    log: Log | None = None,
    *,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress | None = None,
    diagnostics: Diagnostics | None = None,
) -> SelfTest:
    """Simulates a run's model along its log's filtered motion, adds noise, and identifies as the run's experiment says.

    Torque noise is made of blocks of the run's own residuals: as strong, as coloured, as alike between joints. Noise
    of positions, and of velocities where these were measured, is white and as strong as in the log.
    log: that of the run, or another of the same robot; None = the run's, if its files are there and unchanged.

    Raises UsageError where there is no log, or one with motors' encoders, of which torque alone says too little;
    UnfitDataError for a run without residuals.
    """
    sink = diagnostics if diagnostics is not None else Diagnostics()
    log = log if log is not None else training_log(run, sink)
    if log is None:
        raise UsageError(
            "no-log",
            found="a run whose log is not there any more",
            expected="its log",
            do="name one after the run",
        )
    residuals = run.training.residuals
    if residuals is None:
        raise UnfitDataError(
            "no-residuals", found="a run without residuals", expected="those of its training data"
        )
    log = log.of_robot(run.robot)
    settings: Any = run.preparation["settings"]
    prepared = prepare(log, replace(Preparation(**settings), rate=None), Diagnostics())
    batches = WithPast(
        ordered_map(prepared.process, prepared.windows(), pass_threads(threads)), run.robot.drive
    )
    motion = [_whole(own) for own in _by_segment(batches)]
    if any(samples.theta is not None for samples in motion):
        raise UsageError(
            "selftest-elastic", found="a log with encoders at the motors", expected="one encoder a joint"
        )
    theta = run.estimate.consistent if len(run.estimate.consistent) else run.estimate.parameters
    torque = [run.terms.torque(run.robot, samples, theta) for samples in motion]
    block = float(np.median([one.length for one in run.factors.blocks]))
    simulated = _log(run.robot, residuals, block, prepared, motion, torque, np.random.default_rng(seed))
    refit = identify(
        run.robot,
        simulated,
        replace(Experiment.from_dict(run.experiment).settings(), accept=()),
        threads=threads,
        progress=progress,
        diagnostics=sink,
    )
    true = {column.name: value for column, value in zip(run.estimate.columns, theta.tolist(), strict=True)}
    names = [column.name for column in refit.estimate.columns]
    # What the run's model does not have is zero there.
    values = np.array([true.get(name, 0.0) for name in names])
    error, size = np.zeros((2, run.robot.n))
    for samples, exact in zip(motion, torque, strict=True):
        again = refit.terms.torque(refit.robot, samples, refit.estimate.parameters)
        error += ((again - exact) ** 2).sum(axis=0)
        size += (exact**2).sum(axis=0)
    missing = tuple(name for name, value in true.items() if value and name not in names)
    truth = refit.estimate.base.B @ values
    return SelfTest(run, refit, truth, missing, np.sqrt(error / np.where(size > 0, size, np.nan)))


def _error(run: Identification) -> float:
    judged = run.validations[0] if run.validations else run.training
    return float(judged.scores.total_relative)


def _by_segment(batches: WithPast) -> Iterator[list[Samples]]:
    own: list[Samples] = []
    for samples in batches:
        if own and own[-1].segment != samples.segment:
            yield own
            own = []
        own.append(samples)
    if own:
        yield own


def _whole(parts: Sequence[Samples]) -> Samples:
    """The batches of a segment as one; those of a log begin where the one before has ended."""
    first = parts[0]
    if len(parts) == 1:
        return first
    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(one, name) for one in parts])
        for name in ("t", "q", "dq", "ddq", "tau", "keep")
    }
    for name in ("theta", "dtheta", "ddtheta", "temperature"):
        if getattr(first, name) is not None:
            arrays[name] = np.concatenate([getattr(one, name) for one in parts])
    extra = {key: np.concatenate([one.extra[key] for one in parts]) for key in first.extra}
    return replace(first, **arrays, extra=extra, gate=None, left_out={})


def _log(
    robot: RobotModel,
    residuals: Residuals,
    block: float,
    prepared: Prepared,
    motion: Sequence[Samples],
    torque: Sequence[Float],
    rng: np.random.Generator,
) -> Log:
    """The log of the simulated robot, a trajectory a segment."""
    noise = MotionNoise.of(prepared)
    q = [one.q + noise.position * rng.standard_normal(one.q.shape) for one in motion]
    dq = [one.dq + noise.velocity * rng.standard_normal(one.dq.shape) for one in motion]
    tau = [exact + _drawn(residuals, block, one.t, rng) for one, exact in zip(motion, torque, strict=True)]
    names = [np.full(len(one), f"segment {k}") for k, one in enumerate(motion)]
    temperature = [one.temperature for one in motion if one.temperature is not None]
    return Log.from_arrays(
        robot,
        np.concatenate([one.t for one in motion]),
        np.concatenate(q),
        np.concatenate(tau),
        np.concatenate(dq) if noise.measured else None,
        temperature=np.concatenate(temperature) if len(temperature) == len(motion) else None,
        extra={key: np.concatenate([one.extra[key] for one in motion]) for key in motion[0].extra},
        trajectory=np.concatenate(names),
        name="selftest",
    )


def _drawn(residuals: Residuals, block: float, t: Float, rng: np.random.Generator) -> Float:
    """Noise (T, n) at times t, made of blocks of the residuals, each from a random place and of a random sign.

    All joints alike: what they have in common stays so. The fit took from the residuals what the motion's columns
    explain, which repeats itself with a periodic motion; random signs bring it back, where a shift would not.
    Source: Liu 1988 (random signs), Künsch 1989 (blocks).
    """
    error = np.nan_to_num(residuals.error_counted)
    rows = min(max(round(block * residuals.rate), 1), len(error))
    count = int(np.ceil((t[-1] - t[0]) * residuals.rate)) + 2
    parts = []
    for _ in range(-(-count // rows)):
        start = int(rng.integers(len(error) - rows + 1))
        parts.append(rng.choice((-1.0, 1.0)) * error[start : start + rows])
    drawn = np.concatenate(parts)
    place = (t - t[0]) * residuals.rate
    return np.stack([np.interp(place, np.arange(len(drawn)), line) for line in drawn.T], axis=1)
