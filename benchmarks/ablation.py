"""What each family of rules is good for: the default identification without it.

    python benchmarks/ablation.py [--data FOLDER] [--out ablation.jsonl] [--logs real,strangers] [--families NAME,...]
                                  [--cases NAME,...] [--apart NAME,...] [--part 1/2]
    python benchmarks/ablation.py --table [--out ablation.jsonl]

Identifies logs with every rule, then with each family of `benchmarks/rule_families.py` switched off: five logs of real
robots (rows of benchmarks/real.py), ten plants that no threshold was developed on (benchmarks/strangers.py), and, with
--logs faults, logs with one fault each (benchmarks/doubts.py, benchmarks/traps.py). A family is worth its lines if
held-out errors grow without it, or if it alone names a fault.

All runs share one process and one thread, and stages before the first that a family changes are done once for all
families. --apart: families of which each rule is switched off by itself. --part: logs 1, 3, 5 ... of those asked for,
so that two processes may write to one file. Runs that are in --out already are not repeated. --table prints, by
family, the ratio of the held-out error without it to that with it (geometric mean, least and greatest), and on how many
logs parameters, verdict or findings change.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import DATA, ROOT, append, markdown, note, parser, part_of, rows_of

import numpy as np

import dynid
from benchmarks import doubts, lines, real, strangers
from benchmarks.rule_families import FAMILIES, Family, Stage
from dynid.base import Diagnostics, DynidError, Finding
from dynid.identification import Experiment, Settings, fitting, open_log, pipeline
from dynid.identification.logs import open_training
from dynid.log import Log, read_log
from dynid.robot import RobotModel
from dynid.run import Identification, validate
from dynid.testing.faults import FAULTS, FURTHER, Fault, faulty_log
from dynid.testing.machines import MACHINES

SOURCE = ROOT / "src" / "dynid"
REAL = (
    "tx40_lirmm robot.toml mapping.toml",
    "airbot_play robot.urdf mapping.toml",
    "lwr4_flobaroid robot_gaz.urdf mapping.toml",
    "krang_lwa3 robot.toml mapping.toml",
    "panda_gaz panda.toml mapping.toml",
)
# The first ten seeds from here on whose logs are short and of arms: nothing was developed on them.
FIRST_SEED, STRANGERS, LONGEST = 2_600_000, 10, 40.0
LEGGED = ("a1", "go2", "solo12")
SCORED = ("moves", "fourier")
FAULT_SEED, DOUBTED, TRAPPED = 2_600_000, ("so101", "ur5"), ("arm7",)
# Parameters that differ by less than this share are the same: summed in another order, for example.
SAME = 1e-6
# Ratios of errors within this of one are noise.
NOISE = 0.01
WITH_ALL = ""


@dataclass(frozen=True, eq=False)
class Opened:
    """What an identification begins with.

    held_out: what the result is scored on by `validate`; empty = by the identification itself.
    """

    robot: RobotModel
    log: Log
    settings: Settings
    validation: Log | None = None
    held_out: tuple[Log, ...] = ()
    notes: tuple[Finding, ...] = ()


@dataclass(frozen=True, eq=False)
class Case:
    """A log.    words: codes that name its fault; () = it has none."""

    kind: str
    name: str
    opened: Callable[[Path], Opened]
    words: tuple[str, ...] = ()


@dataclass
class Outcome:
    """One run.    errors: relative, in motion and over all samples, of each held-out motion.

    level, codes: of the verdict and of findings, where these were found out anew.
    changed: whether parameters differ from those with every rule; None = they are those.
    seconds, saved: of the processor, and less than with every rule.
    """

    family: str
    kind: str
    case: str
    errors: list[list[float]] = field(default_factory=list)
    level: str = ""
    codes: list[str] = field(default_factory=list)
    changed: bool | None = None
    seconds: float = 0.0
    saved: float = 0.0
    stop: str = ""
    named: bool | None = None


def real_cases(data: Path) -> Iterator[Case]:
    """Logs of real robots."""
    for row in real.cases(data):
        if row.name in REAL:
            yield Case("real", row.name, lambda _, row=row: _opened_real(row))


def _opened_real(row: real.Case) -> Opened:
    sink, experiment = Diagnostics(), Experiment.read(row.mapping)
    experiment, log = open_training(experiment, row.robot, [row.log], sink, None)
    apart = experiment.data.validate_on
    validation = open_log(experiment, [row.log], log.robot, apart, sink) if apart else None
    return Opened(log.robot, log, experiment.settings(), validation, notes=tuple(sink))


def stranger_cases() -> Iterator[Case]:
    """Plants that the model does not describe."""
    seed, count = FIRST_SEED, 0
    while count < STRANGERS:
        name, seconds = strangers.robot_and_seconds(seed)
        if seconds <= LONGEST and name not in LEGGED:
            yield Case("stranger", str(seed), lambda folder, seed=seed: _opened_stranger(seed, folder))
            count += 1
        seed += 1


def _opened_stranger(seed: int, folder: Path) -> Opened:
    case, sink, experiment = strangers.stranger(seed, folder), Diagnostics(), Experiment.read(None)
    experiment, log = open_training(experiment, case.robot, [case.log], sink, None)
    files = [case.other(kind, folder)[0] for kind in SCORED]
    held_out = tuple(open_log(experiment, [file], log.robot, (), sink) for file in files)
    return Opened(log.robot, log, experiment.settings(), held_out=held_out, notes=tuple(sink))


def fault_cases() -> Iterator[Case]:
    """Logs with one fault each."""
    for robot in DOUBTED:
        for doubt in doubts.FAULTS:
            words = (*doubt.words, *((doubt.unseen,) if doubt.unseen else ()))
            job = (robot, doubt.name, FAULT_SEED)
            yield Case(
                "fault", f"{robot}: {doubt.name}", lambda folder, job=job: _opened_doubt(job, folder), words
            )
    for name in TRAPPED:
        for trap in (*FAULTS, *FURTHER):
            yield Case(
                "fault",
                f"{name}: {trap.name}",
                lambda folder, name=name, trap=trap: _opened_trap(name, trap, folder),
                trap.words,
            )


def _opened_doubt(job: doubts.Job, folder: Path) -> Opened:
    robot, path, _ = doubts.written(job, folder)
    return Opened(robot, read_log(path, robot), Settings(automatic=True))


def _opened_trap(name: str, fault: Fault, folder: Path) -> Opened:
    robot, path = faulty_log(MACHINES[name], fault, FAULT_SEED, folder)
    return Opened(robot, read_log(path, robot), Settings(automatic=True))


def load_every_module() -> None:
    """Imports the package's rooms, so that no module takes its names while something is switched off."""
    for module in pkgutil.walk_packages(dynid.__path__, "dynid."):
        if not module.name.endswith("__main__"):
            try:
                importlib.import_module(module.name)
            except ImportError:
                continue  # of an optional dependency


