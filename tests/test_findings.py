"""Findings: one type for logs, verdicts and residuals, its plain data, and its names before dynid 0.2."""

from __future__ import annotations

import json
from copy import deepcopy

import numpy as np
import pytest

import dynid.base
from dynid.base import Curve, Diagnostics, Evidence, Finding, Interval, Level, Place, Verdict
from dynid.diagnosis import finding_from_dict, finding_to_dict
from dynid.diagnosis.finding import ResidualFinding
from dynid.run import verdict_findings
from dynid.run.serial import verdict_from_dict
from dynid.terms import Declared
from dynid.terms.residual_tests import Notice

CURVE = Curve("time, s", "residual", np.arange(3.0), np.ones(3), np.zeros(0))


def test_a_level_may_be_a_text() -> None:
    assert Finding("warning", "gap", "a gap") == Finding(Level.WARNING, "gap", "a gap")
    with pytest.raises(ValueError, match="loud"):
        Finding("loud", "gap", "a gap")


def test_a_copy_of_a_finding_is_the_same() -> None:
    sink = Diagnostics()
    sink.warn("gap", "a gap", Place(joint="elbow"))
    sink.extend(deepcopy(sink))
    assert len(sink) == 1


def test_old_names_make_and_read_findings() -> None:
    with pytest.warns(DeprecationWarning, match="diagnostics.Finding now"):
        old = dynid.base.Diagnostic
    with pytest.warns(DeprecationWarning, match="diagnostics.Level now"):
        note = dynid.base.Severity.NOTE
    finding = old(note, "gap", "a gap", Place(file="log.csv"))
    assert str(finding) == "note[gap] log.csv: a gap"
    assert (finding.identifier, finding.severity) == (finding.code, finding.level) == ("gap", Level.NOTE)


@pytest.mark.parametrize("joint", ["", "elbow"])
def test_a_finding_in_residuals_as_it_was_made_before(joint: str) -> None:
    times = (Interval("a", 1.0, 2.0),)
    texts = ("bursts", "note", joint, "a burst", "at 1 s", "Look there.")
    with pytest.warns(DeprecationWarning, match="Evidence"):
        old = ResidualFinding(*texts, 0.4, 1e-6, times=times, curve=CURVE)
    title, text, advice = texts[3:]
    evidence, place = Evidence(0.4, 1e-6, times, CURVE), Place(joint=joint or None)
    assert old == Finding(Level.NOTE, "bursts", text, place, title=title, advice=advice, evidence=evidence)
    assert (old.joint, old.share, old.p_value, old.times, old.masked) == (joint, 0.4, 1e-6, times, False)
    plain = finding_to_dict(old)
    # The keys of run.json.
    keys = "identifier level joint title text advice share p_value masked times curve"
    assert set(plain) == set(keys.split())
    assert str(finding_to_dict(finding_from_dict(plain))) == str(plain)


def test_a_notice_as_it_was_made_before() -> None:
    with pytest.warns(DeprecationWarning, match="Hypothesis"):
        old = Notice(
            "drive-gain", Level.DOUBT, "too large", "one scale", "check it", "elbow", declared=Declared()
        )
    assert old.finding == Finding("doubt", "drive-gain", "too large", Place(joint="elbow"), advice="check it")
    assert (old.expected, old.declared is None) == ("one scale", False)


def test_findings_of_a_verdict_keep_their_keys_and_come_back() -> None:
    verdict = Verdict(
        "usable", "Fair.", (Finding("note", "gap", "a gap", title="Log: gap", advice="Mind it."),)
    )
    plain = json.loads(json.dumps(verdict_findings(verdict)))
    assert plain == [
        {"level": "note", "title": "Log: gap", "text": "a gap", "advice": "Mind it.", "code": "gap"}
    ]
    assert verdict_from_dict({"level": "usable", "headline": "Fair.", "findings": plain}) == verdict
