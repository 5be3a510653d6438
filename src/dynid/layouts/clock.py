"""Select the time column and the column that names motions, and decide the order of the rows."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.errors import UsageError
from dynid.base.records import dataclass, few
from dynid.base.units import is_unit_of
from dynid.layouts.meaning import TICKS, Meaning, words
from dynid.layouts.names import Family
from dynid.layouts.physics import runs_of, time_step
from dynid.layouts.proposal import Answers, Decision, Excerpt, Option, decided, order_by_time
from dynid.log.clocks import FASTEST, MOTION, ROW, SLOWEST, misplaced_rows, stretches_stand_alone
from dynid.log.readers.stamps import is_remainder, split_stamps

# Time stamps in the years 2001 to 2039, s since 1970.
EPOCH = (1e9, 2.2e9)
THOUSANDTHS = (1e-3, 1e-6, 1e-9)
# Two clocks are the same if their rates differ by less than this share and their readings by less than this
# share of a step.
SAME_RATE, APART = 1e-3, 0.2
# Words for the time stamp of a message, as opposed to its recording time.
_OF_MESSAGES = {"stamp", "header"}
SORT = "log.sort"
_LETTERS_OF_A_SERIES = 2  # besides t
_ROWS_OF_RUN = 10  # minimum mean number of rows between two decreases of a clock


@dataclass(frozen=True)
class Clock:
    """Time column and the resulting runs of rows.

    Attributes
    ----------
    step : float
        Median step, in the clock's unit.
    sort : Decision or None
        Whether rows are to be sorted by time; None if they are in order.

    """

    column: Decision
    meaning: Meaning
    trajectory: Decision
    runs: tuple[tuple[int, int], ...]
    step: float
    first: float
    sort: Decision | None = None

    @property
    def counted(self) -> bool:
        """Whether counted rows replace a time column."""
        return self.column.likely and self.step == 1.0


def choose_clock(log: Excerpt, alone: Sequence[tuple[str, Meaning]], answers: Answers) -> Clock:
    """Select the time column and the column that names the motion of each row."""
    labels_by_name = {name: entry for name, entry in alone if entry.quantity == "trajectory"}
    sums = {whole: pair for whole, pair in split_stamps(log.names).items() if whole in log.numeric}
    halves = {part for pair in sums.values() for part in pair}
    times = {
        name: entry
        for name, entry in alone
        if entry.quantity == "time"
        and name in log.numeric
        and name not in halves
        and not _of_a_series(name, log.names)
    }
    times |= dict.fromkeys(sums, Meaning("time", "measured", "s", "name"))
    first = log.numeric[0] if log.numeric else ""
    if not times and is_unit_of(first, "time"):  # a line of units instead of names
        times = {first: Meaning("time", "", first, "name")}
    if log.bag:
        times = {"t": Meaning("time", "measured", "s", "bags: stamps of the message headers")}
    answer = answers.get("log.time.column")
    if answer is not None and not log.bag:
        times |= {answer: times.get(answer, Meaning("time", said_by="name"))} if answer in log.numeric else {}
    # Columns of durations, starts or ends serve as a clock only if there is no other.
    spare = {name for name, entry in times.items() if entry.role == "spare" and name != answer}
    plain = {name: entry for name, entry in times.items() if name not in spare}
    looked = _looked_at(log, plain, labels_by_name, answers)
    restless = {
        candidate[0] for candidate in looked if candidate[0] != answer and _is_restless(log, candidate[0])
    }
    looked = [candidate for candidate in looked if candidate[0] not in restless] or looked
    if not looked:
        looked = _looked_at(log, {name: times[name] for name in spare}, labels_by_name, answers, spare)
        looked = [candidate for candidate in looked if not _is_restless(log, candidate[0])]
    if answer is not None and answer not in [candidate[0] for candidate in looked]:
        raise UsageError(
            "unknown-answer",
            found=f"log.time.column = {answer}, "
            + ("which does not increase" if answer in log.names else "no column"),
            expected=f"a column of increasing numbers, or '{ROW}' to count rows",
        )
    # Tick counters serve as a clock only if there is no other.
    looked = [
        candidate for candidate in looked if candidate[0] == answer or not set(words(candidate[0])) & TICKS
    ] or looked
    column = _time_column(log, looked, answers)
    chosen = next((candidate for candidate in looked if candidate[0] == column.value), None)
    if chosen is None:
        meaning = times.get(column.value or "", Meaning())
        return Clock(
            column, meaning, Decision("log.trajectory", None, optional=True), (), float("nan"), float("nan")
        )
    stamps, meaning, named, runs, step, _ = chosen
    t = log.table([stamps])[:, 0]
    order = _order(log, stamps, t, answers, stamps in spare) if named is None and not log.bag else None
    if order is None:
        return Clock(column, meaning, _trajectory(log, t, named, answers), runs, step, float(t[0]))
    if misplaced_rows(t):  # the reader of the log sorts them in any case
        log.put_in_order(order)
        t = t[order]
        return Clock(column, meaning, _trajectory(log, t, None, answers), runs_of(t), step, float(t[0]))
    moved = int(np.sum(order != np.arange(len(t))))
    log.put_in_order(order)
    t = t[order]
    why = (
        f"rows are not in the order of time ({moved} of the first {len(t)}); sorted by their "
        "stamps, the signals are smooth"
    )
    sort = decided(Decision(SORT, "true", (why,), likely=True), answers)
    motions = Decision("log.trajectory", None, ("sorted rows are one motion",), optional=True)
    return Clock(column, meaning, motions, runs_of(t), float(np.median(np.diff(t))), float(t[0]), sort)


_Looked = tuple[str, Meaning, str | None, tuple[tuple[int, int], ...], float, float]


def _looked_at(
    log: Excerpt,
    times: Mapping[str, Meaning],
    labels_by_name: Collection[str],
    answers: Answers,
    spare: Collection[str] = (),
) -> list[_Looked]:
    """Candidate clocks: name, meaning, column that names motions, runs, step and start of each increasing column.

    Parameters
    ----------
    log : Excerpt
        Names and first rows of the log.
    times : Mapping[str, Meaning]
        Meanings of the columns named as a time.
    labels_by_name : Collection[str]
        Columns named as a trajectory.
    answers : Answers
        User answers by key.
    spare : collection of str
        Columns by which rows are never sorted.

    """
    stated, looked = log.contents.trajectory, []
    for name, meaning in times.items():
        t = log.table([name])[:, 0]
        if is_remainder(t) or (set(words(name)) & TICKS and (np.diff(t) == 1.0).all()):
            continue
        best: tuple[str | None, tuple[tuple[int, int], ...]] = (None, runs_of(t))
        for label in [*([stated] if stated else []), *(other for other in labels_by_name if other != stated)]:
            if label in log.names and _explains(log, t, label):
                best = (label, runs_of(t, [str(cell) for cell in log.values([label])[label]]))
                break
        step = time_step(t, best[1])
        sole = len(times) == 1 and name not in spare
        if not np.isfinite(step) and sole and _order(log, name, t, answers) is not None:
            step = float(np.median(np.diff(np.sort(t))))
        if np.isfinite(step):
            looked.append((name, meaning, *best, step, float(t[0])))
    return looked


def _is_restless(log: Excerpt, name: str) -> bool:
    """Whether a column decreases every few rows."""
    t = log.table([name])[:, 0]
    return bool((np.diff(t) < 0).sum() * _ROWS_OF_RUN > len(t))


def _of_a_series(name: str, names: Sequence[str]) -> bool:
    """Whether the "t" in a name is one of several joint letters: "S pulse", "L pulse", "T pulse"."""
    spelt = words(name)
    if "t" not in spelt:
        return False
    place = spelt.index("t")
    others = [spelling for spelling in map(words, names) if spelling != spelt and len(spelling) == len(spelt)]
    alike = [
        spelling
        for spelling in others
        if spelling[:place] == spelt[:place] and spelling[place + 1 :] == spelt[place + 1 :]
    ]
    letters = {
        spelling[place] for spelling in alike if len(spelling[place]) == 1 and spelling[place].isalpha()
    }
    return len(spelt) > 1 and len(letters) >= _LETTERS_OF_A_SERIES


def _order(log: Excerpt, name: str, t: Float, answers: Answers, spare: bool = False) -> Int | None:
    """Order by which to sort the rows; None to leave them as they are.

    A `spare` column may be a countdown rather than a clock, so rows are sorted by it only if the user says
    so.
    """
    if not (np.diff(t) < 0).any() or "log.trajectory" in answers or answers.get(SORT) == "false":
        return None
    if answers.get(SORT) == "true":
        return np.argsort(t, kind="stable")
    if misplaced_rows(t):
        return np.argsort(t, kind="stable")
    return None if spare or stretches_stand_alone(t) else order_by_time(log, name, t)


def _time_column(log: Excerpt, looked: Sequence[_Looked], answers: Answers) -> Decision:
    key = "log.time.column"
    if not looked:
        return decided(
            Decision(key, None, ("no column of increasing numbers is named time or stamp",),
                     "which column is the time?"), answers)  # fmt: skip
    sourced = [candidate for candidate in looked if candidate[1].said_by not in ("", "name")]
    # If one column belongs to a known recorder, it is the clock; the others only have names such as "time".
    short = sourced if len(sourced) == 1 else list(looked)
    options = tuple(Option(candidate[0], f"steps of {candidate[4]:.6g}") for candidate in looked)
    own_stamps = [candidate for candidate in short if set(words(candidate[0])) & _OF_MESSAGES]
    if (
        len(short) > 1
        and len(own_stamps) == 1
        and all(map(_since_1970, (candidate[5] for candidate in short)))
    ):
        others = ", ".join(candidate[0] for candidate in short if candidate is not own_stamps[0])
        why = f"the stamp of the messages, with steps of {own_stamps[0][4]:.6g}, the same clock as {others}"
        return decided(Decision(key, own_stamps[0][0], (why,), options=options, likely=True), answers)
    if len(short) > 1 and _run_alike(log.table([candidate[0] for candidate in short])):
        others = ", ".join(candidate[0] for candidate in short[1:])
        why = f"the same clock as {others}; a single one is sufficient"
        return decided(Decision(key, short[0][0], (why,), options=options, likely=True), answers)
    if len(short) > 1:
        return decided(
            Decision(key, None, ("several columns increase like a clock",), "which is the clock?", options),
            answers,
        )
    source = short[0][1].said_by
    why = "its name" if source == "name" else source
    return decided(
        Decision(key, short[0][0], (f"{why}; steps of {short[0][4]:.6g}",), options=options), answers
    )


def _since_1970(first: float) -> bool:
    """Whether the time is in s, ms, us or ns since 1970."""
    return any(EPOCH[0] < first * size < EPOCH[1] for size in (1.0, *THOUSANDTHS))


def _run_alike(times: Float) -> bool:
    """Whether clocks (T, k) differ only by their start and by a factor of 1000 or 1e6."""
    if not np.isfinite(times).all():
        return False
    run = times - times[0]
    rates = run[-1] / run[-1, 0]
    usual = np.array([size**power for size in (1.0, *THOUSANDTHS) for power in (1, -1)])
    if (np.abs(rates[:, None] / usual - 1).min(axis=1) > SAME_RATE).any():
        return False
    run = run / rates
    return bool((np.abs(run - run[:, :1]).max(axis=0) <= APART * np.median(np.diff(run[:, 0]))).all())


def _explains(log: Excerpt, t: np.ndarray, label: str) -> bool:
    """Whether the rows of each name are contiguous with increasing time, as the motions of a log."""
    names = [str(cell) for cell in log.values([label])[label]]
    edges = [0, *(k for k in range(1, len(names)) if names[k] != names[k - 1])]
    if len({names[k] for k in edges}) < len(edges) or len(edges) > len(names) / 10:
        return False
    return all(
        bool((np.diff(t[a:b]) >= 0).all()) for a, b in zip(edges, [*edges[1:], len(names)], strict=True)
    )


def _trajectory(log: Excerpt, t: np.ndarray, label: str | None, answers: Answers) -> Decision:
    key = "log.trajectory"
    if label is not None:
        why = ("it names the motions, each contiguous with increasing time",)
        return decided(Decision(key, label, why, optional=True), answers)
    back = np.flatnonzero(np.diff(t) < 0)
    if (
        len(back)
        and key not in answers
        and not log.bag
        and MOTION not in log.names
        and stretches_stand_alone(t)
    ):
        rows = few([str(k + 1) for k in back.tolist()], 5)
        stretches = f"time decreases at row {rows}: each run of rows is a motion"
        return Decision(key, MOTION, (stretches,), optional=True, likely=True)
    if len(back):
        text = (
            f"time decreases at {len(back)} row(s), first at row {int(back[0]) + 1}, and no "
            "column names motions; "
        )
        text += "after sorting by time the signals are no smoother, or two rows have the same time"
        question = (
            "which column names the motion of each row? If rows are only out of order, answer log.sort=true"
        )
        return decided(Decision(key, None, (text,), question), answers)
    return decided(Decision(key, None, ("time increases throughout: one motion",), optional=True), answers)


def on_rows_of_positions(
    look: Excerpt, clock: Clock, chosen: Mapping[str, Family]
) -> tuple[Clock, frozenset[str]]:
    """Clock restricted to the rows with positions, and the channels in other rows, which are interpolated to them."""
    if "position" not in chosen or clock.column.value is None or clock.counted or len(clock.runs) != 1:
        return clock, frozenset()
    rows = {kind: np.isfinite(look.table(group.columns)).any(axis=1) for kind, group in chosen.items()}
    there = rows.pop("position")
    apart = [kind for kind, filled_rows in rows.items() if 2 * (there & filled_rows).sum() < there.sum()]
    if not apart:
        return clock, frozenset()
    t = look.table([clock.column.value])[:, 0]
    filled = {}
    for name in (name for kind in apart for name in chosen[kind].columns):
        values = look.table([name])[:, 0]
        known = np.isfinite(values)
        if known.any():
            filled[name] = np.interp(t[there], t[known], values[known], np.nan, np.nan)
    look.put_in_order(np.flatnonzero(there))
    look.fill(filled)
    t = t[there]
    return replace(clock, runs=runs_of(t), step=time_step(t, runs_of(t)), first=float(t[0])), frozenset(apart)


# Logs without a time column: counted rows serve as the clock, with a sampling rate from the file, the velocity or
# the user.

UNIT = "log.time.unit"
# Usual sampling rates of programs, Hz, and the maximum relative deviation from one of them.
USUAL = tuple(k * 10.0**e for e in range(5) for k in (1, 1.2, 1.25, 2, 2.4, 2.5, 3, 4, 5, 6, 8))
NEAR = 0.02
# Minimum share of the position differences that the velocity explains.
FOLLOWS = 0.9
_SMOOTHED = 5
# Minimum rows per second; maximum deviation of this number in rows and as a share; minimum number of seconds.
_OF_SECOND, _ODD, _UNEVEN, _SECONDS = 5, 2, 0.02, 4
_COUNTS = {"step", "steps", "index", "idx", "sample", "samples", "row", "frame", "cycle", "tick", "ticks", "seq",
           "count", "counter", "iteration", "iter", "k", "n", "no", "nr", "unnamed"}  # fmt: skip
_PERIODS = {"dt", "ts", "tsample", "delta", "period", "step", "sampletime", "samplingtime", "h"}
_RATES = {"fs", "rate", "freq", "frequency", "hz", "fsample", "fps"}
_ANSWER = re.compile(r"(?:1\s*/\s*)?(\d+(?:\.\d*)?)\s*(?:Hz|s)?")


def rows_as_clock(look: Excerpt, alone: Sequence[tuple[str, Meaning]], answers: Answers) -> Clock:
    """Clock of a log without a time column, with a question for the sampling rate if the file does not state it."""
    counts = [
        name
        for name, _ in alone
        if name in look.numeric and set(words(name)) & _COUNTS and _counts(look, name)
    ]
    column = counts[0] if counts else ROW
    t = look.table([column])[:, 0]
    why = f"'{column}' counts the rows" if counts else "rows are counted"
    why = f"no column increases like a clock; {why}"
    unit, reason = _stated(look.contents.constants)
    if not unit:
        unit, reason = _in_full_seconds(look, alone)
    if UNIT in answers:
        match = _ANSWER.fullmatch(answers[UNIT].strip())
        unit, reason = (_per(float(match[1])) if match else answers[UNIT]), "as you say"
    doubt = "" if unit else "no"
    meaning = Meaning("time", unit=unit or "unknown", said_by=reason, doubt=doubt)
    decision = Decision("log.time.column", column, (why,), likely=True)
    motions = Decision("log.trajectory", None, ("all rows are one motion",), optional=True)
    return Clock(decision, meaning, motions, ((0, len(t)),), 1.0, float(t[0]) if len(t) else 0.0)


def rate_from_velocity(look: Excerpt, clock: Clock, chosen: Mapping[str, Family]) -> Clock:
    """Clock of counted rows with the sampling rate at which the logged velocity is the derivative of the position."""
    if not clock.counted or not clock.meaning.doubt or not {"position", "velocity"} <= set(chosen):
        return clock
    q, dq = (
        look.table(chosen[kind].columns[: len(chosen["position"].joints)])
        for kind in ("position", "velocity")
    )
    slope = steps_per_unit(q, dq)
    near = min(USUAL, key=lambda rate: abs(np.log(rate / slope))) if slope is not None else np.nan
    if slope is None or abs(near / slope - 1) > NEAR:
        return clock
    why = f"at {near:g} rows per second, the logged velocity is the derivative of the position"
    return replace(clock, meaning=replace(clock.meaning, unit=_per(near), said_by=why, doubt=""))


def steps_per_unit(q: Float, dq: Float, steps: Float | None = None) -> float | None:
    """Median slope of the velocity over the position differences; None if the velocity does not follow them.

    Parameters
    ----------
    q, dq : (T, n) array
        Position and velocity.
    steps : (T - 1,) array or None
        Time steps; None for steps of 1.

    """
    moved = np.diff(q, axis=0) / (1.0 if steps is None else steps[:, None])
    x, y = (_smooth(values) for values in (moved, 0.5 * (dq[1:] + dq[:-1])))
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
    # All joints have the same sampling rate.
    return middle if (np.abs(slopes / middle - 1) < 0.2).mean() > 0.5 else None


def rate_question(clock: Clock) -> Decision:
    """Decide the time unit of counted rows."""
    if not clock.meaning.doubt:
        return Decision(
            UNIT, clock.meaning.unit, (clock.meaning.said_by,), likely=clock.meaning.said_by != "as you say"
        )
    why = "the file does not state it, and no logged velocity shows it"
    return Decision(
        UNIT, None, (why,), 'what is the sampling rate? Answer the time per row: 500 Hz is "1/500 s"'
    )


def _per(rate: float) -> str:
    return f"1/{rate:.10g} s"


def _stated(constants: Mapping[str, float]) -> tuple[str, str]:
    """Time per row stated in the file besides its columns, and the source."""
    for name, value in constants.items():
        spellings = {"".join(words(name)), *words(name)}
        rate = 1 / value if spellings & _PERIODS and value > 0 else value if spellings & _RATES else 0.0
        if SLOWEST <= rate <= FASTEST:
            return _per(rate), f"the file states {name} = {value:g}"
    return "", ""


def _in_full_seconds(look: Excerpt, alone: Sequence[tuple[str, Meaning]]) -> tuple[str, str]:
    """Time per row from stamps in whole seconds that each cover equally many rows, and the source."""
    for name, entry in alone:
        if entry.quantity != "time" or name not in look.numeric:
            continue
        t = look.table([name])[:, 0]
        steps = np.diff(t)
        edges = np.flatnonzero(steps != 0)
        in_seconds = entry.unit == "s" or EPOCH[0] < t[0] < EPOCH[1]
        if not in_seconds or len(edges) <= _SECONDS or not (steps[edges] == 1.0).all():
            continue
        counts = np.diff(edges)
        if counts.min() < _OF_SECOND or np.ptp(counts) > max(_ODD, _UNEVEN * counts.mean()):
            continue
        rate = float(counts.mean())
        near = min(USUAL, key=lambda known: abs(np.log(known / rate)))
        # The first and the last row of a second may fall into the adjacent one.
        rate = near if abs(near - rate) * len(counts) <= _ODD else rate
        return _per(rate), f"'{name}' counts full seconds of {rate:.6g} rows each"
    return "", ""


def _counts(look: Excerpt, name: str) -> bool:
    steps = np.diff(look.table([name])[:, 0])
    return len(steps) > 0 and bool((steps == 1).all())


def _smooth(values: Float) -> Float:
    """Means over a few rows each."""
    count = len(values) // _SMOOTHED
    means: Float = values[: count * _SMOOTHED].reshape(count, _SMOOTHED, -1).mean(axis=1)
    return means
