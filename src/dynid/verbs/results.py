"""Results as plain data, for programs: what --json prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dynid.estimate.estimator import Estimate
from dynid.estimate.verdict import base_verdicts
from dynid.factor.base import BaseMap, Category, structural_base
from dynid.robot.model import RobotModel
from dynid.rows.torque import TorqueRows
from dynid.run.links import Value, joint_values, links, total_said
from dynid.run.result import Identification
from dynid.run.serial import scores_to_dict
from dynid.terms.rigid_body import RigidBody
from dynid.terms.term import Terms
from dynid.verbs.summary import different_parameters

if TYPE_CHECKING:
    from dynid.verbs.statics import StaticEstimate


def identification_data(result: Identification) -> dict[str, Any]:
    """Verdict, scores, links, joints and base parameters; a half width is None unless the data decide."""
    verdict = result.verdict
    words = base_verdicts(result.estimate, result.factors)
    found, total = links(result)
    return {
        "robot": result.robot.name,
        "terms": [term.name for term in result.terms],
        "verdict": {
            "word": verdict.word,
            "headline": verdict.headline,
            "findings": [vars(finding) for finding in verdict.findings],
            "accepted": verdict.accepted,
        },
        "scores": [scores_to_dict(one.scores) for one in (result.training, *result.validations)],
        "links": [
            {
                "name": link.name,
                "mass": _value(link.mass, "kg"),
                "centre": [_value(one, "m") for one in link.centre],
                "centre_in_shape": link.inside,
                "source": link.said,
            }
            for link in found
        ],
        "total_mass": {**_value(total, "kg"), "source": total_said(found, total)} if found else None,
        "joints": [
            {
                "joint": one.joint,
                "parameter": one.column.name,
                "value": one.value,
                "half_width95": one.half,
                "unit": one.column.unit,
                "known": one.known,
            }
            for one in joint_values(result)
        ],
        "base_parameters": [
            one | {"verdict": str(said.word)}
            for one, said in zip(parameter_data(result.estimate), words, strict=True)
        ],
    }


def _value(one: Value, unit: str) -> dict[str, Any]:
    return {
        "value": one.value,
        "half_width95": one.half,
        "unit": unit,
        "described": one.described,
        "share_of_data": one.data,
    }


def parameter_data(estimate: Estimate) -> list[dict[str, Any]]:
    """Base parameters with the half widths of their 95 % intervals."""
    rows = zip(estimate.names, estimate.units, estimate.value, estimate.half_width(), strict=True)
    return [
        {"formula": name, "value": value, "half_width95": half, "unit": unit}
        for name, unit, value, half in rows
    ]


def static_data(result: StaticEstimate) -> dict[str, Any]:
    """What static poses determine."""
    return {
        "poses": len(result.poses),
        "rank": result.estimate.base.rank,
        "structural_rank": result.structural.rank,
        "base_parameters": parameter_data(result.estimate),
    }


def comparison_data(runs: Sequence[tuple[str, Identification]]) -> dict[str, Any]:
    """Verdict and scores of every run, and the base parameters whose intervals do not meet."""
    return {
        "runs": [
            {
                "run": name,
                "verdict": run.verdict.word,
                "scores": [scores_to_dict(one.scores) for one in (run.training, *run.validations)],
            }
            for name, run in runs
        ],
        "differing": different_parameters(runs),
    }


def robot_data(robot: RobotModel, seed: int = 0) -> dict[str, Any]:
    """Joints, bodies, and the base parameters of the rigid bodies."""
    base = structural_base(robot, Terms((RigidBody(),)), TorqueRows(), seed)
    return {
        "robot": robot.name,
        "joints": robot.joint_names,
        "bodies": [
            {"name": body, "moved_by": joint, "prior_mass": float(ten[0])}
            for body, joint, ten in zip(
                robot.body_names, robot.tree_joint_names, robot.inertia_prior, strict=True
            )
        ],
        "base_parameters": base.formulas(),
        "parameters": _categories(base),
    }


def _categories(base: BaseMap) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {str(category): [] for category in Category}
    for name, category in zip(base.names, base.categories(), strict=True):
        found[str(category)].append(name)
    return found
