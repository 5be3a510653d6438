"""The table of rules that can be switched off: what it names is there, and all of it is put back."""

from __future__ import annotations

import pytest

from benchmarks.ablation import SOURCE, code_lines, replaced, resolve
from benchmarks.rule_families import FAMILIES, Family
from dynid.choose import choose_model
from dynid.identification import fitting
from dynid.terms import Stribeck, Term


def test_families_have_names_of_their_own_and_are_few() -> None:
    names = [family.name for family in FAMILIES]
    assert len(set(names)) == len(names) <= 40


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_what_a_family_replaces_is_there(family: Family) -> None:
    assert family.patches
    for target in family.patches:
        owner, name = resolve(target)
        if name == "selection":  # a term that proposes nothing is no rule of the choice
            assert owner.selection.proposed is not Term.selection.proposed


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_what_goes_with_a_family_is_there(family: Family) -> None:
    for place in family.files:
        assert (SOURCE / place.partition(":")[0]).is_file()
        assert code_lines(place) > 0


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_all_that_a_family_replaces_is_put_back(family: Family) -> None:
    places = [resolve(target) for target in family.patches]
    before = [(vars(owner).get(name), getattr(owner, name)) for owner, name in places]
    with replaced(family.patches):
        assert any(
            getattr(owner, name) is not old for (owner, name), (_, old) in zip(places, before, strict=True)
        )
    for (owner, name), (own, _) in zip(places, before, strict=True):
        assert vars(owner).get(name) is own


def test_a_function_is_replaced_where_it_was_imported() -> None:
    with replaced({"dynid.choose.choose_model:relinearised": None}):
        assert fitting.relinearised is None
        assert choose_model.relinearised is None
    assert fitting.relinearised is choose_model.relinearised is not None


def test_an_inherited_method_is_replaced_in_its_class_alone() -> None:
    with replaced({"dynid.terms.friction_shapes:Stribeck.columns": lambda term, robot: ()}):
        assert "columns" in vars(Stribeck)
    assert "columns" not in vars(Stribeck)
