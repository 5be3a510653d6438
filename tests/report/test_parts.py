"""The parts of the report: numbers, formulas, time lines, thinning, plain data, residual statistics."""

from __future__ import annotations

import base64

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynid.diagnosis import spectrum
from dynid.estimate import Residuals, autocorrelation
from dynid.report import band, formula, interval, number, packed, percent, plain_number, short, symbol
from dynid.report.sections.parameters import base_truth
from dynid.report.sections.residuals import explained
from dynid.report.sections.signals import cut_offs, sentences
from dynid.report.text import duration, r_squared, tables, unit
from dynid.report.timeline import broken, lay_out, thin
from dynid.run import Identification


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.0, 3, "0"),
        (1.0, 3, "1.00"),
        (-0.012345, 3, "−0.0123"),
        (999.96, 3, "1000"),
        (12345.6, 3, "12346"),
        (1.2e-5, 3, "1.20·10⁻⁵"),
        (-3.4567e7, 2, "−3.5·10⁷"),
        (float("nan"), 3, "–"),
        (float("inf"), 3, "∞"),
    ],
)
def test_numbers(value: float, digits: int, text: str) -> None:
    assert number(value, digits) == text


@pytest.mark.parametrize(
    ("value", "half", "texts"),
    [
        (1.23456, 0.0567, ("1.235", "0.057")),
        (-12.3456, 1.96, ("−12.3", "2.0")),
        (0.001, 0.5, ("0.00", "0.50")),
        (1234.5, 250.0, ("1234", "250")),
        (2.5e-6, 1.2e-7, ("2.50·10⁻⁶", "0.12·10⁻⁶")),
        (1.0, float("nan"), ("1.000", "–")),
        (1.0, 0.0, ("1.000", "0")),
    ],
)
def test_the_interval_chooses_the_digits(value: float, half: float, texts: tuple[str, str]) -> None:
    assert interval(value, half) == texts


def test_other_texts() -> None:
    assert percent(0.0523) == "5.2\u00a0%"
    assert percent(float("nan")) == "–"
    assert duration(21.0) == "21.0\u00a0s"
    assert duration(3600.0) == "60.0\u00a0min"
    assert duration(9000.0) == "2.50\u00a0h"
    assert unit("kg m^2") == "kg m²"
    assert r_squared(0.99914) == "0.9991"
    assert plain_number(1000.0) == "1000"
    assert plain_number(-2.5e-7) == "−2.500·10⁻⁷"
    assert short("a" * 10, 10) == "a" * 10
    assert len(short("a" * 100, 30)) == 30


def test_formulas_fold_and_explain_themselves(identification: Identification) -> None:
    columns, robot = identification.estimate.columns, identification.robot
    names = [column.name for column in columns]
    text = symbol(columns[names.index("Izz2")], robot)
    assert "<i>I</i><sub>zz,2</sub>" in text
    assert "forearm" in text
    row = np.zeros(len(columns))
    row[[names.index("m1"), names.index("m2")]] = [1.0, -0.3]
    plain = formula(row, names.index("m1"), columns, robot)
    assert "− 0.3 <span" in plain
    assert "<details" not in plain
    row[:12] = 1.0
    assert "more</span>" in formula(row, 0, columns, robot)


@given(st.integers(1, 400), st.integers(4, 60), st.integers(0, 1000))
def test_thinning_keeps_the_peaks(count: int, points: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=count), rng.normal(size=count)
    kept = thin([a, b], points)
    assert len(kept) <= max(points, 4)
    assert np.all(np.diff(kept) > 0)
    for signal in (a, b):
        assert signal[kept].max() == signal.max()
        assert signal[kept].min() == signal.min()


def test_time_runs_on_and_lines_break_between_runs(identification: Identification) -> None:
    residuals = identification.training.residuals
    assert residuals is not None
    timeline = lay_out(residuals)
    assert timeline.x[0] == 0.0
    assert np.all(np.diff(timeline.x) > 0)
    assert [span.name for span in timeline.spans] == list(residuals.trajectories)
    everything = np.arange(len(residuals.t))
    drawn = broken(timeline.x, everything, timeline.starts)
    assert np.isnan(drawn).sum() == len(timeline.starts) - 1
    assert np.isnan(drawn[timeline.starts[1]])


def test_long_pauses_are_drawn_short() -> None:
    t = np.concatenate([np.arange(100) / 10, 5000 + np.arange(100) / 10])
    zero = np.zeros((200, 1))
    one = Residuals(("a",), ("j",), t, np.zeros(200), np.repeat([0, 1], 100), zero, zero, zero, zero, 10.0)
    timeline = lay_out(one)
    assert timeline.x[-1] < 25.0
    assert len(timeline.spans) == 1


