"""Study of Zollo et al. 2014: its numbers against the corrected specification."""

from __future__ import annotations

import numpy as np
import pytest

from dynid.studies.run import results_dict, run_study
from dynid.studies.study import Drawing, Study
from dynid.studies.zollo_arms import paper_map, planar


@pytest.fixture(scope="module")
def study() -> Study:
    return run_study("zollo2014")


def test_every_result_lies_within_its_bounds(study: Study) -> None:
    assert [(result.name, result.ours) for result in study.missed] == []


def test_acceptance_of_the_specification(study: Study) -> None:
    found = {name: entry["ours"] for name, entry in results_dict(study)["results"].items()}
    for coupling in ("full", "simplified"):
        assert found[f"rank_planar_{coupling}"] == 14
        ranks = [found[f"rank_puma_{case}_{coupling}"] for case in ("upright", "sideways", "weightless")]
        assert ranks == [60, 62, 58]
    assert found["signed_printed"] == pytest.approx(0.1034, abs=2e-4)
    assert found["signed_printed_dynamic"] == pytest.approx(0.0087, abs=2e-4)
    assert found["exact_states"] < 1e-10
    assert found["puma_exact"] < 1e-8
    assert found["unsigned_coulomb"] < 3e-4
    assert found["forward"] > 5e-3
    assert 0.003 < found["better_mean"] < 0.014
    assert found["better_dynamic"] == pytest.approx(1e-5, rel=0.5)
    assert found["momentum_0.0001"] < 6e-4 < 0.2 * found["pipeline_0.0001"]
    assert found["momentum_0.001"] < 6e-3 < 0.02 * found["pipeline_0.001"]
    assert found["momentum_0.003"] < 1.9e-2 < 0.02 * found["pipeline_0.003"]


def test_every_figure_of_the_paper_is_drawn(study: Study) -> None:
    drawn = {b.name for section in study.sections for b in section.blocks if isinstance(b, Drawing)}
    assert {"figure3", "figure4", "figure5", "figure6"} <= drawn


def test_real_values_follow_from_the_arm() -> None:
    combinations, real = paper_map()
    np.testing.assert_allclose(combinations @ planar().theta, real, atol=1e-3)
