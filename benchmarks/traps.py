"""Wrong inputs that look like robots: are they noticed?  Five simulated robots, thirteen faults, clean logs besides.

    python benchmarks/traps.py [--seeds 20] [--clean 100] [--first 0] [--workers 2] [--part 1/1] [--out traps.jsonl]
                               [--bare] [--auto] [--more]

Every model has masses, centres and inertias 20 to 30 % off; every log has encoder steps, torque noise and friction that
the model does not contain exactly (dynid.testing.faults). A fault is named if the run stops, doubts or warns with one
of the words that mean it, noticed if it does so at all or the verdict is not "good", silent otherwise; stops, doubts
and warnings are counted apart. Runs that are in --out already are not repeated. --bare: models without inertias.
--auto: the model is left to the data, as it is without an experiment file. --more: ten further faults in place of the
thirteen, those of torque's size on models up to 15 % off; a gain is found with --auto alone. --first: first seed.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import Row, campaign, parser

from dynid.testing.faults import BY_NAME, CLEAN, FAULTS, FURTHER, kind, outcome
from dynid.testing.machines import MACHINES

Job = tuple[str, str, int, bool, bool]


def work(job: Job) -> Row:
    """One run of the campaign."""
    name, fault, seed, known, auto = job
    result = outcome(MACHINES[name], BY_NAME[fault], seed, known, auto)
    return {"robot": name, "fault": fault, "seed": seed, "known": known, "auto": auto} | result


def jobs(seeds: int, clean: int, known: bool, auto: bool, more: bool, first: int) -> Iterator[Job]:
    """All runs: seeds of every fault, and clean ones, on every robot.    first: seed."""
    names = [fault.name for fault in (FURTHER if more else FAULTS)]
    for count, name, fault in product(range(max(seeds, clean)), MACHINES, [*names, CLEAN]):
        if count < (clean if fault == CLEAN else seeds):
            yield name, fault, first + count, known, auto


def loudest(result: Mapping[str, Any]) -> str:
    """How a log was answered: stopped, doubted, warned or ""."""
    return (
        "stopped"
        if result["stop"]
        else "doubted"
        if result["doubted"]
        else "warned"
        if result["warned"]
        else ""
    )


def table(results: Sequence[Row]) -> Iterator[str]:
    """Shares by fault over all robots, and every silent or wrongly stopped run."""
    titles = ("stopped", "doubted", "warned", "named", "noticed")
    yield f"{'fault':<16}{'severity':<20}{'runs':>6}" + "".join(f"{t:>9}" for t in titles) + f"{'silent':>8}"
    for fault in (*FAULTS, *FURTHER):
        runs = [r for r in results if r["fault"] == fault.name]
        if runs:
            kinds, loud = Counter(map(kind, runs)), Counter(map(loudest, runs))
            counts = [*(loud[title] for title in titles[:3]), kinds["named"], len(runs) - kinds["silent"]]
            yield (
                f"{fault.name:<16}{fault.severity:<20}{len(runs):>6}"
                + "".join(f"{100 * count / len(runs):>7.1f} %" for count in counts)
                + f"{kinds['silent']:>8}"
            )
    clean = [r for r in results if r["fault"] == CLEAN]
    if clean:
        kinds = Counter(map(kind, clean))
        stopped, doubted = (
            f"{kinds[k]} ({100 * kinds[k] / len(clean):.2g} %)" for k in ("stopped", "doubted")
        )
        yield (
            f"clean logs: {len(clean)}; stopped {stopped}, doubted {doubted}, warned or not 'good' {kinds['warned']}"
        )


def details(results: Sequence[Row]) -> list[str]:
    """What was reported instead, for every run that was not named, and for every clean one that did not pass."""
    counts: Counter[str] = Counter()
    for r in results:
        if kind(r) not in ("named", "passed"):
            answer = r["stop"] or ", ".join([*r["doubted"], *r["warned"]]) or f"verdict {r['level']}"
            counts[f"{kind(r):<8}{r['fault']:<16}{r['robot']:<7} {answer}"] += 1
    return [f"{count:>4} x {name}" for name, count in sorted(counts.items())]


def main() -> None:
    """Runs what is missing and prints the table."""
    given = parser(
        __doc__,
        seeds=20,
        clean=100,
        first=0,
        workers=2,
        part="1/1",
        out=Path,
        bare=False,
        auto=False,
        more=False,
    ).parse_args()
    wanted = jobs(given.seeds, given.clean, not given.bare, given.auto, given.more, given.first)
    results = campaign(
        {job: job for job in wanted},
        work,
        lambda r: (r["robot"], r["fault"], r["seed"], r["known"], r["auto"]),
        given,
    )
    print("\n".join([*table(results), "", *details(results)]))


if __name__ == "__main__":
    main()
