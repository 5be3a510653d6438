"""Self-test: simulate the model of a run on the motion of its log, identify it again, and compare."""

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
from dynid.run.floating import refuse_floating
from dynid.run.result import Identification
from dynid.signals.noise import MotionNoise
from dynid.signals.prepare import Prepared, prepare
from dynid.signals.samples import Samples, WithPast
from dynid.signals.settings import Preparation
from dynid.terms.exports import Column, Of
from dynid.verbs.demo import NUMPY_HINT, run_demo

# Check of the installation: versions, kernel, packages, and a trial identification.

# Purpose of each extra; those for developers are not checked.
EXTRAS = {
    "app": "dynid app, the local web page",
    "bags": "ROS bags and MCAP",
    "collision": "collision checks of planned motions",
    "excel": "Excel workbooks",
    "fleet": "dynid fleet on a Dask cluster",
    "hdf5": "HDF5 and MATLAB 7.3 logs",
    "plot": "plots of a result in notebooks",
    "usd": "USD robots",
    "xacro": "xacro robots",
}
# The torque error of the trial must be below this share of the error of the imprecise prior.
BETTER = 0.5
# Share of true base parameters within their 95 % intervals; a correct installation is below it once in a thousand.
COVERED = 0.8
_NAME = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Check:
    """Result of one check; works: None = absent, and needed only for the purpose in `text`."""

    name: str
    works: bool | None
    text: str
    do: str = ""

    def __str__(self) -> str:
        mark = {True: "+", False: "x", None: "-"}[self.works]
        return f" {mark} {self.name}: {self.text}" + (f"; {self.do}" if self.do else "")


def examine(trial: bool = True) -> tuple[Check, ...]:
    """Check Python, kernel, packages, extras, plug-ins and disk, and identify a simulated arm.

    trial: whether the arm is identified (with the kernel in use).
    """
    checks = [
        Check("dynid", True, f"{__version__}, Python {platform.python_version()}, {platform.platform()}"),
        _kernel(),
        Check("processors", True, f"{os.cpu_count()}, of which {default_threads()} are used"),
        *_packages(),
        *_extras(),
        _plugins(),
        _disk(),
    ]
    return (*checks, _trial()) if trial else tuple(checks)


def _kernel() -> Check:
    name = backend()
    return Check("kernel", True, name, NUMPY_HINT if name == "numpy" else "")


def _required_packages() -> dict[str, list[str]]:
    # Required packages by extra; "" = always required.
    try:
        lines = requires("dynid") or []
    except PackageNotFoundError:  # run from a source tree that was not installed
        lines = []
    packages: dict[str, list[str]] = {}
    for line in lines:
        name, marker = _NAME.match(line), re.search(r"extra == ['\"]([^'\"]+)", line)
        if name is not None:
            packages.setdefault(marker.group(1) if marker else "", []).append(name.group())
    return packages


def _packages() -> list[Check]:
    names = _required_packages().get("", [])
    if not names:
        return [Check("packages", None, "not known: dynid runs from a source tree", "pip install .")]
    there, missing = _installed_and_missing(names)
    checks = [Check("packages", True, ", ".join(there))] if there else []
    if missing:
        checks.append(
            Check("packages", False, "missing: " + ", ".join(missing), f"pip install {' '.join(missing)}")
        )
    return checks


def _extras() -> list[Check]:
    needed, checks = _required_packages(), []
    for extra, use in EXTRAS.items():
        if extra not in needed:
            continue
        there, missing = _installed_and_missing(needed[extra])
        if missing:
            checks.append(Check(extra, None, f"not installed: {use}", f"pip install 'dynid[{extra}]'"))
        else:
            checks.append(Check(extra, True, f"{', '.join(there)}: {use}"))
    return checks


