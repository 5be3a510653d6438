"""Study of Madsen et al. 2020: its numbers against the corrected specification."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynid.studies.madsen2020 import PAPER
from dynid.studies.madsen_real import tell_real
from dynid.studies.run import results_dict, run_study
from dynid.studies.study import Drawing, Study, StudyPage, Table, Text


@pytest.fixture(scope="module")
def study() -> Study:
    return run_study("madsen2020")


def test_every_result_lies_within_its_bounds(study: Study) -> None:
    assert [(result.name, result.ours) for result in study.missed] == []


def test_acceptance_of_the_specification(study: Study) -> None:
    found = {name: entry["ours"] for name, entry in results_dict(study)["results"].items()}
    for name, counts in {"upright": (49, 36), "tilted": (52, 38), "weightless": (47, 34)}.items():
        assert (found[f"appearing_{name}"], found[f"rank_{name}"]) == counts
    assert found["regrouping"] < 1e-10
    assert min(found[f"slip_{slip}"] for slip in ("alpha", "a", "order")) > 1.0
    assert found["link_error"] < 0.015
    assert found["weights"] <= 1.0
    assert found["weights_printed"] <= 1.0
    assert found["load"] > 2.0
    assert found["own_nmse"] <= 0.1
    assert found["momentum_loose"] < 0.03 < 0.1 * found["wls_loose"]
    assert found["condition"] <= 66.0


def test_each_set_of_weights_has_an_error_of_its_own(study: Study) -> None:
    blocks = (block for section in study.sections for block in section.blocks)
    (table,) = (b for b in blocks if isinstance(b, Table) and b.caption == "Errors of the calibration")
    own = {str(row[0]): float(row[1] or 0.0) for row in table.rows}
    plain, printed, best = (
        own[f"rotor compensation, {kind}"] for kind in ("unweighted", "1/sigma, as printed", "1/sigma^2")
    )
    assert len({plain, printed, best}) == 3
    # Weights 1/sigma^2 are those of WLS at its fixed point: the training score of that fit, 0.0522389 of the rigid one.
    assert best / own["rigid joints, no compensation"] == pytest.approx(0.0522389, rel=1e-3)
    assert best < plain < own["compensation from the link encoder"]


def test_figures_of_the_paper_are_drawn(study: Study) -> None:
    drawn = {b.name for section in study.sections for b in section.blocks if isinstance(b, Drawing)}
    assert {"figure6", "figure7"} <= drawn


def test_stiffness_of_a_real_robot(data_dir: Path) -> None:
    page = StudyPage(PAPER, full=False)
    tell_real(page, data_dir / "kr300_rptu" / "data.parquet")
    found = page.finish()
    assert len(found.results) == 9
    assert [(result.name, result.ours) for result in found.missed] == []


def test_without_the_real_log_the_page_says_so(study: Study) -> None:
    last = study.sections[-1]
    assert isinstance(last.blocks[0], Text)
    assert "not at hand" in last.blocks[0].text
