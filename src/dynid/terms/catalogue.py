"""Names of the terms in recipes and run folders; a new term is registered here with one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any

from dynid.base.errors import InputError
from dynid.base.named_options import named_kind, option_value
from dynid.robot.model import RobotModel
from dynid.terms.channel import ChannelTorque
from dynid.terms.choice import LogFacts, Role
from dynid.terms.compensation import RotorCompensation
from dynid.terms.compliance import Compliance
from dynid.terms.coupling import JointCoupling
from dynid.terms.drift import Drift
from dynid.terms.elastic import JointDamping, LinkCoulomb, LinkOffset, LinkViscous, SpinningRotor, Stiffness
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
from dynid.terms.spring import Spring, TorsionSpring
from dynid.terms.spring_gas import FunctionTorque, GasSpring
from dynid.terms.spring_lever import Lever, lever_from_options, lever_to_options
from dynid.terms.term import CATALOGUE, Proposal, Symbol, Term, Terms
from dynid.terms.torque_delay import TorqueDelay
from dynid.terms.transmission import MotorInertia, OnMotor
from dynid.terms.zero_offset import ZeroOffset

__all__ = ["CATALOGUE", "proposals", "question_words", "symbol_of", "terms_from_spec", "terms_to_spec"]

CATALOGUE.update(
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
        "known_payload": KnownPayload,
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
    name, kind, options = named_kind(entry, "term", CATALOGUE, _options)
    missing = [key for key, required in _options(kind).items() if required and key not in options]
    if missing:
        raise InputError(
            "missing-option", found=f"term '{name}' without {', '.join(missing)}", expected="all of them"
        )
    return kind(**{key: _value(kind, name, key, value) for key, value in options.items()})


def _value(kind: type[Term], name: str, key: str, value: Any) -> Any:
    if kind is OnMotor and key == "of":
        return _term(value)
    if key == "geometry":
        return lever_from_options(value)
    return option_value(kind, name, key, value)


def _options(kind: type[Term]) -> dict[str, bool]:
    return {f.name: f.default is MISSING for f in fields(kind) if f.name != "name"}


def _spec(term: Term) -> dict[str, Any]:
    # What is None cannot be written to TOML and is the default.
    options = {key: _plain(getattr(term, key)) for key in _options(type(term))}
    return {"term": term.name} | {key: value for key, value in options.items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, Term):
        return _spec(value)
    if isinstance(value, Lever):
        return lever_to_options(value)
    return list(value) if isinstance(value, tuple) else value
