"""One encoder a joint or two: which equations a log allows, and what its stiffnesses are worth."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace

import numpy as np

from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import Place, UsageError
from dynid.estimate.deflection import stiffness_ranges
from dynid.estimate.estimator import Estimate
from dynid.factor.assemble import Assembly
from dynid.log.log import ChannelMap
from dynid.robot.model import RobotModel
from dynid.rows.elastic import ElasticRows
from dynid.rows.energy import EnergyRows
from dynid.rows.power import FilteredPowerRows, PowerRows
from dynid.rows.rows import Rows
from dynid.rows.torque import TorqueRows
from dynid.signals.samples import Samples
from dynid.terms.elastic import SpringTerm, Stiffness, is_stiffness, on_joints
from dynid.terms.joint_term import joint_indices
from dynid.terms.term import Terms

SIGNIFICANCE = 4.0


def for_encoders(
    robot: RobotModel,
    terms: Terms,
    rows: Rows,
    mapping: ChannelMap,
    diagnostics: Diagnostics,
    automatic: bool = False,
) -> tuple[Terms, Rows]:
    """The model and the equations that a log allows: elastic joints where it has two encoders, rigid ones elsewhere.

    automatic: whether the terms are a beginning that may be added to.
    Says in a warning what is lost. Raises UsageError for springs in rigid equations and for elastic ones without.
    """
    springs = [term.name for term in terms if isinstance(term, SpringTerm)]
    if isinstance(rows, EnergyRows | PowerRows | FilteredPowerRows) and mapping.motor_position:
        have = tuple(name for name in robot.joint_names if name in mapping.motor_position)
        kept = (on_joints(term, have) for term in terms)
        return Terms(tuple(term for term in kept if term is not None)), replace(rows, joints=have)
    if not isinstance(rows, ElasticRows):
        if springs:
            raise UsageError(
                "springs-in-rigid-rows",
                found=f"{', '.join(springs)} with {rows.name} rows, in whose sum of both sides springs cancel",
                expected="the equations of elastic joints",
                do='set rows = "elastic" under [model]',
            )
        return terms, rows
    wanted = [robot.joint_names[j] for j in joint_indices(robot, rows.joints)]
    have = tuple(name for name in wanted if name in mapping.motor_position)
    lacking = [name for name in wanted if name not in have]
    if lacking:
        _say_what_is_lost(lacking, springs, whole=not have, sink=diagnostics)
    if not have:
        return Terms(tuple(term for term in terms if not isinstance(term, SpringTerm))), TorqueRows()
    if not springs:
        if not automatic:
            raise UsageError(
                "no-springs",
                found=f"{rows.name} rows, and no term between motor and link",
                expected="the spring that joins both",
                do="add 'stiffness' to the terms under [model]",
            )
        terms = Terms((*terms, Stiffness()))
    kept = (on_joints(term, have) for term in terms)
    return Terms(tuple(term for term in kept if term is not None)), replace(rows, joints=have)


def _say_what_is_lost(joints: list[str], springs: list[str], whole: bool, sink: Diagnostics) -> None:
    names = ", ".join(joints)
    text = f"one encoder on {names}: rigid joints are identified there. Lost: "
    text += "the transmission's stiffness and damping"
    text += f" ({', '.join(springs)}), " if springs else ", "
    text += (
        "friction behind the spring apart from the motor's, and the rotor's inertia apart from the link's wherever "
        "both follow the same acceleration. Vibration of the joint counts as error: keep the cut-off below its first "
        "resonance"
    )
    if whole:
        text += ". Map the second encoder under [log] as motor_position"
    sink.warn("one-encoder", text)


def check_negative_stiffness(robot: RobotModel, estimate: Estimate, diagnostics: Diagnostics) -> None:
    """Claims negative-stiffness or encoders-exchanged beyond doubt: springs push back, they do not pull on.

    Exchanged encoders turn the sign of every deflection, and so of every stiffness.
    """
    found = [
        (column.owner, float(estimate.value[i]), float(estimate.std[i]))
        for i, column in enumerate(estimate.columns[k] for k in estimate.base.independent)
        if is_stiffness(column)
    ]
    wrong = [(owner, value, std) for owner, value, std in found if value < -SIGNIFICANCE * std]
    if not wrong:
        return
    evidence = "; ".join(
        f"{robot.joint_names[owner]}: {value:.4g} N m/rad, standard deviation {std:.2g}"
        for owner, value, std in wrong
    )
    exchanged = len(wrong) == len(found)
    diagnostics.claim(
        "encoders-exchanged" if exchanged else "negative-stiffness",
        found=f"negative stiffness beyond doubt ({evidence})",
        expected="a motor that runs ahead of its link when it pushes",
        do="exchange the columns of position and motor_position under [log]"
        + (
            ": every joint's is negative, as when the encoders are exchanged"
            if exchanged
            else " of this joint"
        )
        + ", or check the sign of the effort",
        place=Place(joint=robot.joint_names[wrong[0][0]]) if len(wrong) == 1 else Place(),
    )


def report_stiffness(
    assembly: Assembly, batches: Iterable[Samples], estimate: Estimate, diagnostics: Diagnostics
) -> dict[str, list[dict[str, object]]]:
    """Sets each stiffness beside the range that deflection and torque allow; a warning where it lies outside.

    Returns the ranges as plain data, {"stiffness": [...]}; {} for rigid joints.
    """
    if not isinstance(assembly.rows, ElasticRows):
        return {}
    robot = assembly.robot
    joints = assembly.rows.two_encoders(robot)
    ranges = stiffness_ranges(assembly, joints, batches, estimate.full_vector)
    for joint, one in zip(joints, ranges, strict=True):
        place = Place(joint=one.joint)
        range_ = f"{one.lower:.3g} to {one.upper:.3g} N m/rad by deflection and torque, {one.value:.3g} in the middle"
        range_ += f" (deflection explains {100 * one.explained:.2g} % of the torque)"
        value, half = _stiffness(estimate, f"{Stiffness.symbol}{joint + 1}")
        if np.isfinite(value) and (value + half < one.lower or value - half > one.upper):
            diagnostics.warn(
                "stiffness-disputed",
                f"stiffness {value:.3g} +- {half:.2g} N m/rad from the equations, but {range_}: hysteresis, play or "
                "errors of an encoder; trust the wider range",
                place,
            )
        else:
            diagnostics.note("stiffness", f"stiffness {range_}", place)
    return {"stiffness": [asdict(one) for one in ranges]}


def _stiffness(estimate: Estimate, name: str) -> tuple[float, float]:
    names = [estimate.columns[k].name for k in estimate.base.independent]
    if name not in names:
        return np.nan, np.nan
    i = names.index(name)
    return float(estimate.value[i]), float(estimate.half_width()[i])
