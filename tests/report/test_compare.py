"""The comparison of runs: only shared parameters are compared, and noise alone is no difference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from dynid.report import comparison_html, write_comparison_page
from dynid.report.compare import differences
from dynid.run import Identification


def test_a_run_agrees_with_itself(identification: Identification) -> None:
    found = differences([("a", identification), ("b", identification)])
    assert len(found) == identification.estimate.base.rank
    assert not any(difference.disagrees for difference in found)


def test_a_parameter_moved_beyond_its_interval_is_found(identification: Identification) -> None:
    estimate = identification.estimate
    value = estimate.value.copy()
    value[3] += 3.0 * estimate.half_width()[3]
    moved = replace(identification, estimate=replace(estimate, value=value))
    apart = [d for d in differences([("a", identification), ("b", moved)]) if d.disagrees]
    assert [d.formula for d in apart] == [estimate.names[3]]
    assert np.isclose(apart[0].excess, 3.0 / np.sqrt(2.0))


def test_the_page_shows_every_run_and_escapes_its_name(
    identification: Identification, bare: Identification, tmp_path: Path
) -> None:
    path = tmp_path / "compare.html"
    write_comparison_page(path, [("<b>first</b>", identification), ("second", bare)])
    text = path.read_text(encoding="utf-8")
    assert "&lt;b&gt;first&lt;/b&gt;" in text
    assert "<b>first</b>" not in text
    assert "second" in text
    assert text == comparison_html([("<b>first</b>", identification), ("second", bare)])
