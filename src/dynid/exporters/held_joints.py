"""A model without the joints that are held, brought back to the description that has them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float
from dynid.exporters.model import ExportModel, kept_share, shared_text, turned_zeros
from dynid.exporters.urdf import require_same_tree
from dynid.robot.locking import Locked
from dynid.robot.model import RobotModel
from dynid.spatial.inertia import transformed
from dynid.terms.exports import JointSpring
from dynid.terms.spring import described_springs


def unlocked(model: ExportModel, described: RobotModel, held: Locked) -> tuple[ExportModel, tuple[str, ...]]:
    """The model with the joints of the whole description, and what there is to say of shares.

    held: the description with the joints held that the model lacks. Bodies on those joints keep the inertia that is
    described, or the share of it that leaves a possible rest; those that carry them take the rest. Friction, rotors
    and springs are as described.
    Raises InputError if the description is another robot's.
    """
    require_same_tree(model.described, held.robot, described.source)
    inertia = np.where(np.isfinite(described.inertia_prior), described.inertia_prior, 0.0)
    kept = [i for i, name in enumerate(described.body_names) if name in held.robot.body_names]
    carried = np.zeros_like(model.inertia)
    for i, on in enumerate(held.carrier):
        if i not in kept and on >= 0:
            carried[on] += transformed(inertia[i], held.frames[i])
    shares = [kept_share(whole, part) for whole, part in zip(model.inertia, carried, strict=True)]
    for i, on in enumerate(held.carrier):
        if i not in kept and on >= 0:
            inertia[i] *= shares[on]
    inertia[kept] = model.inertia - np.array(shares)[:, None] * carried
    notes = [
        shared_text(name, share, part, whole)
        for name, share, part, whole in zip(
            model.robot.body_names, shares, carried, model.inertia, strict=True
        )
        if share < 1.0
    ]
    joints = [described.joint_names.index(name) for name in model.robot.joint_names]

    def spread(values: Float, others: Float) -> Float:
        whole = np.where(np.isfinite(others), others, 0.0)
        whole[joints] = values
        return whole

    def on_whole(one: JointSpring) -> JointSpring:
        weights = np.zeros(described.n)
        weights[joints] = one.weights
        return replace(one, weights=weights)

    there = [described.joint_names.index(name) for name in held.robot.locked if name in described.joint_names]
    springs = [one for one in described_springs(described) if one.joints[0] in there]
    none, one = np.zeros(described.n), np.ones(described.n)
    zeros = spread(model.zeros, none)
    return replace(
        model,
        robot=turned_zeros(described, zeros),
        inertia=inertia,
        rotor=spread(model.rotor, described.drive.reflected_rotor_inertia),
        viscous=spread(model.viscous, described.friction_prior[:, 0]),
        coulomb=spread(model.coulomb, described.friction_prior[:, 1]),
        offset=spread(model.offset, none),
        width=spread(model.width, none),
        peak=spread(model.peak, one),
        distance=spread(model.distance, none),
        zeros=zeros,
        reach=np.zeros((0, 2)),
        springs=(*map(on_whole, model.springs), *springs),
        curves=(),
        mixed=(),
        tilt=None,
    ), tuple(notes)
