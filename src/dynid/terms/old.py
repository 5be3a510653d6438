"""Terms of plug-ins that were written for dynid 0.1, where everything that programs ask was a member of `Term`.

They work as before. A DeprecationWarning at their class says what to write instead.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from inspect import get_annotations
from typing import Any

from dynid.terms.exports import Dry, Kind, Reads, Traits
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
INSTEAD: Mapping[str, str] = (
    {name: instead for name, (instead, *_) in _TRAITS.items()}
    | {name: f"words = TermWords({field}=...)" for name, field in _WORDS.items()}
    | {name: f"selection = Selection({field}=...)" for name, field in _SELECTION.items()}
    | dict.fromkeys(("proposed", "label", "option", "tried_on"), "selection = Selection(proposed=...)")
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


def _proposed(kind: Any, *facts: Any) -> Any:
    # As `proposed` of a class says; without it a term with a label is tried joint by joint.
    if any("proposed" in vars(one) for one in kind.__mro__):
        return kind.proposed(*facts)
    label = getattr(kind, "label", "")
    if not label or not issubclass(kind, JointTerm) or kind.selection.role is None:
        return ()
    return by_joint(label, getattr(kind, "option", ""), getattr(kind, "tried_on", None))(kind, *facts)


def _is_option(kind: type[Term], name: str) -> bool:
    # A field of a new term may have the name of an old member.
    annotation = str(get_annotations(kind).get(name, "ClassVar"))
    return "ClassVar" not in annotation