def resolve(target: str) -> tuple[Any, str]:
    """The module, class or function that holds what a target names, and the name there."""
    module, _, path = target.partition(":")
    owner: Any = importlib.import_module(module)
    *parents, name = path.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    getattr(owner, name)
    return owner, name


@contextmanager
def replaced(patches: Mapping[str, Any]) -> Iterator[None]:
    """With other values in place of some functions, methods or constants, wherever modules imported them."""
    undo: list[Callable[[], None]] = []
    try:
        for target, value in patches.items():
            owner, name = resolve(target)
            places = [owner]
            if "." not in target.partition(":")[2]:
                original = getattr(owner, name)
                modules = [
                    m for key, m in list(sys.modules.items()) if key.startswith("dynid") and m is not owner
                ]
                places += [m for m in modules if vars(m).get(name) is original]
            for place in places:
                undo.append(_restoring(place, name))
                setattr(place, name, value)
        yield
    finally:
        for restore in reversed(undo):
            restore()


def _restoring(place: Any, name: str) -> Callable[[], None]:
    if name not in vars(place) and isinstance(place, type):
        return lambda: delattr(place, name)
    original = vars(place)[name] if isinstance(place, type) else getattr(place, name)
    return lambda: setattr(place, name, original)


class Bench:
    """A case, and the stages of its identification with every rule."""

    def __init__(self, case: Case, folder: Path) -> None:
        self.case = case
        self.opened = case.opened(folder)
        self.kept: dict[str, list[Kept]] = {}
        self.parameters: dict[str, float] = {}
        self.with_all = Outcome(WITH_ALL, case.kind, case.name)
        self.with_all = self.run(WITH_ALL, Stage.READ, {})

    def run(self, name: str, stage: Stage, patches: Mapping[str, Any]) -> Outcome:
        """Identifies from a stage on with some rules replaced, and compares with the run that has them all."""
        outcome = Outcome(name, self.case.kind, self.case.name)
        sink, opened = Diagnostics(list(self.opened.notes)), self.opened
        result: Identification | None = None
        stages = _Stages(self, name, stage)
        with replaced(patches), stages.watched():
            started = time.process_time()
            try:
                result = pipeline.identify(
                    opened.robot,
                    opened.log,
                    opened.settings,
                    validation=opened.validation,
                    threads=1,
                    diagnostics=sink,
                )
            except Unchanged:
                return self._as_with_all(name, stages, time.process_time() - started)
            except DynidError as error:
                outcome.stop = error.identifier
            except Exception as error:  # of what other rules rest on
                outcome.stop = f"internal: {type(error).__name__}"
            outcome.seconds, outcome.saved = time.process_time() - started, stages.saved
            self._compare(outcome, result, sink, stages)
        return outcome

    def _as_with_all(self, name: str, stages: _Stages, seconds: float) -> Outcome:
        return replace(self.with_all, family=name, changed=False, seconds=seconds, saved=stages.saved)

    def _compare(
        self, outcome: Outcome, result: Identification | None, sink: Diagnostics, stages: _Stages
    ) -> None:
        # While rules are still replaced: held-out logs are read by them as well.
        residual = () if result is None else result.residual_findings
        if stages.judges:
            outcome.codes = sorted(
                {f"{item.level} {item.code} {item.place.joint or ''}".strip() for item in sink}
                | {f"residual {item.level} {item.code} {item.joint}".strip() for item in residual}
            )
            outcome.level = "" if result is None else str(result.verdict.level)
        if self.case.words:
            loud = {item.code for item in sink if item.level != "note"} | {outcome.stop}
            loud |= {item.code for item in residual if item.level == "warning"}
            noted = {item.code for item in sink} & {doubt.unseen for doubt in doubts.FAULTS}
            outcome.named = bool((loud | noted) & set(self.case.words))
        if result is None:
            return
        parameters = _values(result.estimate)
        if outcome.family == WITH_ALL:
            self.parameters = parameters
        else:
            outcome.changed = not _same(self.parameters, parameters)
        if self.case.kind == "fault":
            return
        if not self.opened.held_out:
            outcome.errors = [_scores(validation.scores) for validation in result.validations[:1]]
        elif stages.first > Stage.PRIOR and not stages.reads:
            outcome.errors = self.with_all.errors
        else:
            outcome.errors = [
                _scores(validate(result, log, Diagnostics(), 1).scores) for log in self.opened.held_out
            ]


