"""Logs without a clock: rows, or a column that counts them, and what says how many of them are a second."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float
from dynid.layouts.clock import EPOCH, Clock
from dynid.layouts.decision import Answers, Decision
from dynid.layouts.excerpt import Excerpt
from dynid.layouts.meaning import Meaning, words
from dynid.layouts.names import Family
from dynid.log.row_numbers import ROW
from dynid.log.time_order import FASTEST, SLOWEST

UNIT = "log.time.unit"
# Rates that programs are set to; a rate that is found may be this far from one of them.
USUAL = tuple(k * 10.0**e for e in range(5) for k in (1, 1.2, 1.25, 2, 2.4, 2.5, 3, 4, 5, 6, 8))
NEAR = 0.02
# A velocity follows the differences of the position where it explains this share of them.
FOLLOWS = 0.9
_SMOOTHED = 5
# Rows of a full second, at least; they are as many in each but for so many, or this share of them, and in so many.
_OF_SECOND, _ODD, _UNEVEN, _SECONDS = 5, 2, 0.02, 4
_COUNTS = {"step", "steps", "index", "idx", "sample", "samples", "row", "frame", "cycle", "tick", "ticks", "seq",
           "count", "counter", "iteration", "iter", "k", "n", "no", "nr", "unnamed"}  # fmt: skip
_PERIODS = {"dt", "ts", "tsample", "delta", "period", "step", "sampletime", "samplingtime", "h"}
_RATES = {"fs", "rate", "freq", "frequency", "hz", "fsample", "fps"}
_ANSWER = re.compile(r"(?:1\s*/\s*)?(\d+(?:\.\d*)?)\s*(?:Hz|s)?")


def rows_as_clock(look: Excerpt, alone: Sequence[tuple[str, Meaning]], answers: Answers) -> Clock:
    """The clock of a log that has no time column, with a question for the rate that nothing in the file answers."""
    counts = [
        name
        for name, _ in alone
        if name in look.numeric and set(words(name)) & _COUNTS and _counts(look, name)
    ]
    column = counts[0] if counts else ROW
    t = look.table([column])[:, 0]
    why = f"'{column}' counts the rows" if counts else "rows are counted"
    why = f"no column ascends as a clock does; {why}"
    unit, reason = _stated(look.contents.constants)
    if not unit:
        unit, reason = _in_full_seconds(look, alone)
    if UNIT in answers:
        found = _ANSWER.fullmatch(answers[UNIT].strip())
        unit, reason = (_per(float(found[1])) if found else answers[UNIT]), "as you say"
    doubt = "" if unit else "no"
    meaning = Meaning("time", unit=unit or "unknown", said_by=reason, doubt=doubt)
    decision = Decision("log.time.column", column, (why,), likely=True)
    motions = Decision("log.trajectory", None, ("rows are one motion",), optional=True)
    return Clock(decision, meaning, motions, ((0, len(t)),), 1.0, float(t[0]) if len(t) else 0.0)


def rate_from_velocity(look: Excerpt, clock: Clock, chosen: Mapping[str, Family]) -> Clock:
    """A clock of counted rows, with the rate at which the logged velocity is the derivative of the position."""
    if not clock.counted or not clock.meaning.doubt or not {"position", "velocity"} <= set(chosen):
        return clock
    q, dq = (
        look.table(chosen[kind].columns[: len(chosen["position"].joints)])
        for kind in ("position", "velocity")
    )
    slope = steps_per_unit(q, dq)
    near = min(USUAL, key=lambda one: abs(np.log(one / slope))) if slope is not None else np.nan
    if slope is None or abs(near / slope - 1) > NEAR:
        return clock
    why = f"the logged velocity is the derivative of the position at {near:g} rows a second"
    return replace(clock, meaning=replace(clock.meaning, unit=_per(near), said_by=why, doubt=""))


def steps_per_unit(q: Float, dq: Float, steps: Float | None = None) -> float | None:
    """Median slope of a velocity over the differences of a position; None where it does not follow them.

    q, dq: (T, n).    steps: (T - 1,) of a clock, None = 1.
    """
    moved = np.diff(q, axis=0) / (1.0 if steps is None else steps[:, None])
    x, y = (_smooth(one) for one in (moved, 0.5 * (dq[1:] + dq[:-1])))
    good = np.isfinite(x).all(axis=1) & np.isfinite(y).all(axis=1)
    x, y = x[good], y[good]
    if len(x) < 4 * _SMOOTHED:
        return None
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    xx, yy, xy = (x * x).sum(axis=0), (y * y).sum(axis=0), (x * y).sum(axis=0)
    moves = (xx > 0) & (yy > 0)
    if not moves.any():
        return None
    tiny = np.finfo(float).tiny
    follows = moves & (xy > 0) & (xy**2 > FOLLOWS * np.maximum(xx * yy, tiny))
    if follows.sum() < 0.5 * moves.sum() or follows.sum() < 0.5 * q.shape[1]:
        return None
    slopes = xy[follows] / xx[follows]
    middle = float(np.median(slopes))
    # One rate holds for all joints.
    return middle if (np.abs(slopes / middle - 1) < 0.2).mean() > 0.5 else None


def rate_question(clock: Clock) -> Decision:
    """The unit of counted rows."""
    if not clock.meaning.doubt:
        return Decision(
            UNIT, clock.meaning.unit, (clock.meaning.said_by,), likely=clock.meaning.said_by != "as you say"
        )
    why = "the file does not say it, and no logged velocity shows it"
    return Decision(UNIT, None, (why,), 'how many rows a second are there? 500 = "1/500 s" a row')


def _per(rate: float) -> str:
    return f"1/{rate:.10g} s"


def _stated(constants: Mapping[str, float]) -> tuple[str, str]:
    """The unit of a row by what the file holds besides columns, and who says it."""
    for name, value in constants.items():
        said = {"".join(words(name)), *words(name)}
        rate = 1 / value if said & _PERIODS and value > 0 else value if said & _RATES else 0.0
        if SLOWEST <= rate <= FASTEST:
            return _per(rate), f"the file says {name} = {value:g}"
    return "", ""


def _in_full_seconds(look: Excerpt, alone: Sequence[tuple[str, Meaning]]) -> tuple[str, str]:
    """The unit of a row where stamps have no fractions of a second, and as many rows are in each; and who says it."""
    for name, one in alone:
        if one.quantity != "time" or name not in look.numeric:
            continue
        t = look.table([name])[:, 0]
        steps = np.diff(t)
        edges = np.flatnonzero(steps != 0)
        in_seconds = one.unit == "s" or EPOCH[0] < t[0] < EPOCH[1]
        if not in_seconds or len(edges) <= _SECONDS or not (steps[edges] == 1.0).all():
            continue
        counts = np.diff(edges)
        if counts.min() < _OF_SECOND or np.ptp(counts) > max(_ODD, _UNEVEN * counts.mean()):
            continue
        rate = float(counts.mean())
        near = min(USUAL, key=lambda known: abs(np.log(known / rate)))
        # The first and the last row may each be in the next second.
        rate = near if abs(near - rate) * len(counts) <= _ODD else rate
        return _per(rate), f"'{name}' counts full seconds, each of {rate:.6g} rows"
    return "", ""


def _counts(look: Excerpt, name: str) -> bool:
    steps = np.diff(look.table([name])[:, 0])
    return len(steps) > 0 and bool((steps == 1).all())


def _smooth(values: Float) -> Float:
    """Means of some rows each."""
    count = len(values) // _SMOOTHED
    means: Float = values[: count * _SMOOTHED].reshape(count, _SMOOTHED, -1).mean(axis=1)
    return means
