"""Pages of docs/findings: their form, their length, their numbers, and how plug-ins add to them."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import wrap

import numpy as np
import pytest

from dynid.base import PAGES, Explanation, Page, explanations_in, has_more, page
from dynid.base.diagnostics import plain
from dynid.diagnosis import changes, masking, proof, resonance, wiring_checks
from dynid.diagnosis import changes as base_motion
from dynid.diagnosis import input_checks as guidance
from dynid.diagnosis import input_checks as link_lengths
from dynid.diagnosis import input_checks as measurement
from dynid.diagnosis import input_checks as negative_friction
from dynid.diagnosis import masking as bursts
from dynid.diagnosis import masking as saturation
from dynid.estimate import scores
from dynid.log import checks, recording_faults
from dynid.log import clocks as time_order
from dynid.log import joints as joint_limits
from dynid.log import prior_check as mounting
from dynid.log import recording_faults as one_sided
from dynid.log import recording_faults as peaks
from dynid.robot import links as link_checks
from dynid.run import explain, explanation, links, sections, verdict
from dynid.signals import effort_at_rest, repetition
from dynid.signals import samples as standing
from dynid.terms import (
    ALARM,
    CATALOGUE,
    FeatureGroup,
    TermWords,
    drift,
    gain,
    gravity_tilt,
    payload,
    torque_delay,
    zero_offset,
)
from dynid.terms import gain as gain_error
from dynid.terms import gain as torque_scale
from dynid.verbs import wrench_fit, wrench_payload

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "findings"
ENTRY = """# A page

## `cable-twist`

A cable that twists. *Warning or note.* Also `hose-twist`.

**What it means.** The cable
winds up.

