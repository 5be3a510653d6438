"""Names of the terms in experiments and run folders; a new term is registered here with one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from dynid.base.named_options import kind_from_spec, kind_to_spec, option_value
from dynid.base.registry import Need
from dynid.robot.model import RobotModel
from dynid.terms.channel import ChannelTorque
from dynid.terms.choice import LogFacts, Role
from dynid.terms.compensation import RotorCompensation
from dynid.terms.compliance import Compliance
from dynid.terms.coupling import JointCoupling
from dynid.terms.drift import Drift
from dynid.terms.elastic import JointDamping, LinkCoulomb, LinkOffset, LinkViscous, Stiffness
from dynid.terms.friction import Coulomb, Offset, Viscous
from dynid.terms.friction_choice import FrictionChoice
from dynid.terms.friction_curves import (
    AsymmetricCoulomb,
    LoadFriction,
    PolynomialFriction,
    PositionFriction,
    TemperatureViscous,
)
from dynid.terms.friction_shapes import Presliding, Sigmoid, SmoothCoulomb, Stribeck, ZolloFriction
from dynid.terms.gain import DriveGain
from dynid.terms.gain_error import GainError
from dynid.terms.gravity_tilt import GravityTilt
from dynid.terms.payload import KnownPayload
from dynid.terms.position_waves import PositionWaves
from dynid.terms.rigid_body import RigidBody
from dynid.terms.rotor import RotorInertia
from dynid.terms.saturating_viscous import SaturatingViscous
from dynid.terms.spinning_rotor import SpinningRotor
from dynid.terms.spring import Spring, TorsionSpring
from dynid.terms.spring_gas import FunctionTorque, GasSpring
from dynid.terms.spring_lever import Lever, lever_from_options, lever_to_options
from dynid.terms.term import CATALOGUE, Proposal, Symbol, Term, Terms
from dynid.terms.torque_delay import TorqueDelay
from dynid.terms.transmission import MotorInertia, OnMotor
from dynid.terms.zero_offset import ZeroOffset

__all__ = [
    "CATALOGUE",
    "names_in_spec",
    "needs_of_terms",
    "proposals",
    "question_words",
    "symbol_of",
    "terms_from_spec",
    "terms_to_spec",
]

CATALOGUE.build_in(
    {
        "rigid_body": RigidBody,
        "rotor_inertia": RotorInertia,
        "viscous": Viscous,
        "coulomb": Coulomb,
        "offset": Offset,
        "coulomb_sides": AsymmetricCoulomb,
        "polynomial": PolynomialFriction,
        "coulomb_tanh": SmoothCoulomb,
        "saturating_viscous": SaturatingViscous,
        "presliding": Presliding,
        "stribeck": Stribeck,
        "sigmoid": Sigmoid,
        "zollo": ZolloFriction,
        "position_friction": PositionFriction,
        "load_friction": LoadFriction,
        "temperature_viscous": TemperatureViscous,
        "friction": FrictionChoice,
        "drive_gain": DriveGain,
        "channel": ChannelTorque,
        "motor_inertia": MotorInertia,
        "on_motor": OnMotor,
        "spring": Spring,
        "torsion_spring": TorsionSpring,
        "gas_spring": GasSpring,
        "function": FunctionTorque,
        "stiffness": Stiffness,
        "joint_damping": JointDamping,
        "spinning_rotor": SpinningRotor,
        "link_viscous": LinkViscous,
        "link_coulomb": LinkCoulomb,
        "link_offset": LinkOffset,
        "rotor_compensation": RotorCompensation,
        "joint_coupling": JointCoupling,
        "compliance": Compliance,
        "gravity_tilt": GravityTilt,
        "known_payload": KnownPayload,
        "torque_delay": TorqueDelay,
        "gain_error": GainError,
        "drift": Drift,
        "zero_offset": ZeroOffset,
        "position_waves": PositionWaves,
    }
)


def proposals(robot: RobotModel, log: LogFacts, *roles: Role) -> tuple[Proposal, ...]:
    """The effects that the automatic choice tries on a log, those of some roles alone where roles are given."""
    return tuple(
        one
        for kind in CATALOGUE.values()
        if not roles or kind.role in roles
        for one in kind.proposed(robot, log)
    )


def question_words(name: str) -> str:
    """A question of the automatic choice in words."""
    return next(
        (
            kind.question.words
            for kind in CATALOGUE.values()
            if kind.question.name == name and kind.question.words
        ),
        name,
    )


def symbol_of(name: str) -> Symbol | None:
    """How a parameter is written whose name, without its number, is given; None if no term says so."""
    return next((one for term in CATALOGUE.values() for one in term.symbols if one.name == name), None)


def terms_to_spec(terms: Terms) -> list[dict[str, Any]]:
    """Writes terms as plain data: {"term": name, option: value, ...} for each."""
    return [_spec(term) for term in terms]


def terms_from_spec(spec: Sequence[str | Mapping[str, Any]]) -> Terms:
    """Reads terms from names or tables of options.

    Raises InputError for an unknown term, an unknown option or a missing one.
    """
    return Terms(tuple(_term(entry) for entry in spec))


def _term(entry: str | Mapping[str, Any]) -> Term:
    return cast(Term, kind_from_spec(entry, "term", CATALOGUE, _value))


def _value(kind: type[Term], name: str, key: str, value: Any) -> Any:
    if kind is OnMotor and key == "of":
        return _term(value)
    if key == "geometry":
        return lever_from_options(value)
    return option_value(kind, name, key, value)


def _spec(term: Term) -> dict[str, Any]:
    return kind_to_spec(term, "term", term.name, _plain)


def _plain(value: Any) -> Any:
    if isinstance(value, Term):
        return _spec(value)
    return lever_to_options(value) if isinstance(value, Lever) else value


def needs_of_terms(terms: Terms) -> list[Need]:
    """Terms that are not dynid's own, each with where it came from."""
    every = [one for term in terms for one in (term, getattr(term, "of", None)) if isinstance(one, Term)]
    return [need for one in every if (need := Need.of("term", one.name, type(one))) is not None]


def names_in_spec(spec: Sequence[str | Mapping[str, Any]]) -> list[str]:
    """Names of all terms of a model as plain data, those at the motors included."""
    found = []
    for entry in spec:
        found.append(entry if isinstance(entry, str) else str(entry.get("term", "")))
        inner = None if isinstance(entry, str) else entry.get("of")
        if isinstance(inner, str | Mapping):
            found += names_in_spec([inner])
    return found