def test_no_line_crosses_what_was_left_out() -> None:
    t = np.delete(np.arange(300) / 10, slice(120, 150))
    zero = np.zeros((270, 1))
    one = Residuals(("a",), ("j",), t, np.zeros(270), np.zeros(270), zero, zero, zero, zero, 10.0)
    timeline = lay_out(one)
    np.testing.assert_allclose(timeline.x, t)
    assert timeline.starts.tolist() == [0, 120]
    assert np.flatnonzero(np.isnan(broken(timeline.x, np.arange(270), timeline.starts))).tolist() == [120]


def test_bands_are_outlines_of_every_run() -> None:
    x = np.array([0.0, 1.0, np.nan, 3.0, 4.0, 5.0])
    trace = band(x, x - 1.0, x + 1.0, "room", "#0072b2", 0.5)
    drawn = [np.frombuffer(base64.b64decode(trace[key]["bdata"]), dtype="<f4") for key in ("x", "y")]
    nan = np.nan
    np.testing.assert_array_equal(drawn[0], np.float32([0, 1, 1, 0, nan, 3, 4, 5, 5, 4, 3, nan]))
    np.testing.assert_array_equal(drawn[1], np.float32([1, 2, 0, -1, nan, 4, 5, 6, 4, 3, 2, nan]))
    assert trace["fill"] == "toself"
    empty = band(np.full(2, nan), np.zeros(2), np.ones(2), "room", "#0072b2", 0.5)
    assert empty["x"]["bdata"] == ""


def test_arrays_survive_packing() -> None:
    values = np.array([1.5, np.nan, -2.0, 1e39, -1e308, np.inf])
    back = np.frombuffer(base64.b64decode(packed(values)["bdata"]), dtype="<f4")
    np.testing.assert_array_equal(back, np.float32([1.5, np.nan, -2.0, np.nan, np.nan, np.nan]))


def test_plain_data_of_any_shape_is_shown_and_escaped() -> None:
    data = {
        "a_b": 1.5,
        "rate_hz": 10.0,
        "list": [1, 2, 3],
        "long": list(range(100)),
        "none": None,
        "yes": True,
    }
    deep = {"x": {"u": 1, "v": "<b>"}, "y": {"u": 2, "v": ""}}
    text = str(tables({**data, "deep": deep, "rows": [{"k": "</td>"}, {"k": 2, "l": []}]}))
    assert "a b" in text
    assert "rate (Hz)" in text
    assert "100 values from 0 to 99.0" in text
    assert "&lt;b&gt;" in text
    assert "&lt;/td&gt;" in text
    assert text.count("<table") == text.count("</table>") == 3


def test_cut_offs_are_found_wherever_they_stand() -> None:
    data = {"settings": {"state_cutoff": 20.0, "order": 4}, "evidence": {"chosen": 8.0, "reach": [1.0]}}
    assert cut_offs(data) == {"state_cutoff": 20.0, "chosen": 8.0}
    assert cut_offs({"settings": {"cutoff": 8.0}, "chosen": 8.0}) == {"cutoff": 8.0}


def test_residual_statistics_of_known_signals() -> None:
    rng = np.random.default_rng(0)
    white, x = rng.normal(size=20_000), rng.uniform(-1, 1, 20_000)
    assert explained(white, x) < 0.01
    assert explained(np.sign(x) + 0.1 * white, x) > 0.9
    assert np.isnan(explained(white, np.zeros_like(x)))
    assert np.abs(autocorrelation([white])[1:]).max() < 0.04
    frequency, density, _ = spectrum([white], 100.0)
    assert np.trapezoid(density, frequency) == pytest.approx(1.0, rel=0.1)


def test_true_base_parameters_need_every_member(identification: Identification) -> None:
    truth = base_truth(identification)
    assert truth is not None
    estimate = identification.estimate
    theta = np.array([identification.truth[c.name] for c in estimate.columns])  # type: ignore[index]  # the fixture has a truth
    np.testing.assert_allclose(truth, estimate.base.reduce(theta))


def test_preparation_is_described_in_sentences() -> None:
    settings = {
        "cutoff": 14.0, "order": 4, "state_cutoff": [56.0, 14.0], "velocity": "measured", "crossover": (3.0, 5.0),
        "shortest": 1.0, "trim": 0.07, "rest": 0.02, "gate": 0.0,
    }  # fmt: skip
    text = " ".join(
        sentences(
            {
                "settings": settings,
                "source_rate_hz": 1000.0,
                "sample_rate_hz": 250.0,
                "equation_rate_hz": 83.3,
                "evidence": {"reason": "ten times the bandwidth"},
            }
        )
    )
    for part in (
        "1000 samples per second, reduced to 250 Hz",
        "low-passed at 14.0 Hz (Butterworth of order 4, forward and backward), ten times the bandwidth.",
        "Positions are low-passed at 14.0 to 56.0 Hz",
        "below 3.00 to 5.00 Hz derivatives of the positions",
        "shorter than 1.00 s",
        "slower than 0.0200 rad/s",
    ):
        assert part in text
    assert "Equations of a joint" not in text
    assert sentences({}) == []
    assert sentences({"settings": {"cutoff": "auto", "state_cutoff": "auto", "velocity": "auto"}}) == []