**What to do.** Look at [the cable](../index.md).
"""
# Words that have a plainer one.
RETIRED = re.compile(
    r"\b(mend(s|ed|ing)?|miss(es)?|leans?|sought|askew|beside|unseen|descriptions?|described|told|tells|worth|anew)\b",
    re.IGNORECASE,
)
LINES_A_SCREEN, SCREENS, COLUMNS = 50, 15, 90


def percent(share: float) -> str:
    """A share as the pages write it."""
    return f"{100 * share:g} %"


# What the pages say of the numbers in use.
NUMBERS = [
    ("moving-base", percent(proof.PROOF_LEAST_SHARE)),
    ("moving-base", f"{base_motion.LEAST_JOINTS} joints"),
    ("bursts", f"{bursts.LEAST_HEIGHT:g} times"),
    ("changed-within-log", percent(proof.LEAST_GAIN)),
    ("changed-within-log", f"{changes.BEYOND_PLACE:g} times"),
    ("changed-within-log", percent(changes.AS_WELL)),
    ("friction-drift", percent(changes.USUAL_CHANGE)),
    ("friction-drift", f"{changes.MOST_CHANGE:g} times"),
    ("friction-drift", f"{ALARM:g}"),
    ("hand-guided", percent(proof.LEAST_GAIN)),
    ("hand-guided", percent(guidance.MOST_INERTIA)),
    ("hand-guided", f"{guidance.SURE:g} standard deviations"),
    ("link-length", percent(link_lengths.WARN)),
    ("link-length-unseen", percent(link_lengths.MATTERS)),
    ("masked", percent(masking.SURE)),
    ("modelled-effort", percent(measurement.LEAST_FRICTION)),
    ("modelled-effort", percent(measurement.LEAST_NOISE)),
    ("negative-friction", f"{negative_friction.SIGNIFICANCE:g} standard deviations"),
    ("negative-friction", percent(negative_friction.LEAST_POWER)),
    ("negative-friction", percent(wiring_checks.LARGE)),
    ("resonance", f"{resonance.LEAST_RATIO:g} times"),
    ("saturation", percent(saturation.MISSING[0])),
    *(
        (code, number)
        for code in ("joint-order", "torque-sign", "gravity-compensated")
        for number in (f"factor of {wiring_checks.DECISIVE:g}", percent(wiring_checks.FITS))
    ),
    ("undeclared-coupling", percent(wiring_checks.FITS)),
    ("undeclared-coupling", f"factor of {wiring_checks.DECISIVE:g}"),
    ("large-misfit", percent(wiring_checks.LARGE)),
    ("outside-limits", percent(joint_limits.OUTSIDE)),
    ("outside-limits", percent(joint_limits.JOINT_LIMITS_BEYOND)),
    ("outside-limits", f"{joint_limits.ANGLE_BEYOND:g} rad"),
    ("wrong-clock", percent(checks.CLOCK_DOUBT)),
    ("wrong-clock", f"{checks.CLOCK_STOP:g}"),
    ("constant-effort", f"{recording_faults.FROZEN_SECONDS:g} s"),
    ("saturated", percent(peaks.SATURATED_SHARE)),
    ("quantised-effort", percent(peaks.COARSE)),
    ("duplicate-rows", percent(checks.DUPLICATE_SHARE)),
    ("rows-misplaced", f"{time_order.FEW_ROWS} rows"),
    ("rows-misplaced", percent(time_order.DAMAGED_SHARE)),
    ("damaged-stamps", percent(time_order.DAMAGED_SHARE)),
    ("missing-values", percent(checks.MISSING_SHARE)),
    ("too-few-rows", f"{checks.MIN_ROWS} rows"),
    ("one-sided-effort", f"{one_sided.FOLLOWS:g}"),
    ("one-sided-effort", f"{one_sided.RATHER:g} times"),
    ("one-sided-effort", percent(one_sided.EACH_WAY)),
    ("inertia-not-psd", percent(link_checks.SLIGHT)),
    ("inertial-placeholder", f"{link_checks.FILLED_IN} links"),
    ("inertial-placeholder", percent(link_checks.FILLED_IN_SHARE)),
    ("useless-joint", f"{scores.WORSE_BY_CHANCE:g}"),
    ("poor-joint", f"{verdict.USABLE_R2:g}"),
    ("small-error", percent(verdict.LITTLE)),
    ("large-error", percent(verdict.USABLE_ERROR)),
    ("large-error", percent(verdict.POOR_ERROR)),
    ("weak-joint", f"{verdict.USABLE_R2:g} and {verdict.GOOD_R2:g}"),
    ("extrapolation", percent(scores.RANGE_MARGIN)),
    ("overfit", f"{verdict.OVERFIT_RATIO:g} times"),
    ("ill-conditioned", f"{verdict.CONDITION_HIGH:g}"),
    ("ill-conditioned", f"{verdict.CONDITION_BAD:g}"),
    ("from-description", percent(verdict.PRIOR_MANY)),
    ("little-data", f"{verdict.VALUES_FEW:g}"),
    ("mass-not-said", f"{links.IMPLAUSIBLE:g} times"),
    ("negative-stiffness", f"{verdict.FRICTION_SIGNIFICANCE:g} standard deviations"),
    ("held-in-part", f"{effort_at_rest.MISSED:g} times"),
    ("held-in-part", f"{effort_at_rest.FRICTION:g} times"),
    *(
        (code, number)
        for code in ("held-by-friction", "free-at-rest")
        for number in (
            f"{standing.BIN * standing.BRIEF_BINS:g} s",
            f"{effort_at_rest.HELD:g} times",
            percent(effort_at_rest.HELD_PART),
        )
    ),
    ("free-at-rest", percent(effort_at_rest.FREE_PART)),
    ("same-motion", f"{repetition.RETURNED:g}"),
    ("torque-drift", percent(drift.WARN)),
    ("torque-scale", f"{gain.SCALE_DOUBT:g} times"),
    ("torque-scale", f"{100 * payload.UNSURE:.2g} %"),
    ("torque-scale", f"{1 / torque_scale.SCALE_CHANCE:.0f}"),
    ("drive-gain", percent(gain_error.WARN)),
    ("drive-gain", percent(gain_error.DOUBT)),
    ("tilted-base", f"{gravity_tilt.WARN:g} degrees"),
    ("tilted-base", f"{gravity_tilt.DOUBT:g} degree"),
    ("tilted-base", f"{mounting.TURNED:g} degrees"),
    ("payload", percent(payload.LOAD_EXPLAINED)),
    ("wrench-frame", f"{wrench_payload.CLEARLY:g} times"),
    ("wrench-turned", f"{wrench_payload.BEYOND:g} times"),
    ("wrench-turned", f"{np.degrees(wrench_fit.TURN):g} degree"),
    ("wrench-scales", percent(wrench_fit.GAIN)),
    ("wrench-cross-talk", f"{wrench_payload.SURE:g} standard errors"),
    ("torque-lag", f"{torque_delay.WARN_SAMPLES:g} sample"),
    ("torque-lag", f"{torque_delay.DOUBT_SAMPLES:g}"),
    ("zero-offset", f"{np.degrees(zero_offset.WARN):g} degrees"),
    ("zero-offset", f"{1000 * zero_offset.WARN_SLIDE:g} mm"),
]


@pytest.mark.parametrize(("code", "number"), NUMBERS)
def test_numbers_in_the_pages_are_the_ones_in_use(code: str, number: str) -> None:
    (entry,) = explain([code])
    assert re.search(rf"(?<![\d.]){re.escape(number)}(?!\d)", " ".join((entry.means, entry.sure, entry.do)))


def test_every_page_is_read_and_no_page_is_longer_than_fifteen_screens() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(PAGES)
    for path in (*sorted(FOLDER.iterdir()), FOLDER.with_suffix(".md")):
        paragraphs = plain(path.read_text(encoding="utf-8")).split("\n\n")
        lines = sum(1 + max(1, len(wrap(paragraph, COLUMNS))) for paragraph in paragraphs)
        assert lines <= SCREENS * LINES_A_SCREEN, path.name


def test_titles_are_short_and_paragraphs_are_no_lists() -> None:
    for name in PAGES:
        assert page(name).title
        for entry in page(name).explanations:
            assert len(entry.title) <= 80, entry.code
        for line in (FOLDER / f"{name}.md").read_text(encoding="utf-8").splitlines():
            assert not re.match(r"\s*([-+>|]|\d+\.) ", line), (name, line)


def test_pages_are_in_plain_words() -> None:
    for name in PAGES:
        for entry in page(name).explanations:
            text = " ".join((entry.title, entry.means, entry.sure, entry.do, entry.accept))
            assert RETIRED.findall(re.sub(r"`[^`]*`|\]\([^)]*\)", "", text)) == [], entry.code


def test_an_entry_is_read_as_it_is_written() -> None:
    (entry,) = explanations_in(ENTRY)
    assert entry == Explanation(
        "cable-twist",
        "A cable that twists",
        ("warning", "note"),
        "The cable winds up.",
        "Look at [the cable](../index.md).",
        also=("hose-twist",),
    )
    assert entry.lines("hose-twist") == [
        "hose-twist: A cable that twists (warning or note)",
        "",
        "What it means",
        "  The cable winds up.",
        "",
        "What to do",
        "  Look at the cable.",
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("## `cable-twist`", "## cable-twist"),
        ("*Warning or note.*", ""),
        ("*Warning or note.*", "*Warning or worry.*"),
        ("**What to do.**", "**What else.**"),
        ("**What to do.**", "**What it means.**"),
        ("**What to do.** Look at [the cable](../index.md).\n", ""),
        ("**What to do.**", "And then.\n\n**What to do.**"),
    ],
)
def test_an_entry_of_another_form_is_refused_by_its_heading(old: str, new: str) -> None:
    with pytest.raises(ValueError, match="cable-twist"):
        explanations_in(ENTRY.replace(old, new))


def test_an_installed_package_reads_its_own_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "findings").mkdir()
    (tmp_path / "findings" / "verdict.md").write_text(ENTRY, encoding="utf-8")
    monkeypatch.setattr("dynid.base.diagnostics.files", lambda package: tmp_path)
    assert page.__wrapped__("verdict") == Page("A page", explanations_in(ENTRY))


def test_only_errors_with_more_to_say_refer_to_their_explanation() -> None:
    assert has_more("no-effort")
    assert not has_more("unknown-code")
    assert not has_more("catalogue")


def test_terms_and_groups_of_plug_ins_bring_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """By objects in Python, as before, and by a Markdown file."""
    assert "Plug-ins" not in sections()
    made = Explanation("spring-worn", "a worn spring", ("finding",), "It lost tension.", "Replace it.")

    class Cable:
        words = TermWords(
            group=FeatureGroup("spring-worn", "residual against load", explanation=made),
            explanations=explanations_in(ENTRY),
        )

    monkeypatch.setitem(CATALOGUE, "cable", Cable)
    assert sections()["Plug-ins"] == (*Cable.words.explanations, made)
    assert explain(["hose-twist", "spring-worn"]) == (*Cable.words.explanations, made)
    assert explanation("spring-worn") is made
    assert explanation("of-nobody") is None
