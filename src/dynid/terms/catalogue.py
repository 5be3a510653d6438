"""Names of the terms in experiments and run folders; a term is imported when its name is used.

A new built-in term is one more line of `CATALOGUE.build_in`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from dynid.base.registry import Need, kind_from_spec, kind_to_spec, option_value
from dynid.robot.model import RobotModel
from dynid.terms.exports import LogFacts, Role, Symbol
from dynid.terms.friction import WIDTH, Coulomb, Offset, Viscous
from dynid.terms.rigid_body import RigidBody
from dynid.terms.rotor import RotorInertia
from dynid.terms.term import CATALOGUE, Proposal, Term, Terms, joints_of
from dynid.terms.transmission import at_drives

__all__ = [
    "CATALOGUE",
    "names_in_spec",
    "needs_of_terms",
    "proposals",
    "question_words",
    "symbol_of",
    "terms_from_spec",
    "terms_to_spec",
    "with_described",
]


CATALOGUE.build_in(
    {
        "rigid_body": "dynid.terms.rigid_body:RigidBody",
        "rotor_inertia": "dynid.terms.rotor:RotorInertia",
        "viscous": "dynid.terms.friction:Viscous",
        "coulomb": "dynid.terms.friction:Coulomb",
        "offset": "dynid.terms.friction:Offset",
        "coulomb_sides": "dynid.terms.friction_curves:AsymmetricCoulomb",
        "polynomial": "dynid.terms.friction_curves:PolynomialFriction",
        "coulomb_tanh": "dynid.terms.friction_shapes:SmoothCoulomb",
        "saturating_viscous": "dynid.terms.friction_curves:SaturatingViscous",
        "presliding": "dynid.terms.friction_shapes:Presliding",
        "stribeck": "dynid.terms.friction_shapes:Stribeck",
        "sigmoid": "dynid.terms.friction_shapes:Sigmoid",
        "zollo": "dynid.terms.friction_shapes:ZolloFriction",
        "position_friction": "dynid.terms.friction_shapes:PositionFriction",
        "load_friction": "dynid.terms.friction_curves:LoadFriction",
        "temperature_viscous": "dynid.terms.friction_curves:TemperatureViscous",
        "friction": "dynid.terms.curve:FrictionChoice",
        "drive_gain": "dynid.terms.gain:DriveGain",
        "channel": "dynid.terms.channel:ChannelTorque",
        "motor_inertia": "dynid.terms.transmission:MotorInertia",
        "on_motor": "dynid.terms.transmission:OnMotor",
        "spring": "dynid.terms.spring:Spring",
        "torsion_spring": "dynid.terms.spring:TorsionSpring",
        "gas_spring": "dynid.terms.spring:GasSpring",
        "function": "dynid.terms.spring:FunctionTorque",
        "stiffness": "dynid.terms.elastic:Stiffness",
        "joint_damping": "dynid.terms.elastic:JointDamping",
        "spinning_rotor": "dynid.terms.rotor:SpinningRotor",
        "link_viscous": "dynid.terms.elastic:LinkViscous",
        "link_coulomb": "dynid.terms.elastic:LinkCoulomb",
        "link_offset": "dynid.terms.elastic:LinkOffset",
        "rotor_compensation": "dynid.terms.channel:RotorCompensation",
        "joint_coupling": "dynid.terms.transmission:JointCoupling",
        "compliance": "dynid.terms.elastic:Compliance",
        "gravity_tilt": "dynid.terms.gravity_tilt:GravityTilt",
        "known_payload": "dynid.terms.payload:KnownPayload",
        "held_load": "dynid.terms.payload:HeldLoad",
        "torque_delay": "dynid.terms.torque_delay:TorqueDelay",
        "gain_error": "dynid.terms.gain:GainError",
        "drift": "dynid.terms.drift:Drift",
        "zero_offset": "dynid.terms.zero_offset:ZeroOffset",
        "position_waves": "dynid.terms.position_waves:PositionWaves",
    }
)


def proposals(robot: RobotModel, log: LogFacts, *roles: Role) -> tuple[Proposal, ...]:
    """Effects that the automatic choice compares on a log.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    log : LogFacts
        Facts about the log.
    *roles : Role
        Roles to include; none given = all.

    Returns
    -------
    tuple of Proposal

    """
    return tuple(
        part
        for kind in CATALOGUE.values()
        if not roles or kind.selection.role in roles
        for proposal in kind.selection.proposed(kind, robot, log)
        for part in at_drives(robot, proposal)
    )


def with_described(terms: Terms, robot: RobotModel) -> Terms:
    """Add terms for effects that the robot file describes, unless a term already covers them.

    Parameters
    ----------
    terms : Terms
        Model.
    robot : RobotModel
        The robot.

    Returns
    -------
    Terms

    """
    added = [
        described
        for kind in CATALOGUE.values()
        for described in kind.selection.described(robot)
        if not any(
            term.name == described.name and set(joints_of(term)) & set(joints_of(described)) for term in terms
        )
    ]
    return Terms((*terms.terms, *added))


def question_words(name: str) -> str:
    """Words for a question of the automatic choice; its name if it has none."""
    return next(
        (
            question.words
            for question in (kind.selection.question for kind in CATALOGUE.values())
            if question.name == name and question.words
        ),
        name,
    )


def symbol_of(name: str) -> Symbol | None:
    """Notation of a parameter from its name without the number; None if no term has it."""
    return next(
        (symbol for term in CATALOGUE.values() for symbol in term.words.symbols if symbol.name == name), None
    )


def terms_to_spec(terms: Terms) -> list[dict[str, Any]]:
    """Write terms as plain data: {"term": name, option: value, ...} for each."""
    return [_spec(term) for term in terms]


def terms_from_spec(spec: Sequence[str | Mapping[str, Any]]) -> Terms:
    """Read terms from names or tables of options.

    Raises
    ------
    InputError
        If a term or an option is unknown, or an option is missing.

    """
    return Terms(tuple(_term(entry) for entry in spec))


def _term(entry: str | Mapping[str, Any]) -> Term:
    return cast(Term, kind_from_spec(entry, "term", CATALOGUE, _value))


def _value(kind: type[Term], name: str, key: str, value: Any) -> Any:
    if key == "of" and kind is CATALOGUE["on_motor"]:
        return _term(value)
    if key == "geometry":
        from dynid.terms.spring import lever_from_options

        return lever_from_options(value)
    return option_value(kind, name, key, value)


def _spec(term: Term) -> dict[str, Any]:
    return kind_to_spec(term, "term", term.name, _plain)


def _plain(value: Any) -> Any:
    from dynid.terms.spring import Lever, lever_to_options

    if isinstance(value, Term):
        return _spec(value)
    return lever_to_options(value) if isinstance(value, Lever) else value


def needs_of_terms(terms: Terms) -> list[Need]:
    """The terms of plug-ins, each with its module and package."""
    every = [part for term in terms for part in (term, getattr(term, "of", None)) if isinstance(part, Term)]
    return [need for part in every if (need := Need.of("term", part.name, type(part))) is not None]


def names_in_spec(spec: Sequence[str | Mapping[str, Any]]) -> list[str]:
    """Names of all terms of a model as plain data, including the inner terms of wrappers."""
    names = []
    for entry in spec:
        names.append(entry if isinstance(entry, str) else str(entry.get("term", "")))
        inner = None if isinstance(entry, str) else entry.get("of")
        if isinstance(inner, str | Mapping):
            names += names_in_spec([inner])
    return names


# The plain model, with which an identification starts if no terms are given.
DEFAULT_TERMS = RigidBody() + RotorInertia() + Viscous() + Coulomb(width=WIDTH) + Offset()
