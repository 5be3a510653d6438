"""Whether the residuals look like noise, or depend on velocity, position or time."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from dynid.base.arrays import Float
from dynid.diagnosis.resonance import spectrum
from dynid.estimate.scores import Residuals, autocorrelation, rows_alike
from dynid.report.figures import (
    BLUE,
    GREY,
    INK,
    PALE,
    VERMILION,
    Axis,
    Panel,
    bars,
    dots,
    level_band,
    level_line,
    line,
    row_of,
)
from dynid.report.section import Page, data_sets, effort_unit, position_unit, render
from dynid.report.text import number, percent
from dynid.report.timeline import run_starts
from dynid.run.result import Identification

# Dots of a scatter plot; bins and samples per bin of its mean; fewest samples of a spectrum; lags of the
# autocorrelation; explained share from which a figure is marked.
_DOTS = 320
_FEWEST_BINS, _MOST_BINS = 6, 24
_SAMPLES_IN_BIN = 60
_LEAST_IN_BIN = 8
_LEAST_FOR_SPECTRUM = 16
_MOST_LAGS = 160
_MARKED = 0.15


class ResidualsSection:
    """Spectrum, autocorrelation and residual against velocity and position, joint by joint."""

    anchor = "residuals"
    title = "Residual analysis"

    def render(self, identification: Identification, page: Page) -> Markup:
        """One tab per data set with residuals, one row of plots per joint."""
        sets = [
            (label, kind, v.residuals)
            for label, kind, v in data_sets(identification)
            if v.residuals is not None
        ]
        tabs = [(label, kind, _rows(identification, r, page)) for label, kind, r in sets if len(r.t) > 1]
        return render("residuals.html.jinja", {"tabs": page.tabs(tabs) if tabs else ""})


def explained(residual: Float, variable: Float) -> float:
    """Share of the variance of a residual that its mean in bins of a variable explains, 0 to 1."""
    _, mean, _, index = binned(residual, variable)
    total = float(np.sum((residual - residual.mean()) ** 2))
    if total <= 0 or len(mean) < 2:
        return float("nan")
    valid = index >= 0
    between = float(np.sum((mean[index[valid]] - residual[valid].mean()) ** 2))
    return between / total


def binned(residual: Float, variable: Float) -> tuple[Float, Float, Float, Float]:
    """Centres, means and standard errors of a residual in equal bins of a variable, and the bin of each sample.

    Bins with fewer than eight samples are left out; their samples have bin -1.
    """
    low, high = float(variable.min()), float(variable.max())
    if not high > low:
        return np.zeros(0), np.zeros(0), np.zeros(0), np.full(len(residual), -1)
    bins = min(max(len(residual) // _SAMPLES_IN_BIN, _FEWEST_BINS), _MOST_BINS)
    index = np.minimum(((variable - low) / (high - low) * bins).astype(np.int64), bins - 1)
    count = np.bincount(index, minlength=bins)
    keep = count >= _LEAST_IN_BIN
    safe = np.maximum(count, 1)
    mean = np.bincount(index, residual, bins) / safe
    square = np.bincount(index, residual**2, bins) / safe
    error = np.sqrt(np.maximum(square - mean**2, 0.0) / safe)
    centre = low + (np.arange(bins) + 0.5) * (high - low) / bins
    renumbered = np.where(keep, np.cumsum(keep) - 1, -1)
    return centre[keep], mean[keep], error[keep], renumbered[index]


def runs(residuals: Residuals, values: Float) -> list[Float]:
    """Contiguous parts of a signal (n_samples,) with uniform time."""
    return np.split(values, run_starts(residuals)[1:])


def _rows(identification: Identification, residuals: Residuals, page: Page) -> Markup:
    rows = []
    for j, name in enumerate(residuals.joint_names):
        counted = residuals.counts(j)
        if not counted.any():
            continue
        error = residuals.error[counted, j]
        correlation = autocorrelation(runs(residuals, residuals.error_counted[:, j]), _MOST_LAGS)
        by_velocity, by_position = (explained(error, x[counted, j]) for x in (residuals.dq, residuals.q))
        rows.append(
            {
                "name": name,
                "unit": effort_unit(identification, j),
                "rms": number(float(np.sqrt(np.mean(error**2)))),
                "bias": number(float(error.mean()), 2),
                "lag": number(float(correlation[1]), 2) if len(correlation) > 1 else number(float("nan")),
                "time": _seconds(correlation, residuals.rate),
                "kurtosis": number(_excess_kurtosis(error), 2),
                "velocity": percent(by_velocity),
                "position": percent(by_position),
                "velocity_marked": by_velocity > _MARKED,
                "position_marked": by_position > _MARKED,
                "plot": page.figure(
                    row_of(_panels(identification, residuals, j, correlation), 220),
                    f"residual analysis of joint {name}",
                ),
            }
        )
    return render("residual_rows.html.jinja", {"rows": rows, "rate": residuals.rate})


def _panels(
    identification: Identification, residuals: Residuals, j: int, correlation: Float
) -> tuple[Panel, ...]:
    counted, unit = residuals.counts(j), effort_unit(identification, j)
    error = residuals.error[counted, j]
    where = position_unit(identification, j)
    return (
        _spectrum_panel(residuals, j, unit),
        _correlation_panel(correlation, residuals),
        _scatter_panel(residuals.dq[counted, j], error, f"velocity, {where}/s", unit),
        _scatter_panel(residuals.q[counted, j], error, f"position, {where}", unit),
        _histogram_panel(error, unit),
    )


def _spectrum_panel(residuals: Residuals, j: int, unit: str) -> Panel:
    title = f"spectrum, ({unit})²/Hz"
    if max(len(part) for part in runs(residuals, residuals.t)) < _LEAST_FOR_SPECTRUM:
        return Panel((), Axis("frequency, Hz"), Axis(), title=title)
    frequency, density, _ = spectrum(runs(residuals, residuals.error_counted[:, j]), residuals.rate)
    _, torque, _ = spectrum(runs(residuals, residuals.measured[:, j]), residuals.rate)
    shown = slice(1, None)
    top = max(float(torque[shown].max(initial=0.0)), float(density[shown].max(initial=0.0)), 1e-30)
    return Panel(
        traces=(
            line(frequency[shown], _positive(torque[shown]), "measured torque", PALE, 1.2),
            line(frequency[shown], _positive(density[shown]), "residual", BLUE, 1.3),
        ),
        x=Axis("frequency, Hz", log=True, span=(float(frequency[1]), float(frequency[-1])), most_ticks=4),
        y=Axis(log=True, span=(top * 1e-8, top * 3), most_ticks=5),
        title=title,
    )


def _correlation_panel(correlation: Float, residuals: Residuals) -> Panel:
    lag = np.arange(len(correlation)) / residuals.rate
    bound = 1.96 / np.sqrt(max(len(residuals.t), 1))
    return Panel(
        traces=(line(lag, correlation, "autocorrelation", BLUE, 1.3),),
        x=Axis("lag, s", most_ticks=4),
        y=Axis(span=(-0.55, 1.05)),
        title="autocorrelation",
        shapes=(level_band(-bound, bound), level_line(0.0)),
    )


def _scatter_panel(variable: Float, error: Float, title: str, unit: str) -> Panel:
    step = max(len(error) // _DOTS, 1)
    centre, mean, spread, _ = binned(error, variable)
    two = 2.0 * spread
    return Panel(
        traces=(
            dots(variable[::step], error[::step], "residual", GREY, 3.0, 0.4),
            line(centre, mean + two, "mean + 2 standard errors", VERMILION, 0.7, "dot"),
            line(centre, mean - two, "mean - 2 standard errors", VERMILION, 0.7, "dot"),
            line(centre, mean, "mean", VERMILION, 1.8),
        ),
        x=Axis(title, most_ticks=4),
        y=Axis(),
        title=f"residual, {unit}",
        shapes=(level_line(0.0),),
    )


def _histogram_panel(error: Float, unit: str) -> Panel:
    spread = max(float(error.std()), 1e-300)
    edges = np.linspace(-5, 5, 41)
    count, _ = np.histogram((error - error.mean()) / spread, bins=edges)
    width = edges[1] - edges[0]
    density = count / max(len(error), 1) / width
    centre = (edges[:-1] + edges[1:]) / 2
    z = np.linspace(-5, 5, 101)
    return Panel(
        traces=(
            bars(centre, density, None, "residual", PALE),
            line(z, np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi), "normal", INK, 1.1),
        ),
        x=Axis("residual / std", most_ticks=4),
        y=Axis(most_ticks=4),
        title="distribution",
    )


def _positive(values: Float) -> Float:
    return np.where(values > 0, values, np.nan)


def _excess_kurtosis(error: Float) -> float:
    variance = float(np.mean((error - error.mean()) ** 2))
    return float(np.mean((error - error.mean()) ** 4)) / variance**2 - 3.0 if variance > 0 else float("nan")


def _seconds(correlation: Float, rate: float) -> str:
    """Correlation time, 1 + 2 sum of the autocorrelation up to its first sign change, over the rate."""
    if not np.isfinite(correlation).all():
        return number(float("nan"))
    return f"{number(rows_alike(correlation) / rate, 2)} s"