class Unchanged(Exception):
    """The parameters are those with every rule, and what follows would be as well."""


@dataclass(frozen=True, eq=False)
class Kept:
    """What a function gave in the run with every rule.

    key: of its arguments.    added: to the diagnostics.    seconds: that it took.
    """

    key: Any
    given: Any
    added: tuple[Finding, ...]
    seconds: float


# Steps of a fit that may be replayed within it.
WITHIN_FIT = ("choose_model", "fit_nonlinear", "relinearised")


class _Stages:
    """Keeps what the stages give in the run with every rule, and gives it again where it would be the same.

    first: the first stage that is run anew.    saved: processor time less than with every rule, s, of what was run.
    judges: whether what is said of residuals is found out.
    """

    def __init__(self, bench: Bench, name: str, first: Stage) -> None:
        self.bench, self.first, self.with_all = bench, first, name == WITH_ALL
        self.reads = first == Stage.READ
        self.judges = self.with_all or first == Stage.JUDGE or bench.case.kind == "fault"
        self.saved = self.replayed = 0.0

    @contextmanager
    def watched(self) -> Iterator[None]:
        """With the stages of the pipeline in its place."""
        watched = [
            (pipeline, "read_data", Stage.READ),
            (pipeline, "fit_sound", Stage.PRIOR),
            (fitting, "choose_model", Stage.FIT),
            (fitting, "fit_nonlinear", Stage.FIT),
            (fitting, "relinearised", Stage.FIT),
            (pipeline, "hold_out_blocks", Stage.PRIOR),
            (pipeline, "score_held_out_log", Stage.PRIOR),
            (pipeline, "examine", Stage.JUDGE),
        ]
        undo = [_restoring(module, name) for module, name, _ in watched]
        for module, name, stage in watched:
            setattr(module, name, self._watching(getattr(module, name), name, stage))
        try:
            yield
        finally:
            for restore in undo:
                restore()

    def _watching(self, function: Callable[..., Any], name: str, stage: Stage) -> Callable[..., Any]:
        def watching(*args: Any, **more: Any) -> Any:
            if name == "examine" and not self.judges:
                return tuple
            if name == "hold_out_blocks" and self.bench.opened.held_out and not self.judges:
                return ()
            sink = next((sink for sink in map(_sink_of, args) if sink is not None), None)
            key = args[0] if name in ("fit_nonlinear", "relinearised") and stage is Stage.FIT else None
            if name == "relinearised":
                key = args[1].terms
            kept = [entry for entry in self.bench.kept.get(name, ()) if entry.key == key]
            read_anew = self.reads and name == "score_held_out_log"
            if kept and self.first > stage and not read_anew:
                if name in WITHIN_FIT:
                    self.replayed += kept[0].seconds
                if sink is not None:
                    sink.extend(Diagnostics(list(kept[0].added)))
                return kept[0].given
            before = [] if sink is None else list(sink)
            started = time.process_time()
            given = function(*args, **more)
            seconds = time.process_time() - started
            if self.with_all:
                added = () if sink is None else tuple(item for item in sink if item not in before)
                self.bench.kept.setdefault(name, []).append(Kept(key, given, added, seconds))
            elif kept and name in ("read_data", "fit_sound", "examine"):
                self.saved += kept[0].seconds - seconds - self.replayed
                self.replayed = 0.0
            if name == "read_data" and self.reads and kept and _alike(given, kept[0].given):
                self.first, self.judges = Stage.NONE, True
            refitted = name == "fit_sound" and not self.judges and not self.reads and bool(kept)
            if refitted and _same(_values(given[1].estimate), _values(kept[0].given[1].estimate)):
                raise Unchanged
            return given

        return watching


