"""Recorded signals as a part of a page: peaks, gaps, units, marks; in a browser zoom, joints and both schemes."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynid.base import Diagnostics, Evidence, Finding, Interval, Level, Place
from dynid.log import Log
from dynid.robot import load_example
from dynid.scene import document, motions_of, series_fragment
from dynid.scene.series import LEAST_POINTS, Motion, Signal
from tests.report.test_browser import BEYOND, browser, wait_until  # noqa: F401  (a fixture)

ROBOT = load_example("ur5e")
RATE = 500.0


def made_log(rows: int = 20_000, commanded: bool = False, motions: int = 1, **more: Any) -> Log:
    t = np.arange(rows) / RATE
    joints = np.arange(1, ROBOT.n + 1)
    q = 0.5 * np.sin(np.outer(t, joints))
    tau = 10.0 * np.cos(np.outer(t, joints))
    tau[rows // 3, 2] = 400.0  # a single sample
    tau[rows // 2, 4] = -300.0
    given: dict[str, Any] = {"q_des": q + 0.01, "tau_ff": 0.0 * q} if commanded else {"tau": tau}
    names = np.array([f"motion {k}" for k in range(motions)])[np.arange(rows) * motions // rows]
    return Log.from_arrays(ROBOT, t, q, trajectory=names if motions > 1 else None, **given, **more)


def values(motion: Motion, chart: str, name: str, kind: str = "") -> np.ndarray:
    return next(s.values for s in motion.signals if (s.chart, s.name, s.kind) == (chart, name, kind))


@pytest.mark.parametrize("most", [5_000, 37_123, 10_000_000])
def test_thinned_signals_keep_their_peaks_and_order(most: int) -> None:
    log = made_log(20_000)
    (motion,), left_out = motions_of(log, most_values=most)
    assert left_out == 0
    assert np.all(np.diff(motion.t) >= 0)
    assert (motion.t[0], motion.t[-1]) == pytest.approx((0.0, 19_999 / RATE), abs=2.0 / RATE)
    width = len(motion.signals) + 1
    assert width == 1 + 2 * ROBOT.n
    assert len(motion.t) * width <= 1.1 * max(most, width * LEAST_POINTS)
    names = ROBOT.joint_names
    assert values(motion, "torque", names[2]).max() == 400.0
    assert values(motion, "torque", names[4]).min() == -300.0
    # Between the peaks the drawn line is that of the log.
    q = np.interp(motion.t, np.arange(20_000) / RATE, 0.5 * np.sin(np.arange(20_000) / RATE))
    step = float(np.median(np.diff(motion.t)))
    assert np.abs(values(motion, "position", names[0]) - q).max() <= 2.0 * step
    assert motion.rows == 20_000


def test_every_recorded_signal_has_its_chart_and_unit() -> None:
    log = made_log(2000, commanded=True, extra={"current": np.arange(2000.0)})
    (motion,), _ = motions_of(log)
    assert {(signal.chart, signal.unit, signal.kind) for signal in motion.signals} == {
        ("position", "rad", ""),
        ("position", "rad", "command"),
        ("torque", "N m", "command"),
        ("current", "", "sensor"),
    }


def test_no_line_crosses_a_gap() -> None:
    t = np.concatenate([np.arange(500), np.arange(900, 1400)]) / RATE
    q = np.sin(np.outer(t, np.ones(ROBOT.n)))
    (motion,), _ = motions_of(Log.from_arrays(ROBOT, t, q, q))
    at = np.flatnonzero(np.isnan(motion.signals[0].values))
    assert len(at) == 1
    assert motion.t[at[0] + 1] == pytest.approx(900 / RATE)


def test_motions_that_do_not_fit_are_counted() -> None:
    motions, left_out = motions_of(made_log(9000, motions=9), most_values=3 * 13 * LEAST_POINTS)
    assert [motion.name for motion in motions] == ["motion 0", "motion 1", "motion 2"]
    assert left_out == 6
    assert "6 more trajectories" in series_fragment(motions, left_out).html


def findings(log: Log) -> list[Finding]:
    name, file = log.trajectories[0].name, str(log.trajectories[0].file)
    span = Evidence(0.5, 1e-6, times=(Interval(name, 2.0, 3.0), Interval("another", 2.0, 3.0)))
    return [
        Finding(Level.WARNING, "burst", "a burst <b>here</b>", title="Burst", evidence=span),
        Finding(Level.WARNING, "jump", "a jump", Place(file=file, time=1.5)),
        Finding(Level.WARNING, "elsewhere", "in another file", Place(file="other.csv", time=1.5)),
        Finding(Level.WARNING, "late", "after the end", Place(time=1e9)),
        *Diagnostics(),
    ]


def test_times_of_findings_are_marked_where_they_belong() -> None:
    log = made_log(3000)
    (motion,), _ = motions_of(log, findings(log))
    assert [(mark.start, mark.end, mark.text) for mark in motion.marks] == [
        (2.0, 3.0, "Burst: a burst <b>here</b>"),
        (1.5, 1.5, "a jump"),
    ]


def test_the_page_is_offline_and_safe() -> None:
    log = made_log(1000)
    part = series_fragment(*motions_of(log, findings(log)))
    text = document("<script>alert(1)</script>", (part,))
    assert "<script>alert" not in text
    assert "<b>here" not in text
    assert not re.search(r"""(src|href)=["'](?!data:)""", part.html)
    data = json.loads(re.search(r'class="series-data">(.*?)</script>', part.html, re.S)[1])  # type: ignore[index]
    assert len(np.frombuffer(base64.b64decode(data[0]["t"]), "<f4")) == 1000
    assert "uPlot" in part.script
    assert len(part.script.encode()) < 100_000
    license_text = Path(__file__).parents[2] / "src/dynid/scene/assets/uplot.LICENSE"
    assert "MIT" in license_text.read_text()


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Any:  # noqa: F811  (the fixture above)
    log = made_log(6000, commanded=True, motions=2)
    path = tmp_path / "series.html"
    path.write_text(document("UR5e", (series_fragment(*motions_of(log, findings(log))),)), encoding="utf-8")

    def open_page(**options: Any) -> tuple[Any, list[str]]:
        context = browser.new_context(
            viewport={"width": options.pop("width", 1400), "height": 900}, **options
        )
        page, errors = context.new_page(), list[str]()
        page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(path.as_uri())
        return page, errors

    return open_page


