"""Whether an estimate without constraints may stand in for physically consistent bodies that predict worse."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float
from dynid.estimate.estimator import Estimate
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples, joined_samples
from dynid.simulation.rigid import torque
from dynid.terms.term import Terms

# Postures of the log in which mass matrices are looked at.
POSTURES = 50
# Of a joint's torque, the R2 from which bodies explain it well, as verdicts have it.
WELL = 0.95


def may_stand_in(
    robot: RobotModel, terms: Terms, free: Estimate, real: Estimate, batches: Iterable[Samples]
) -> bool:
    """Whether the estimate `free` moves as a robot does, or the consistent bodies of `real` explain the log too badly.

    Slow motion says little of inertia, and without constraints its remains are explained by bodies whose mass matrix is
    not positive definite. They predict more of that motion a little better, are wrong by multiples of the torque on
    any faster one, and cannot be simulated.
    """
    known = [batch for batch in batches if len(batch)]
    if not known or known[0].theta is not None:
        return True
    postures = _postures(known)
    M = _mass_matrices(robot, terms, free.parameters, postures)
    if bool((np.linalg.eigvalsh(M)[:, 0] > 0).all()):
        return True
    return bool((_explained(robot, terms, real.parameters, known) < WELL).any())


def _postures(batches: list[Samples]) -> Samples:
    edges = np.cumsum([0, *map(len, batches)])
    places = np.unique(np.linspace(0, edges[-1] - 1, POSTURES).astype(int))
    owners = np.searchsorted(edges, places, side="right") - 1
    return joined_samples(
        [batches[i].part(k, k + 1) for i, k in zip(owners, places - edges[owners], strict=True)]
    )


def _mass_matrices(robot: RobotModel, terms: Terms, theta: Float, samples: Samples) -> Float:
    """M (T, n, n), kg m^2, in the postures of samples: torque is linear in acceleration."""
    rest, unit = np.zeros_like(samples.q), np.eye(samples.n)
    still, *moved = (torque(robot, terms, theta, replace(samples, ddq=rest + a)) for a in (rest[0], *unit))
    M = np.stack([tau - still for tau in moved], axis=2)
    return np.asarray(0.5 * (M + M.transpose(0, 2, 1)))


def _explained(robot: RobotModel, terms: Terms, theta: Float, batches: list[Samples]) -> Float:
    """R2 (n,) of the torque of parameters (p,) on the samples that count."""
    pairs = [
        (one.tau[one.keep], (one.tau - torque(robot, terms, theta, one))[one.keep])
        for one in batches
        if one.keep.any()
    ]
    tau, left = (np.concatenate(values) for values in zip(*pairs, strict=True))
    return np.asarray(1.0 - left.var(axis=0) / np.maximum(tau.var(axis=0), 1e-300))