def _sink_of(argument: Any) -> Diagnostics | None:
    sink = getattr(argument, "diagnostics", argument)
    return sink if isinstance(sink, Diagnostics) else None


def _values(estimate: Any) -> dict[str, float]:
    names = [column.name for column in estimate.columns]
    return dict(zip(names, np.asarray(estimate.parameters).tolist(), strict=True))


def _alike(data: Any, other: Any) -> bool:
    """Whether two readings of a log have the same samples, filters and blocks."""
    return bool(_sums(data) == _sums(other))


def _sums(data: Any) -> list[Any]:
    sums = [repr(data.prepared.settings), data.prepared.slowness, data.blocks.seconds, sorted(data.repeated)]
    for samples in data.batches:
        sums.append((len(samples), samples.trajectory, int(samples.keep.sum())))
        sums += [float(np.sum(line)) for line in (samples.t, samples.q, samples.dq, samples.ddq, samples.tau)]
        sums.append(None if samples.gate is None else int(samples.gate.sum()))
    return sums


def _scores(scores: Any) -> list[float]:
    whole = scores.all_samples or scores
    return [float(scores.total_relative), float(whole.total_relative)]


def _same(parameters: Mapping[str, float], others: Mapping[str, float]) -> bool:
    if parameters.keys() != others.keys():
        return False
    values, other = (np.array(list(group.values())) for group in (parameters, others))
    return bool(np.allclose(values, other, rtol=SAME, atol=1e-9, equal_nan=True))


def runs_of(
    families: Sequence[Family], apart: Sequence[str]
) -> Iterator[tuple[str, Stage, Mapping[str, Any]]]:
    """Names, stages and patches of what is switched off at once.    apart: families of which it is each rule."""
    for family in families:
        if family.name not in apart:
            yield family.name, family.stage, family.patches
        else:
            for rule, patches in family.rules.items():
                yield f"{family.name} / {rule}", family.stage, patches


def code_lines(place: str) -> int:
    """Lines of code of a file below src/dynid, or of what it names after a colon."""
    path, _, name = place.partition(":")
    text = (SOURCE / path).read_text()
    if name:
        node: Any = ast.parse(text)
        for part in name.split("."):
            node = next(child for child in node.body if getattr(child, "name", "") == part)
        rows = text.splitlines()[node.lineno - 1 : node.end_lineno]
        indent = len(rows[0]) - len(rows[0].lstrip())
        text = "\n".join(row[indent:] for row in rows)
    return lines.measured(text)["code"]


