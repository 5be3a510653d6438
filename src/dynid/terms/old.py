"""Terms of plug-ins written for dynid 0.1, where all data and functions of a term were members of `Term`.

They work unchanged. A DeprecationWarning at their class names the replacement of each member.
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

# Old data members: field of the traits, and the value there that means True; None = the same value.
_TRAITS: Mapping[str, tuple[str, Any]] = {
    "is_friction": ("kind", Kind.FRICTION),
    "knows_friction": ("kind", Kind.COMPENSATION),
    "of_log": ("kind", Kind.LOG),
    "of_bodies": ("kind", Kind.BODIES),
    "of_rotors": ("kind", Kind.ROTORS),
    "remembers": ("reads", Reads.PAST),
    "reads_rate": ("reads", Reads.RATE),
    "steps": ("dry", Dry.STEP),
    "loaded": ("dry", Dry.LOAD),
    "exports_as": ("basis", None),
} | {name: (name, None) for name in ("side", "scale", "linearised", "passive", "either_side", "hides_wiring")}
# Old members that are now fields of the words or of the selection.
_WORDS = {
    name: name
    for name in (
        *("symbols", "group", "explanations"),
        *("features", "lacking", "against_description", "notices"),
    )
}
_SELECTION = {name: name for name in ("role", "question", "covers", "described")}
# Old methods, and the functions with another name that a term's file now registers.
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
    {
        name: f"traits = Traits({field}={'...' if value is None else f'{type(value).__name__}.{value.name}'})"
        for name, (field, value) in _TRAITS.items()
    }
    | {name: f"words = TermWords({field}=...)" for name, field in _WORDS.items()}
    | {name: f"selection = Selection({field}=...)" for name, field in _SELECTION.items()}
    | dict.fromkeys(("proposed", "label", "option", "tried_on"), "selection = Selection(proposed=...)")
    | {name: f"@{_RENAMED.get(name, name)}.register of {form.__module__}" for name, form in _FORMS.items()}
    | {"zeros": "@exported_parts.register of dynid.terms.forms, a ZeroShift"}
)


def adapt(kind: type[Term]) -> None:
    """Set traits, words and selection of a class from its old members, and warn about them."""
    old = [name for name in vars(kind) if name in INSTEAD and not _is_option(kind, name)]
    if not old:
        return
    instead = "; ".join(f"{name}: {INSTEAD[name]}" for name in old)
    warnings.warn(
        f"{kind.__module__}.{kind.__qualname__} has members that dynid 0.3 will not support ({instead}): see "
        "docs/extending.md, How to add a term",
        DeprecationWarning,
        stacklevel=4,
    )
    for name in old:
        if name in _TRAITS:
            field, value = _TRAITS[name]
            trait = _new_trait(kind.traits, field, value, vars(kind)[name])
            kind.traits = replace(kind.traits, **{field: trait})
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


def _new_trait(traits: Traits, field: str, value: Any, given: Any) -> Any:
    # Value of a trait after an old member of the class, `given`, is applied.
    current = getattr(traits, field)
    if value is None:
        return given
    if field == "reads":
        return current | value if given else current & ~value
    return value if given else getattr(Traits(), field) if current is value else current


def _with_zeros(exported: Callable[..., Any], term: Any, *values: Any) -> Any:
    return (*(exported(term, *values) or ()), ZeroShift(term.zeros(*values)))


class _Inherited:
    """An old member of `Term`, for plug-ins that read it from themselves or from super(): that of the built-in base."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, term: Any, owner: type[Term]) -> Any:
        warnings.warn(f"{self.name} of a term: see {INSTEAD[self.name]}", DeprecationWarning, stacklevel=2)
        base: Any = next(kind for kind in owner.__mro__ if kind.__module__.startswith("dynid."))
        name = self.name
        if name in _TRAITS:
            field, sign = _TRAITS[name]
            value = (owner if term is None else term).traits.__dict__[field]
            return value if sign is None else sign in value if field == "reads" else value is sign
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
    # Proposals by the old member `proposed`; without it, a term with a label is proposed per joint.
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
