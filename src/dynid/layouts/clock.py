"""Which column is the time, which one names the motion of each row, and in which order rows stand."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.errors import UsageError
from dynid.base.overview import few
from dynid.base.records import dataclass
from dynid.base.units import is_unit_of
from dynid.layouts.decision import Answers, Decision, Option, decided
from dynid.layouts.excerpt import Excerpt
from dynid.layouts.meaning import TICKS, Meaning, words
from dynid.layouts.names import Family
from dynid.layouts.physics import runs_of, time_step
from dynid.layouts.row_order import order_by_time
from dynid.log.row_numbers import MOTION, ROW
from dynid.log.stamps import is_remainder, split_stamps
from dynid.log.time_order import misplaced_rows, stretches_stand_alone

# Time stamps of the years 2001 to 2039, s since 1970.
EPOCH = (1e9, 2.2e9)
THOUSANDTHS = (1e-3, 1e-6, 1e-9)
# Clocks are one where their rates differ by less than this share, and no reading by more than this share of a step.
SAME_RATE, APART = 1e-3, 0.2
# Beside the time at which a message was recorded, its own.
_OF_MESSAGES = {"stamp", "header"}
SORT = "log.sort"
_LETTERS_OF_A_SERIES = 2  # beside t
_ROWS_OF_RUN = 10  # in the mean between two at which a clock runs back, at least


@dataclass(frozen=True)
class Clock:
    """The time column and the runs of rows that it makes.    step: median, in its own unit.

    sort: whether rows are to be put in the order of their times; None = they stand in it.
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
        """Whether rows are counted in place of a time."""
        return self.column.likely and self.step == 1.0


def choose_clock(log: Excerpt, alone: Sequence[tuple[str, Meaning]], answers: Answers) -> Clock:
    """Time, and the column that names the motion of each row."""
    labels_by_name = {name: one for name, one in alone if one.quantity == "trajectory"}
    sums = {whole: pair for whole, pair in split_stamps(log.names).items() if whole in log.numeric}
    halves = {part for pair in sums.values() for part in pair}
    times = {
        name: one
        for name, one in alone
        if one.quantity == "time"
        and name in log.numeric
        and name not in halves
        and not _of_a_series(name, log.names)
    }
    times |= dict.fromkeys(sums, Meaning("time", "measured", "s", "name"))
    first = log.numeric[0] if log.numeric else ""
    if not times and is_unit_of(first, "time"):  # a line of units in place of names
        times = {first: Meaning("time", "", first, "name")}
    if log.bag:
        times = {"t": Meaning("time", "measured", "s", "bags: stamps of the messages' headers")}
    answer = answers.get("log.time.column")
    if answer is not None and not log.bag:
        times |= {answer: times.get(answer, Meaning("time", said_by="name"))} if answer in log.numeric else {}
    # What lasts, starts or ends is a clock where nothing else is one.
    spare = {name for name, one in times.items() if one.role == "spare" and name != answer}
    plain = {name: one for name, one in times.items() if name not in spare}
    looked = _looked_at(log, plain, labels_by_name, answers)
    restless = {one[0] for one in looked if one[0] != answer and _is_restless(log, one[0])}
    looked = [one for one in looked if one[0] not in restless] or looked
    if not looked:
        looked = _looked_at(log, {name: times[name] for name in spare}, labels_by_name, answers, spare)
        looked = [one for one in looked if not _is_restless(log, one[0])]
    if answer is not None and answer not in [one[0] for one in looked]:
        raise UsageError(
            "unknown-answer",
            found=f"log.time.column = {answer}, "
            + ("which does not ascend" if answer in log.names else "no column"),
            expected=f"a column of ascending numbers, or '{ROW}' to count rows",
        )
    # Ticks are a clock where nothing else is one.
    looked = [one for one in looked if one[0] == answer or not set(words(one[0])) & TICKS] or looked
    column = _time_column(log, looked, answers)
    chosen = next((one for one in looked if one[0] == column.value), None)
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
    if misplaced_rows(t):  # whoever reads the log puts them in order
        log.put_in_order(order)
        t = t[order]
        return Clock(column, meaning, _trajectory(log, t, None, answers), runs_of(t), step, float(t[0]))
    moved = int(np.sum(order != np.arange(len(t))))
    log.put_in_order(order)
    t = t[order]
    why = f"rows do not stand in the order of time ({moved} of the first {len(t)}); by their stamps they are smooth"
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
    """Columns that ascend as a clock does: name, meaning, column that names motions, runs, step and beginning.

    spare: those by which rows are not sorted.
    """
    stated, looked = log.contents.trajectory, []
    for name, meaning in times.items():
        t = log.table([name])[:, 0]
        if is_remainder(t) or (set(words(name)) & TICKS and (np.diff(t) == 1.0).all()):
            continue
        best: tuple[str | None, tuple[tuple[int, int], ...]] = (None, runs_of(t))
        for label in [*([stated] if stated else []), *(one for one in labels_by_name if one != stated)]:
            if label in log.names and _explains(log, t, label):
                best = (label, runs_of(t, [str(one) for one in log.values([label])[label]]))
                break
        step = time_step(t, best[1])
        sole = len(times) == 1 and name not in spare
        if not np.isfinite(step) and sole and _order(log, name, t, answers) is not None:
            step = float(np.median(np.diff(np.sort(t))))
        if np.isfinite(step):
            looked.append((name, meaning, *best, step, float(t[0])))
    return looked