SHOWN = "[document.querySelector('.series').dataset.from, document.querySelector('.series').dataset.to].map(Number)"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
def test_charts_are_drawn_in_every_width_and_scheme(opened: Any, width: int, scheme: str) -> None:
    page, errors = opened(width=width, color_scheme=scheme)
    assert page.evaluate("document.querySelectorAll('.uplot canvas').length") == 2
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(BEYOND, width) == []
    heads = page.evaluate("[...document.querySelectorAll('.series-chart h3')].map((h) => h.textContent)")
    assert heads == ["position, rad", "torque, N m"]
    assert errors == []


def test_zoom_is_that_of_all_charts_and_marks_lead_to_their_time(opened: Any) -> None:
    page, errors = opened()
    first, last = page.evaluate(SHOWN)
    assert (first, last) == pytest.approx((0.0, 2999 / RATE), abs=0.01)
    # Drag over the middle half of the first chart.
    box = page.query_selector(".u-over").bounding_box()
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] / 4, y)
    page.mouse.down()
    page.mouse.move(box["x"] + 3 * box["width"] / 4, y, steps=4)
    page.mouse.up()
    wait_until(page, f"{SHOWN}[0] > 1")
    low, high = page.evaluate(SHOWN)
    assert (low, high) == pytest.approx((last / 4, 3 * last / 4), abs=0.1)
    page.click("[data-act=out]")
    page.click("[data-act=all]")
    assert page.evaluate(SHOWN) == [first, last]
    page.click(".series-marks button >> nth=0")
    low, high = page.evaluate(SHOWN)
    assert low <= 2.0
    assert high >= 3.0
    # Another trajectory has its own time and no marks of the first.
    page.select_option(".series-bar select", "1")
    assert page.evaluate("document.querySelectorAll('.series-marks li').length") == 0
    assert errors == []


def test_sensors_are_shown_beside_many_joints(browser: Any, tmp_path: Path) -> None:  # noqa: F811
    t = np.arange(500.0) / RATE
    signals = [Signal("position", "rad", f"joint {k}", "", np.sin(k + t)) for k in range(12)]
    signals += [Signal("wrist: force", "N", axis, "sensor", np.cos(t)) for axis in ("fx", "fy", "fz")]
    path = tmp_path / "many.html"
    path.write_text(
        document("many", (series_fragment([Motion("run", t, tuple(signals), 500)]),)), encoding="utf-8"
    )
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.goto(path.as_uri())
    rows = "c.querySelectorAll('.u-series:not(.u-off)').length - 1"
    shown = f"[...document.querySelectorAll('.series-chart')].map((c) => {rows})"
    assert page.evaluate(shown) == [8, 3]
    assert page.evaluate("document.querySelectorAll('.series-joints button').length") == 12
    page.close()


def test_a_joint_is_hidden_and_shown_in_all_charts(opened: Any) -> None:
    page, errors = opened()
    rows = "document.querySelectorAll('.u-series:not(.u-off)').length"
    every = page.evaluate(rows)
    page.click(".series-joints button >> nth=0")
    assert page.evaluate(rows) == every - 3  # position, its command, commanded torque
    page.click(".series-joints button >> nth=0")
    assert page.evaluate(rows) == every
    assert errors == []
