"""Study of Nini et al. 2024: its numbers against the corrected specification."""

from __future__ import annotations

import pytest

from dynid.studies.run import results_dict, run_study
from dynid.studies.study import Drawing, Study


@pytest.fixture(scope="module")
def study() -> Study:
    return run_study("nini2024")


def test_every_result_lies_within_its_bounds(study: Study) -> None:
    assert [(result.name, result.ours) for result in study.missed] == []


def test_acceptance_of_the_specification(study: Study) -> None:
    found = {name: entry["ours"] for name, entry in results_dict(study)["results"].items()}
    ranks = {key.removeprefix("rank_"): value for key, value in found.items() if key.startswith("rank_")}
    assert ranks == {
        "static": 10, "static_spring": 11, "static_over": 12, "bodies": 36, "diagonal": 52, "coupled": 51,
        "springs": 53, "both": 55, "bars": 54, "static_bars": 10,
    }  # fmt: skip
    assert max(found["power"], found["rotors"]) < 1e-12
    assert found["springs"] < 1e-7
    assert found["one_shot_joint2"] <= 2.0
    assert found["stiffness"] < 0.01
    assert found["stiffness_z"] < 3.0
    assert found["friction"] < 0.005
    assert found["feasible"] >= 0.0
    assert found["feasible_cost"] <= 1.01
    assert max(found["bars_at_rest"], found["stiffer_at_rest"]) < 1e-10
    assert found["two_step_costs"] > 5.0


def test_the_paper_s_figure_is_drawn(study: Study) -> None:
    drawn = {b.name for section in study.sections for b in section.blocks if isinstance(b, Drawing)}
    assert {"figure4", "methods"} <= drawn
