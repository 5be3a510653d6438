"""Simulated logs of a tree of three joints, with any fault written into the torque, and the model that they choose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from dynid.base import Diagnostics, Float
from dynid.estimate import WLS
from dynid.identification import Settings, identify
from dynid.log import canonical_columns, read_log, write_log
from dynid.robot import RobotModel
from dynid.run import Identification
from dynid.signals import Preparation, Samples
from dynid.terms import Coulomb, Offset, RigidBody, RotorInertia, Viscous
from dynid.testing import random_inertia, random_robot
from dynid.trajectories import FourierTrajectory

BODIES = random_inertia(3, 3)
ROBOT: RobotModel = replace(random_robot(2, 3, 0.0), inertia_prior=BODIES)
MODEL = RigidBody() + RotorInertia() + Viscous() + Coulomb(0.02) + Offset()
THETA = np.concatenate([BODIES.ravel(), np.random.default_rng(0).uniform(0.5, 1.5, 12)])
RATE, SECONDS, NOISE = 200.0, 40.0, 0.01
TIME = np.arange(round(SECONDS * RATE)) / RATE

Fault = Callable[[Float], Float]


@lru_cache
def motion(early: float = 0.0) -> tuple[Float, Float, Float]:
    """q, dq, ddq at RATE, of some seconds before."""
    planned = FourierTrajectory.random(ROBOT, SECONDS + 1.0, harmonics=10, seed=5, frequency=0.05, ramp=1.0)
    return planned.motion(TIME + 0.5 - early)


def torque(early: float = 0.0) -> Float:
    """Torque without noise, (T, n), of some seconds before."""
    return MODEL.torque(ROBOT, Samples.from_motion(*motion(early), rate=RATE), THETA)


# Chosen by fits without constraints: the consistent bodies that are looked for afterwards are a third of the time.
CHOOSING = Settings(automatic=True, estimator=WLS(), preparation=Preparation(cutoff=6.0))


def chosen(
    folder: Path, fault: Fault, robot: RobotModel = ROBOT, settings: Settings = CHOOSING
) -> Identification:
    """Identified, without a model where settings name none, from a log whose torque has a fault."""
    clean = torque()
    noise = NOISE * clean.std(axis=0) * np.random.default_rng(1).normal(0, 1, clean.shape)
    columns = canonical_columns(ROBOT.joint_names, motion()[0], tau=fault(clean) + noise)
    path = write_log(folder / "log.parquet", TIME, columns)
    return identify(robot, read_log(path, robot), settings, threads=1, diagnostics=Diagnostics())


def options(found: Identification) -> dict[str, str]:
    """Chosen option by axis, what is in no model left out."""
    assert found.selection is not None
    pairs = zip(found.selection.axes, found.selection.chosen.options, strict=True)
    return {axis: option for axis, option in pairs if option not in ("none", "level")}


def reported(found: Identification) -> dict[str, str]:
    """Text of the doubts and warnings by identifier."""
    items = (*found.diagnostics.doubts, *found.diagnostics.warnings)
    return {one.identifier: str(one.text) for one in items}


def adopted(found: Identification) -> dict[str, tuple[float, float]]:
    """What the model holds of the log, offsets left out: value and half width by name."""
    assert found.selection is not None
    return {
        n.name: (n.value, n.half_width)
        for n in found.selection.measurement_effects
        if n.adopted and n.kind != "offset"
    }


def inside(found: Identification) -> float:
    """Share of the base parameters of robot and offsets whose interval holds the truth."""
    estimate = found.estimate
    names = [c.name for c in MODEL.columns(ROBOT)]
    truth = dict(zip(names, THETA, strict=True))
    beta = estimate.base.reduce(np.array([truth.get(c.name, 0.0) for c in estimate.columns]))
    own = np.array([estimate.columns[i].name in truth for i in estimate.base.independent])
    return float(np.mean(np.abs(estimate.value - beta)[own] <= estimate.half_width()[own]))