def _installed_and_missing(names: list[str]) -> tuple[list[str], list[str]]:
    there, missing = [], []
    for name in names:
        try:
            there.append(f"{metadata(name)['Name']} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    return there, missing


def _plugins() -> Check:
    groups = entry_points().groups
    names = sorted(
        f"{entry.name} ({entry.group.removeprefix('dynid.')}"
        + (f" of {entry.dist.name})" if entry.dist is not None else ")")
        for group in groups
        if group.startswith("dynid.")
        for entry in entry_points(group=group)
    )
    broken = [
        entry.module
        for group in groups
        if group.startswith("dynid.")
        for entry in entry_points(group=group)
        if entry.module.partition(".")[0] not in sys.modules
        and importlib.util.find_spec(entry.module.partition(".")[0]) is None
    ]
    if broken:
        return Check("plug-ins", False, f"package missing: {', '.join(broken)}", "install the plug-ins again")
    return Check("plug-ins", True, ", ".join(names) or "none")


def _disk() -> Check:
    folder = Path(tempfile.gettempdir())
    try:
        with tempfile.TemporaryDirectory(prefix="dynid-"):
            return Check("temporary files", True, str(folder))
    except OSError as error:
        return Check(
            "temporary files", False, f"{folder}: {error.strerror}", "set TMPDIR to a writable folder"
        )


def _trial() -> Check:
    name = "trial"
    with tempfile.TemporaryDirectory(prefix="dynid-") as scratch, using(backend().partition(" ")[0]):
        result = run_demo(Path(scratch) / "run", fast=True)
    before, after = float(result.prior_error.mean()), float(result.model_error.mean())
    text = (
        f"a simulated arm identified in {result.seconds:.1f} s: torque error {100 * after:.2g} %, before "
        f"{100 * before:.2g} %; {result.covered} of {result.base_count} base parameters within their 95 % intervals"
    )
    works = after < BETTER * before and result.covered >= COVERED * result.base_count
    return Check(
        name,
        works,
        text,
        "" if works else "this installation computes wrong results: report it to its maintainers",
    )


_ORDER = (Of.BODY, Of.JOINT, Of.ROBOT)


@dataclass(frozen=True)
class Recovered:
    """How well the base parameters of one link, or of one joint's friction and drive, were recovered.

    count: number of parameters.    inside: number of true values within their 95 % intervals.
    worst: largest error, in half widths of the interval.
    """

    group: str
    count: int
    inside: int
    worst: float


@dataclass(frozen=True, eq=False)
class SelfTest:
    """The model of a run, simulated and identified again.

    Attributes
    ----------
    run : Identification
    refit : Identification
        The identification of the simulated log.
    truth : ndarray, shape (n_base,)
        True values of its base parameters.
    missing : tuple of str
        Parameters of the run's model that the refit left out.
    torque_error : ndarray, shape (n_joints,)
        RMS error of its torque relative to the true torque, without noise, on the same motion.

    """

    run: Identification
    refit: Identification
    truth: Float
    missing: tuple[str, ...]
    torque_error: Float

    @property
    def missed(self) -> Float:
        """Distance from the true values in half widths of the 95 % intervals, shape (n_base,)."""
        estimate = self.refit.estimate
        half = np.maximum(estimate.half_width(), np.finfo(np.float64).tiny)
        return np.abs(estimate.value - self.truth) / half

    @property
    def share(self) -> float:
        """Share of true values within their 95 % intervals."""
        return float((self.missed <= 1.0).mean())

    @property
    def groups(self) -> tuple[Recovered, ...]:
        """Base parameters by link, then by joint; each belongs to the owner of its leading parameter."""
        estimate, missed = self.refit.estimate, self.missed
        by_group: dict[str, list[float]] = {}
        leading = [estimate.columns[place] for place in estimate.base.independent]
        order = sorted(range(len(leading)), key=lambda k: (_ORDER.index(leading[k].of), leading[k].owner))
        for k in order:
            by_group.setdefault(self._group(leading[k]), []).append(float(missed[k]))
        return tuple(
            Recovered(group, len(distances), sum(distance <= 1.0 for distance in distances), max(distances))
            for group, distances in by_group.items()
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
        width = max(len(group.group) for group in groups)
        inside = sum(group.inside for group in groups)
        rows = [
            f"  {group.group:<{width}}  {group.inside:3d} of {group.count:<3d}  {group.worst:6.2f}"
            for group in groups
        ]
        errors = ", ".join(
            f"{name} {100 * error:.3g} %"
            for name, error in zip(self.refit.robot.joint_names, self.torque_error.tolist(), strict=True)
        )
        lines = [
            f"the model of '{self.run.robot.name}' was simulated on the motion of its log, with the noise of its "
            "residuals and positions, and identified like the run:",
            f"  {'':<{width}}  true values within their 95 % intervals; largest error in half widths",
            *rows,
            f"all: {inside} of {len(self.truth)} true values within their 95 % intervals ({100 * self.share:.0f} %)",
            f"torque error on held-out data: {100 * _error(self.refit):.3g} % "
            f"(the run: {100 * _error(self.run):.3g} %)",
            f"torque error without noise: {errors}",
        ]
        if self.missing:
            lines.append(f"parameters missing in the chosen model: {', '.join(self.missing)}")
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
    """Simulate the model of a run on the filtered motion of its log, add noise, and identify it like the run.

    Torque noise consists of blocks of the run's residuals, so it has their size, spectrum and correlation between
    joints. Noise of positions, and of measured velocities, is white and as large as in the log.

    Parameters
    ----------
    run : Identification
        The identified run.
    log : Log, optional
        The log of the run, or another of the same robot; None = the log of the run, if its files are unchanged.
    seed : int
        Seed of all random draws.
    threads : int, optional
        Number of threads; results do not depend on it.
    progress : Progress, optional
        Called with stage and seconds of data done.
    diagnostics : Diagnostics, optional
        Collects warnings and notes.

    Returns
    -------
    SelfTest

    Raises
    ------
    UsageError
        If there is no log, or a log with motor encoders, whose motion cannot be simulated from torque alone.
    UnfitDataError
        For a run without residuals.

    """
    sink = diagnostics if diagnostics is not None else Diagnostics()
    refuse_floating(run.robot, "a self-test")
    log = log if log is not None else training_log(run, sink)
    if log is None:
        raise UsageError(
            "no-log",
            found="a run whose log is missing or was changed",
            expected="the log that was identified",
            do="name a log after the run",
        )
    residuals = run.training.residuals
    if residuals is None:
        raise UnfitDataError(
            "no-residuals", found="a run without residuals", expected="residuals of its training data"
        )
    log = log.of_robot(run.robot)
    settings: Any = run.preparation["settings"]
    prepared = prepare(log, replace(Preparation(**settings), rate=None), Diagnostics())
    batches = WithPast(
        ordered_map(prepared.process, prepared.windows(), pass_threads(threads)), run.robot.drive
    )
    motion = [_joined(parts) for parts in _by_segment(batches)]
    if any(samples.theta is not None for samples in motion):
        raise UsageError(
            "selftest-elastic", found="a log with encoders at the motors", expected="one encoder per joint"
        )
    theta = run.estimate.consistent if len(run.estimate.consistent) else run.estimate.parameters
    torque = [run.terms.torque(run.robot, samples, theta) for samples in motion]
    block = float(np.median([factor_block.length for factor_block in run.factors.blocks]))
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
    # Parameters that the run's model does not have are zero in the simulation.
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
    parts: list[Samples] = []
    for samples in batches:
        if parts and parts[-1].segment != samples.segment:
            yield parts
            parts = []
        parts.append(samples)
    if parts:
        yield parts


def _joined(parts: Sequence[Samples]) -> Samples:
    """Join the batches of a segment; consecutive batches do not overlap."""
    first = parts[0]
    if len(parts) == 1:
        return first
    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("t", "q", "dq", "ddq", "tau", "keep")
    }
    for name in ("theta", "dtheta", "ddtheta", "temperature"):
        if getattr(first, name) is not None:
            arrays[name] = np.concatenate([getattr(part, name) for part in parts])
    extra = {key: np.concatenate([part.extra[key] for part in parts]) for key in first.extra}
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
    """The log of the simulated robot, one trajectory per segment."""
    noise = MotionNoise.of(prepared)
    q = [samples.q + noise.position * rng.standard_normal(samples.q.shape) for samples in motion]
    dq = [samples.dq + noise.velocity * rng.standard_normal(samples.dq.shape) for samples in motion]
    tau = [
        exact + _drawn_noise(residuals, block, samples.t, rng)
        for samples, exact in zip(motion, torque, strict=True)
    ]
    names = [np.full(len(samples), f"segment {k}") for k, samples in enumerate(motion)]
    temperature = [samples.temperature for samples in motion if samples.temperature is not None]
    return Log.from_arrays(
        robot,
        np.concatenate([samples.t for samples in motion]),
        np.concatenate(q),
        np.concatenate(tau),
        np.concatenate(dq) if noise.measured else None,
        temperature=np.concatenate(temperature) if len(temperature) == len(motion) else None,
        extra={key: np.concatenate([samples.extra[key] for samples in motion]) for key in motion[0].extra},
        trajectory=np.concatenate(names),
        name="selftest",
    )


def _drawn_noise(residuals: Residuals, block: float, t: Float, rng: np.random.Generator) -> Float:
    """Noise (n_samples, n_joints) at times t, from random blocks of the residuals with random signs.

    All joints use the same blocks, which keeps their correlation. The fit removed from the residuals whatever the
    regressor columns explain. A periodic motion repeats these columns, so shifted blocks alone would contain none of
    it; random signs restore it.
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