def ratios(outcomes: Sequence[Mapping[str, Any]], base: Mapping[str, Mapping[str, Any]]) -> list[float]:
    """By log, error in motion over that with every rule; a log that stops is left out."""
    by_log = []
    for outcome in outcomes:
        pairs = list(zip(outcome["errors"], base[outcome["case"]]["errors"], strict=False))
        if pairs:
            by_log.append(float(np.exp(np.mean([np.log(off[0] / on[0]) for off, on in pairs]))))
    return by_log


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """A line for each family."""
    base = {row["case"]: row for row in rows if row["family"] == WITH_ALL}
    head = ("family", "lines", "real", "strangers", "logs that change", "faults named", "seconds saved")
    table_rows = []
    names = {family.name: family for family in FAMILIES}
    for name in dict.fromkeys(row["family"] for row in rows if row["family"] != WITH_ALL):
        outcomes = [row for row in rows if row["family"] == name and row["case"] in base]
        family = names.get(name)
        cells = [name, str(sum(map(code_lines, family.files))) if family else ""]
        for kind in ("real", "stranger"):
            cells.append(_cell(ratios([row for row in outcomes if row["kind"] == kind], base)))
        changed = sum(bool(row["changed"]) for row in outcomes)
        judged = [row for row in outcomes if row["level"]]
        levels = sum(row["level"] != base[row["case"]]["level"] for row in judged)
        codes = sum(row["codes"] != base[row["case"]]["codes"] for row in judged)
        stops = sum(bool(row["stop"]) and not base[row["case"]]["stop"] for row in outcomes)
        cells.append(
            f"{changed} / {levels} / {codes} of {len(outcomes)}" + (f", {stops} stop" if stops else "")
        )
        faults = [row for row in outcomes if row["named"] is not None]
        before = [bool(base[row["case"]]["named"]) for row in faults]
        lost = [row["case"] for row, named in zip(faults, before, strict=True) if named and not row["named"]]
        gained = sum(row["named"] and not named for row, named in zip(faults, before, strict=True))
        cells.append(f"-{len(lost)} +{gained} of {len(faults)}" if faults else "")
        cells.append(f"{sum(row['saved'] for row in outcomes):.1f}")
        table_rows.append(cells)
    return markdown(head, table_rows)


def _cell(values: Sequence[float]) -> str:
    if not values:
        return "-"
    mean = float(np.exp(np.mean(np.log(values))))
    return f"{mean:.3f} ({min(values):.3f} to {max(values):.3f})"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs what is missing, or prints the table."""
    options = parser(
        __doc__, data=DATA, out=Path("ablation.jsonl"), logs="real,strangers", cases="", families="", apart="",
        part="1/1", table=False,
    )  # fmt: skip
    given = options.parse_args(arguments)
    rows = rows_of(given.out)
    if given.table:
        print(table(rows))
        return 0
    asked, apart = (
        [name.strip() for name in text.split(",") if name] for text in (given.families, given.apart)
    )
    names = [family.name for family in FAMILIES]
    if unknown := {*asked, *apart} - set(names):
        options.error(f"no family {', '.join(sorted(unknown))}; those there are: {', '.join(names)}")
    families = sorted(FAMILIES, key=lambda family: asked.index(family.name) if family.name in asked else -1)
    families = [family for family in families if not asked or family.name in asked]
    makers = {"real": lambda: real_cases(given.data), "strangers": stranger_cases, "faults": fault_cases}
    cases = [case for kind in given.logs.split(",") for case in makers[kind]()]
    cases = [case for case in cases if any(part in case.name for part in given.cases.split(","))]
    load_every_module()
    done = {(row["family"], row["case"]) for row in rows}
    wanted = list(runs_of(families, apart))
    with tempfile.TemporaryDirectory() as scratch:
        benches = []
        for k, case in enumerate(part_of(cases, given.part)):
            if all((name, case.name) in done for name, _, _ in wanted):
                continue
            folder = Path(scratch) / str(k)
            folder.mkdir()
            try:
                bench = Bench(case, folder)
            except DynidError as error:  # stopped while it is opened, which no family here changes
                note(f"{case.name}: stopped by {error.identifier}")
                continue
            benches.append(bench)
            if (WITH_ALL, case.name) not in done:
                _write(given.out, bench.with_all)
        for name, stage, patches in wanted:
            for bench in benches:
                if (name, bench.case.name) not in done:
                    _write(given.out, bench.run(name, stage, patches))
    return 0


def _write(path: Path, outcome: Outcome) -> None:
    append(path, asdict(outcome))
    errors = ", ".join(f"{100 * error[0]:.3f}" for error in outcome.errors)
    print(
        f"{outcome.family or 'with all'}: {outcome.case}: {outcome.stop or outcome.level}, {errors} %"
        f"{', changed' if outcome.changed else ''}"
        f"{'' if outcome.named is None else ', named' if outcome.named else ', not named'}, {outcome.seconds:.1f} s",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
