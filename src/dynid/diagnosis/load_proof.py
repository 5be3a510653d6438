"""Proof of a load: the description with it predicts held-out blocks better, and no other error of it does."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float
from dynid.diagnosis.proof import (
    FOLDS,
    RIVALS,
    HeldOut,
    Proof,
    chance_of_gain,
    gain_by_joint,
    gain_of,
)
from dynid.diagnosis.residual_analysis import ResidualAnalysis, regressor
from dynid.kernel import inverse_dynamics, torque_regressor
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.residual_tests import Rival
from dynid.terms.term import Of, Terms

TEN = 10
# What else could make the described bodies miss, beside another body and one scale of all: see RIVALS.
IMITATIONS = (Rival.ZERO,)


def prove_load(analysis: ResidualAnalysis, body: int) -> Proof | None:
    """Holds bodies at their description, fits drives beside them to folds of whole blocks and scores blocks left out.

    Free bodies take up any load, so that only the described ones can miss it. Declared is a load of ten free parameters
    on a body; its opposite is the load of all blocks taken off; rivals are ten free parameters on any other body, one
    scale of the described torque, and zeros of the joints.
    None without a description of every body, where the model reads more than motion, or where there are too few blocks.
    """
    robot, samples = analysis.robot, analysis.gated
    described = robot.inertia_prior
    if (
        not np.isfinite(described).all()
        or not analysis.enough
        or int(analysis.block.max(initial=-1)) + 1 < FOLDS
    ):
        return None
    terms = analysis.plain_model[0]
    drives = Terms(tuple(t for t in terms if not any(c.of is Of.BODY for c in t.columns(robot))))
    wanted = np.ones(len(drives.columns(robot)), dtype=np.bool_)
    Y, complete = regressor(robot, drives, samples, wanted)
    if not complete:
        return None
    motion = robot.tree_motion(samples.q, samples.dq, samples.ddq)
    known = inverse_dynamics(robot.tree, described, *motion) @ robot.projection
    left = samples.tau - known
    bodies = body_columns(robot, samples)

    def error(further: Float | None = None, less: Float | None = None) -> Float:
        target = left if less is None else left - less
        return HeldOut.weighted(analysis, Y, target, further).error()

    own = bodies[:, :, TEN * body : TEN * (body + 1)]
    before, after = error(), error(own)
    rivals = {
        f"another weight of body '{robot.body_names[i]}'": error(bodies[:, :, TEN * i : TEN * (i + 1)])
        for i in range(robot.n_bodies)
        if i != body
    }
    rivals["one scale of all torque"] = error(known.T[:, :, None])
    for one in IMITATIONS:
        rivals[str(one)] = error(RIVALS[one](analysis))
    gains = {name: gain_of(before, after_it) for name, after_it in rivals.items()}
    rival = max(gains, key=lambda name: gains[name])
    return Proof(
        gain=gain_of(before, after),
        by_joint=gain_by_joint(before, after),
        p_value=chance_of_gain(before.sum(axis=0), after.sum(axis=0)),
        mirror=gain_of(before, error(less=-_torque(own, Y, left, analysis))),
        rival=rival,
        rival_gain=gains[rival],
    )


def body_columns(robot: RobotModel, samples: Samples) -> Float:
    """Columns (n, N, 10 nb) of all bodies."""
    tree = torque_regressor(robot.tree, *robot.tree_motion(samples.q, samples.dq, samples.ddq))
    dense = np.zeros((len(tree.columns), len(samples), TEN * robot.n_bodies))
    for i, (columns, values) in enumerate(zip(tree.columns, tree.values, strict=True)):
        dense[i][:, columns] += values.T
    return np.asarray(np.einsum("ij,itk->jtk", robot.projection, dense))


def _torque(own: Float, Y: Float, left: Float, analysis: ResidualAnalysis) -> Float:
    """Torque (N, n) of the load that all blocks show, beside the drives."""
    weight = analysis.weights
    both = (np.concatenate([own, Y], axis=2) * weight[:, None, None]).reshape(-1, own.shape[2] + Y.shape[2])
    size = np.sqrt((both**2).sum(axis=0))
    size = np.where(size > 0, size, 1.0)
    found, *_ = np.linalg.lstsq(both / size, (left * weight).T.reshape(-1), rcond=1e-9)
    return np.asarray((own @ (found / size)[: own.shape[2]]).T)