def _is_restless(log: Excerpt, name: str) -> bool:
    """Whether a column runs back every few rows."""
    t = log.table([name])[:, 0]
    return bool((np.diff(t) < 0).sum() * _ROWS_OF_RUN > len(t))


def _of_a_series(name: str, names: Sequence[str]) -> bool:
    """Whether the t of a name is one of several letters there, those of joints: "S pulse", "L pulse", "T pulse"."""
    spelt = words(name)
    if "t" not in spelt:
        return False
    place = spelt.index("t")
    others = [one for one in map(words, names) if one != spelt and len(one) == len(spelt)]
    alike = [one for one in others if one[:place] == spelt[:place] and one[place + 1 :] == spelt[place + 1 :]]
    letters = {one[place] for one in alike if len(one[place]) == 1 and one[place].isalpha()}
    return len(spelt) > 1 and len(letters) >= _LETTERS_OF_A_SERIES


def _order(log: Excerpt, name: str, t: Float, answers: Answers, spare: bool = False) -> Int | None:
    """The order that rows are to be put in, None where they are to stay as they are.

    spare: a column that may be no clock, and count down to an end: nothing is sorted by it unasked.
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
            Decision(key, None, ("no column of ascending numbers is called time or stamp",),
                     "which column is the time? A log without one needs one"), answers)  # fmt: skip
    sourced = [one for one in looked if one[1].said_by not in ("", "name")]
    # One that comes from a known recorder is its clock; the rest of the names are all "time".
    short = sourced if len(sourced) == 1 else list(looked)
    options = tuple(Option(one[0], f"steps of {one[4]:.6g}") for one in looked)
    own = [one for one in short if set(words(one[0])) & _OF_MESSAGES]
    if len(short) > 1 and len(own) == 1 and all(map(_since_1970, (one[5] for one in short))):
        others = ", ".join(one[0] for one in short if one is not own[0])
        why = f"the stamp of the messages; it ascends by {own[0][4]:.6g}, as {others} does"
        return decided(Decision(key, own[0][0], (why,), options=options, likely=True), answers)
    if len(short) > 1 and _run_alike(log.table([one[0] for one in short])):
        others = ", ".join(one[0] for one in short[1:])
        why = f"it runs as {others} {'does' if len(short) == 2 else 'do'}: one of them is enough"
        return decided(Decision(key, short[0][0], (why,), options=options, likely=True), answers)
    if len(short) > 1:
        return decided(
            Decision(key, None, ("several columns ascend as a clock does",), "which is the clock?", options),
            answers,
        )
    said = short[0][1].said_by
    why = "its name" if said == "name" else said
    return decided(
        Decision(key, short[0][0], (f"{why}; it ascends by {short[0][4]:.6g}",), options=options), answers
    )


def _since_1970(first: float) -> bool:
    """Whether a time counts s, ms, us or ns since then."""
    return any(EPOCH[0] < first * size < EPOCH[1] for size in (1.0, *THOUSANDTHS))


def _run_alike(times: Float) -> bool:
    """Whether clocks (T, k) differ by where they start and by a thousand or a million alone."""
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
    """Whether each name stands in one piece of ascending time: the motions of a log."""
    names = [str(one) for one in log.values([label])[label]]
    edges = [0, *(k for k in range(1, len(names)) if names[k] != names[k - 1])]
    if len({names[k] for k in edges}) < len(edges) or len(edges) > len(names) / 10:
        return False
    return all(
        bool((np.diff(t[a:b]) >= 0).all()) for a, b in zip(edges, [*edges[1:], len(names)], strict=True)
    )


def _trajectory(log: Excerpt, t: np.ndarray, label: str | None, answers: Answers) -> Decision:
    key = "log.trajectory"
    if label is not None:
        why = ("it names the motions, each in one piece of ascending time",)
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
        stretches = f"time runs back at row {rows}: each stretch is a motion"
        return Decision(key, MOTION, (stretches,), optional=True, likely=True)
    if len(back):
        text = f"time runs back at {len(back)} row(s), first at row {int(back[0]) + 1}, and no column names motions; "
        text += "sorted by time the signals are no smoother, or two rows have one time"
        question = (
            "which column names the motion of each row? Or answer log.sort=true: rows are only out of order"
        )
        return decided(Decision(key, None, (text,), question), answers)
    return decided(Decision(key, None, ("time ascends throughout: one motion",), optional=True), answers)


def on_rows_of_positions(
    look: Excerpt, clock: Clock, chosen: Mapping[str, Family]
) -> tuple[Clock, frozenset[str]]:
    """The clock of the rows with positions, to whose times channels in other rows are brought, and which those are."""
    if "position" not in chosen or clock.column.value is None or clock.counted or len(clock.runs) != 1:
        return clock, frozenset()
    rows = {kind: np.isfinite(look.table(one.columns)).any(axis=1) for kind, one in chosen.items()}
    there = rows.pop("position")
    apart = [kind for kind, own in rows.items() if 2 * (there & own).sum() < there.sum()]
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
