"""Terms of plug-ins that were written for dynid 0.1, where everything that programs ask was a member of `Term`.

They work as before. A DeprecationWarning at their class says what to write instead.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from inspect import get_annotations
from typing import Any

from dynid.terms import curve, forms
from dynid.terms.exports import Dry, Kind, Reads, Traits, ZeroShift
from dynid.terms.term import JointTerm, Term, by_joint

__all__ = ["INSTEAD", "adapt"]


def _kind(kind: Kind) -> tuple[str, Callable[[Traits], Any], Callable[[Any], Mapping[str, Any]]]:
    return (
        f"traits = Traits(kind=Kind.{kind.name})",
        lambda traits: traits.kind is kind,
        lambda value: {"kind": kind} if value else {},
    )


def _dry(dry: Dry) -> tuple[str, Callable[[Traits], Any], Callable[[Any], Mapping[str, Any]]]:
    return (
        f"traits = Traits(dry=Dry.{dry.name})",
        lambda traits: traits.dry is dry,
        lambda value: {"dry": dry} if value else {},
    )


def _reads(reads: Reads) -> tuple[str, Callable[[Traits], Any], Callable[[Any], Mapping[str, Any]]]:
    return (
        f"traits = Traits(reads=Reads.{reads.name})",
        lambda traits: reads in traits.reads,
        lambda value: {"reads": reads} if value else {},
    )


def _field(name: str) -> tuple[str, Callable[[Traits], Any], Callable[[Any], Mapping[str, Any]]]:
    return (
        f"traits = Traits({name}=...)",
        lambda traits: getattr(traits, name),
        lambda value: {name: value},
    )


# Old data of a class: what to write instead, how it is read from the traits, and the traits that it makes.
_TRAITS = {
    "is_friction": _kind(Kind.FRICTION),
    "knows_friction": _kind(Kind.COMPENSATION),
    "of_log": _kind(Kind.LOG),
    "of_bodies": _kind(Kind.BODIES),
    "of_rotors": _kind(Kind.ROTORS),
    "remembers": _reads(Reads.PAST),
    "reads_rate": _reads(Reads.RATE),
    "steps": _dry(Dry.STEP),
    "loaded": _dry(Dry.LOAD),
    "exports_as": ("traits = Traits(basis=...)", lambda traits: traits.basis, lambda value: {"basis": value}),
} | {name: _field(name) for name in ("side", "scale", "linearised", "passive", "either_side", "hides_wiring")}
# Old members of a class, and the fields of its words and of its selection that they are now.
_WORDS = {
    "symbols": "symbols",
    "group": "group",
    "features": "features",
    "lacking": "lacking",
    "against_description": "against_description",
    "notices": "notices",
    "as_cause": "cause",
    "as_cause_of_kind": "cause_of_kind",
    "explanations": "explanations",
}
_SELECTION = {"role": "role", "question": "question", "covers": "covers", "described": "described"}
# Old methods, and the functions that a term's file registers for its class now.
_RENAMED = {
    "alive": "alive_columns",
    "balances": "balanced_joints",
    "channels": "channels_of",
    "clock": "clock_of",
    "exported": "exported_parts",
    "is_open": "has_open_choice",
    "rival": "rival_of",
    "torque": "torque_of",
    "tried": "tried_shapes",
    "within": "within_extent",
}
_REGISTERED = {name: form for name, form in (vars(curve) | vars(forms)).items() if hasattr(form, "dispatch")}
_FORMS: Mapping[str, Any] = {name: _REGISTERED[form] for name, form in _RENAMED.items()} | {
    name: form for name, form in _REGISTERED.items() if name not in _RENAMED.values()
}
INSTEAD: Mapping[str, str] = (
    {name: instead for name, (instead, *_) in _TRAITS.items()}
    | {name: f"words = TermWords({field}=...)" for name, field in _WORDS.items()}
    | {name: f"selection = Selection({field}=...)" for name, field in _SELECTION.items()}
    | dict.fromkeys(("proposed", "label", "option", "tried_on"), "selection = Selection(proposed=...)")
    | {name: f"@{_RENAMED.get(name, name)}.register of {form.__module__}" for name, form in _FORMS.items()}
    | {"zeros": "@exported_parts.register of dynid.terms.forms, a ZeroShift"}
)


def adapt(kind: type[Term]) -> None:
    """Makes traits, words and selection of a class of its old members, and warns of these; nothing without any."""
    old = [name for name in vars(kind) if name in INSTEAD and not _is_option(kind, name)]
    if not old:
        return
    instead = "; ".join(f"{name}: {INSTEAD[name]}" for name in old)
    warnings.warn(
        f"{kind.__module__}.{kind.__qualname__} has members that dynid 0.3 will not know ({instead}): see "
        "docs/design.md, how to add a term",
        DeprecationWarning,
        stacklevel=4,
    )
    traits: dict[str, Any] = {}
    for name in old:
        if name in _TRAITS:
            made = _TRAITS[name][2](vars(kind)[name])
            traits |= {
                key: traits[key] | made[key] if key == "reads" and key in traits else made[key]
                for key in made
            }
    kind.traits = replace(kind.traits, **traits)
    kind.words = replace(kind.words, **{_WORDS[name]: getattr(kind, name) for name in old if name in _WORDS})
    chosen = {_SELECTION[name]: getattr(kind, name) for name in old if name in _SELECTION}
    if {"proposed", "label", "option", "tried_on"} & set(old):
        chosen["proposed"] = _proposed
    kind.selection = replace(kind.selection, **chosen)
    for name in old:
        method = vars(kind)[name]
        if name in _FORMS:
            _FORMS[name].register(kind)(method.fget if isinstance(method, property) else method)
    if "zeros" in old:
        forms.exported_parts.register(kind)(partial(_with_zeros, forms.exported_parts.dispatch(kind)))


def _with_zeros(exported: Callable[..., Any], term: Any, *values: Any) -> Any:
    return (*(exported(term, *values) or ()), ZeroShift(term.zeros(*values)))


class _Inherited:
    """An old member of `Term`, for plug-ins that ask themselves or super() for it: that of their built-in base."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, term: Any, owner: type[Term]) -> Any:
        warnings.warn(f"{self.name} of a term: see {INSTEAD[self.name]}", DeprecationWarning, stacklevel=2)
        base: Any = next(kind for kind in owner.__mro__ if kind.__module__.startswith("dynid."))
        name = self.name
        if name in _TRAITS:
            return _TRAITS[name][1](owner.traits if term is None else term.traits)
        if name in _WORDS:
            value = getattr(base.words, _WORDS[name])
            return partial(value, term) if name == "notices" else value
        if name in _SELECTION:
            return getattr(base.selection, _SELECTION[name])
        if name == "proposed":
            return partial(base.selection.proposed, owner)
        value = _FORMS[name].dispatch(base)
        return value(term) if name in ("is_open", "needs_bodies") else partial(value, term)


for _name in (*_TRAITS, *_WORDS, *_SELECTION, *_FORMS, "proposed"):
    setattr(Term, _name, _Inherited(_name))


def _proposed(kind: Any, *facts: Any) -> Any:
    # As `proposed` of a class says; without it a term with a label is tried joint by joint.
    if any("proposed" in vars(base) for base in kind.__mro__ if base is not Term):
        return kind.proposed(*facts)
    label = getattr(kind, "label", "")
    if not label or not issubclass(kind, JointTerm) or kind.selection.role is None:
        return ()
    return by_joint(label, getattr(kind, "option", ""), getattr(kind, "tried_on", None))(kind, *facts)


def _is_option(kind: type[Term], name: str) -> bool:
    # A field of a new term may have the name of an old member.
    annotation = str(get_annotations(kind).get(name, "ClassVar"))
    return "ClassVar" not in annotation
