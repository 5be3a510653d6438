"""What the report says beside its figures: how well values are known, whose they are, how friction was chosen."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from dynid.base import Finding
from dynid.choose import MeasurementEffect, Model, Selection
from dynid.estimate import Known, Word, base_verdicts, full_verdicts, how_well
from dynid.factor import Category
from dynid.report import Page, interval, symbol
from dynid.report.sections.parameters import _grids
from dynid.report.sections.selection import _about
from dynid.report.text import of_whole_robot, owner
from dynid.run import Identification, joint_values
from dynid.run.verdict import _identifiability
from dynid.terms import Column, Of
from dynid.verbs.summary import parameter_lines
from tests.report.sections import section


@pytest.mark.parametrize(
    ("value", "half", "word"),
    [
        (1.0, 0.0, Known.WELL),
        (-5.0, 1.0, Known.WELL),
        (-5.0, 1.01, Known.ROUGHLY),
        (0.3, 0.29, Known.ROUGHLY),
        (0.01, 0.025, Known.ZERO),
        (0.2, 0.2, Known.ZERO),
        (0.0, 0.0, Known.ZERO),
        (1.0, float("nan"), Known.ZERO),
    ],
)
def test_how_well_follows_from_the_interval(value: float, half: float, word: Known) -> None:
    assert how_well(value, half) is word
    assert how_well(-value, half) is word


def test_only_what_the_data_determine_alone_is_known(identification: Identification) -> None:
    estimate = identification.estimate
    found = full_verdicts(estimate, identification.factors)
    place = list(estimate.base.independent)
    for j, (verdict, category) in enumerate(zip(found, estimate.base.categories(), strict=True)):
        if category is not Category.IDENTIFIABLE:
            assert verdict.known is None
            continue
        i = place.index(j)
        assert verdict.known is how_well(estimate.value[i], estimate.half_width()[i])


def test_the_terminal_counts_what_the_tables_hold(identification: Identification) -> None:
    base, full = parameter_lines(identification)
    words = [verdict.word for verdict in base_verdicts(identification.estimate, identification.factors)]
    reported = dict(re.findall(r"(\d+) ([a-z ]+?)(?:,|$)", base.split(": ")[1]))
    assert sum(int(count) for count in reported) == len(words) == int(base.split()[0])
    assert f"{words.count(Word.IDENTIFIED)} identified" in base
    alone = [v.known for v in full_verdicts(identification.estimate, identification.factors) if v.known]
    assert f"{len(alone)} identifiable from the data alone (" in full
    for known in Known:
        assert (f"{alone.count(known)} {known}" in full) == (known in alone)


def test_the_report_counts_and_fades_what_may_be_zero(identification: Identification) -> None:
    text = section("parameters").render(identification, Page())
    found = [v.known for v in full_verdicts(identification.estimate, identification.factors)]
    for known in Known:
        assert f"{found.count(known)} {known}" in text
    assert len(re.findall(r'class="num cell alone maybe"', text)) == found.count(Known.ZERO)
    wide = replace(identification.estimate, covariance=1e9 * identification.estimate.covariance)
    faded = section("parameters").render(replace(identification, estimate=wide), Page())
    assert len(re.findall(r'class="num cell alone maybe"', faded)) == sum(one is not None for one in found)


def test_what_belongs_to_the_whole_robot_is_nobodys(identification: Identification) -> None:
    robot = identification.robot
    one = Column("delay", "s", "torque_delay", 0, prior=0.0, of=Of.ROBOT)
    own = Column("delay1", "s", "torque_delay", 0, prior=0.0)
    tilt = Column("tilty", "rad", "gravity_tilt", 0, prior=0.0, of=Of.ROBOT)
    friction = Column("fv1", "N m s/rad", "viscous", 0, prior=0.0)
    assert [of_whole_robot(column) for column in (one, tilt, own, friction)] == [True, True, False, False]
    assert owner(one, robot) == owner(tilt, robot) == "the whole robot"
    assert owner(own, robot) == f"joint 1 '{robot.joint_names[0]}'"
    assert "tilt of the base about y" in symbol(tilt, robot)
    # Renamed in place: the last column of the fixture is an offset of a joint.
    columns = (*identification.estimate.columns[:-1], one)
    text = section("parameters").render(
        replace(identification, estimate=replace(identification.estimate, columns=columns)), Page()
    )
    grids = re.split(r"<h4>", text)
    assert "Robot and log</h4>" in grids[-1]
    assert robot.name in grids[-1]
    assert "delay of the torque" in grids[-1]
    assert "delay of the torque" not in "".join(grids[1:-1])


def chosen(friction: str) -> Selection:
    model = Model((friction, "kept"), 20, 0.01, 0.0, 0.0, True)
    tilts = tuple(MeasurementEffect(f"tilt{axis}", "tilt", "", "rad", 1e-3, 2e-3, False) for axis in "xy")
    return Selection(("friction", "offsets"), (model,), 4, 5, (), (), tilts)


def test_a_friction_that_was_chosen_with_the_model_is_named(identification: Identification) -> None:
    given = section("friction").render(replace(identification, selection=None, choices=()), Page())
    assert "No forms of friction were compared" in given
    automatic = replace(identification, selection=chosen("viscous + coulomb"), choices=())
    text = section("friction").render(automatic, Page())
    assert "No forms of friction were compared" not in text
    assert "<b>viscous + coulomb</b>" in text
    assert 'href="#selection"' in text


def test_two_tilts_have_two_meanings(identification: Identification) -> None:
    text = section("selection").render(replace(identification, selection=chosen("viscous")), Page())
    assert "tilt of the base about x" in text
    assert "tilt of the base about y" in text


def test_a_column_of_an_unknown_interval_is_reported_as_such(identification: Identification) -> None:
    estimate = identification.estimate
    unknown = replace(estimate, covariance=np.full_like(estimate.covariance, np.nan))
    found = full_verdicts(unknown, identification.factors)
    assert {v.known for v in found} <= {None, Known.ZERO}


def test_a_single_model_has_an_axis_about_it() -> None:
    assert _about(np.array([0.672])) == pytest.approx((0.98 * 0.672, 1.02 * 0.672))
    assert _about(np.array([1.0, np.nan, 2.0])) == pytest.approx((0.92, 2.08))
    assert _about(np.zeros(2)) is None


@pytest.mark.parametrize("strength", [1.0, 30.0])
def test_findings_count_what_the_prior_decides_as_the_tables_do(
    identification: Identification, strength: float
) -> None:
    share = np.zeros(identification.estimate.base.rank)
    share[:3] = (0.9, 0.6, 0.99)
    estimate = replace(identification.estimate, prior_share=share, prior_strength=strength)
    words = [verdict.word for verdict in base_verdicts(estimate, identification.factors)]
    assert words.count(Word.PRIOR) == 3
    findings: list[Finding] = []
    scores = identification.training.scores
    _identifiability(estimate, identification.structural, scores, False, findings)
    assert [finding.text for finding in findings if finding.code == "from-description"] == [
        "But 3 of them are set mainly by the prior (robot file)."
    ]


def test_a_parameter_of_a_joint_has_one_interval(identification: Identification) -> None:
    grid = next(grid for grid in _grids(identification) if grid.title == "Joints")
    cells = [cell for _, _, row in grid.lines for cell in row if cell is not None]
    halves = {cell["title"].split(" [")[0]: cell["half"] for cell in cells}
    values = joint_values(identification)
    assert halves.keys() == {value.column.name for value in values}
    for value in values:
        known = np.isfinite(value.half)
        assert halves[value.column.name] == (interval(value.value, value.half)[1] if known else "")
    assert any(value.known == "only in combination" and np.isfinite(value.half) for value in values)
