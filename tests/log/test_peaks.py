"""Efforts at the ends of their range: what is warned of, what stops, and what is handed on."""

from __future__ import annotations

import numpy as np
import pytest

from dynid.base import Diagnostics
from dynid.log.recording_faults import look_at_peaks

NAMES = ("shoulder", "elbow")
MOVED = np.array([True, True])


def test_ends_that_hold_many_samples_are_reported_and_handed_on() -> None:
    sink = Diagnostics()
    extreme = np.array([[5.0, 3.0], [4.0, 2.0]])
    saturated, ends = look_at_peaks(NAMES, extreme, np.array([[0.001, 0.05], [0.03, 0.04]]), MOVED, sink)
    np.testing.assert_array_equal(saturated, [0.03, 0.05])
    np.testing.assert_array_equal(ends, [[np.nan, 3.0], [-4.0, -2.0]])
    assert [(item.place.joint, item.text) for item in sink.warnings] == [
        (
            "shoulder",
            "3 % of the effort samples are exactly -4, the end of the range: is the effort saturated?",
        ),
        ("elbow", "5 % of the effort samples are exactly 3, the end of the range: is the effort saturated?"),
    ]


@pytest.mark.parametrize("value", [1.5, -0.2])
def test_an_effort_that_never_changes_is_reported_as_such(value: float) -> None:
    extreme, shares = np.array([[5.0, value], [4.0, -value]]), np.array([[0.001, 1.0], [0.001, 1.0]])
    sink = Diagnostics()
    look_at_peaks(NAMES, extreme, shares, MOVED, sink)
    (doubt,) = sink.doubts
    assert f"doubt[constant-effort] joint 'elbow': a constant effort of {value:g}" in str(doubt)
    # A joint at rest may hold one and the same effort; it is warned of.
    sink = Diagnostics()
    look_at_peaks(NAMES, extreme, shares, np.array([True, False]), sink)
    assert [item.place.joint for item in sink.warnings] == ["elbow"]


def test_no_effort_at_all_is_a_free_joint() -> None:
    sink = Diagnostics()
    nothing, shares = np.array([[5.0, 0.0], [4.0, 0.0]]), np.array([[0.001, 0.0], [0.001, 0.0]])
    look_at_peaks(NAMES, nothing, shares, MOVED, sink)
    assert list(sink) == []
