"""Payloads of known mass: real pairs of logs with and without a load, and how often intervals hold simulated ones.

    python benchmarks/payload.py [--data FOLDER] [--cases 500] [--first 0] [--out payload-results]
                                 [--part ur10e|airbot|simulated]

ur10e: every pair of a log without a load and one with it of `ur10e_innopolis/id/*`, identified by default (De Luca's
gains beside the description robot.urdf), the scale once the description's masses, once the declared gains. The load
of `*Load` weighs 2.805 kg; of two further logs, whose load nobody states, the name of one says 2.600 kg. Damaged rows
of one log are left out by its window.
airbot: chirp and chirp_loaded with robot.urdf; the load weighs 0.48 kg as its configuration says.
simulated: arms of dynid.testing.plants by pinocchio, with flexibility, hysteresis, cables, ripple, warming, stale
samples and coarse encoders that the model lacks. Drawn anew for each case: gains off by 5 % a joint (one standard
deviation) and by 1 % between the two logs, friction by 10 % between them, a lean, described masses, centres and
inertias off by 5 %, mass (3 to 15 % of the arm's), centre and inertia of the load. Half of the cases declare their
gains, half have the description's masses as scale. Printed: how many intervals of the mass, and of the centre's
coordinates, hold the truth.

Results are kept a line a case in --out, and a run that was cut off goes on where it was; times are processor time.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import DATA, Row, append, parser, rows_of

import numpy as np
import pinocchio as pin

from dynid.base import Diagnostics, DynidError, Float
from dynid.identification import Experiment, Settings, identify, open_log
from dynid.log import Log, Selection
from dynid.robot import RobotModel, load_robot
from dynid.run import Identification
from dynid.spatial import from_com, to_com
from dynid.testing import Plant, Recorded, Unmodelled, plant, record
from dynid.verbs.payload import Payload, find_payload
from dynid.verbs.payload_fit import ScaleRule

GAINS = (14.87, 13.26, 11.13, 10.62, 11.03, 11.47)  # N m/A at the joints of a UR10e, De Luca's
LOADED = {
    "id/ur-20_02_19_14harm50secLoad": 2.805,
    "id/ur-20_02_19_15harm50secLoad": 2.805,
    "id/ur-20_01_31-load": np.nan,  # not stated
    "id/ur-20_01_13-load_2600": 2.6,  # by its name alone
}
KNOWN = 2.805  # kg
WINDOWS = {"id/ur-20_02_19_15harm50secLoad": (4.0, 60.0)}  # s; its first rows are damaged
AIRBOT = 0.48  # kg
COLUMNS = """
[log]
time = {{ column = "t", unit = "s" }}
trajectory = "traj"
position = {{ columns = "q{{number}}", unit = "rad" }}
{velocity}effort = {{ columns = "{effort}{{number}}", unit = "{unit}" }}
{robot}"""
ARMS = ("ur5", "ur10", "xarm7", "z1")
SECONDS = 20.0
GAIN, DRIFT, FRICTION, DESCRIBED = 0.05, 0.01, 0.1, 0.05  # standard deviations of what differs, relative
LOADS = (0.03, 0.15)  # of the arm's mass
LEAN = np.deg2rad(0.3)


# Cases by name, each made when it is run.
Cases = Iterator[tuple[str, Callable[[], Any]]]


def main() -> None:
    """Runs what is not there yet, then prints all."""
    options = parser(__doc__, data=DATA, cases=500, first=0, out=Path("payload-results"), print=False)
    options.add_argument("--part", choices=("ur10e", "airbot", "simulated"), action="append")
    given = options.parse_args()
    parts: dict[str, tuple[Callable[[], Cases], Callable[[Any], None]]] = {
        "ur10e": (lambda: ur10e(given.data), print_ur10e),
        "airbot": (lambda: airbot(given.data), print_airbot),
        "simulated": (lambda: simulated(given.first, given.cases), print_simulated),
    }
    given.out.mkdir(parents=True, exist_ok=True)
    for name, (cases, show) in parts.items():
        if given.part and name not in given.part:
            continue
        file = given.out / f"{name}.jsonl"
        known = {row["case"] for row in rows_of(file)}
        for case, run in () if given.print else cases():
            if case not in known:
                append(file, measured(case, run))
        rows = rows_of(file)
        print(
            f"\n== {name}: {len(rows)} cases, {sum(r['processor_s'] for r in rows):.0f} s of processor time"
        )
        if rows:
            show(rows)


def measured(case: str, run: Callable[[], Any]) -> Row:
    """The row of a case: what it gives, or the error that ended it."""
    started = time.process_time()
    try:
        row = run()
    except DynidError as error:
        row = {"error": str(error)}
    return row | {"case": case, "processor_s": time.process_time() - started}


def ur10e(data: Path) -> Cases:
    """Every pair; a log without load is identified once and used with all loaded ones."""
    file, robot_file = data / "ur10e_innopolis" / "data.parquet", data / "ur10e_innopolis" / "robot.urdf"
    if not file.exists():
        print(f"no {file}: skipped")
        return
    import pyarrow.parquet as pq

    names = dict.fromkeys(pq.read_table(file, columns=["traj"])["traj"].to_pylist())
    robot = load_robot(robot_file)
    gains = dict(enumerate(GAINS))
    robot = replace(robot, drive=robot.drive.with_constants(drive_gain=gains))
    with tempfile.TemporaryDirectory() as folder:
        mapping = Path(folder) / "mapping.toml"
        velocity = 'velocity = { columns = "dq{number}", unit = "rad/s" }\n'
        mapping.write_text(COLUMNS.format(velocity=velocity, effort="i", unit="A", robot=""))
        experiment = Experiment.read(mapping)

        def opened(name: str) -> Any:
            entry = Selection(name, window=WINDOWS[name]) if name in WINDOWS else name
            return open_log(experiment, [file], robot, [entry], Diagnostics())

        for free in (name for name in names if name.startswith("id/") and name not in LOADED):
            runs: dict[str, Identification] = {}

            def pair(free: str = free, loaded: str = "", runs: dict[str, Identification] = runs) -> Any:
                if free not in runs:
                    runs[free] = identify(robot, opened(free), threads=1)
                row: dict[str, Any] = {"loaded": loaded, "free": free}
                for rule in ScaleRule:
                    logs = {"unloaded": opened(free), "scale": rule, "threads": 1}
                    row[rule.value] = summary(find_payload(runs[free], opened(loaded), **logs))
                return row

            for loaded in LOADED:
                yield f"{free} {loaded}", lambda pair=pair, loaded=loaded: pair(loaded=loaded)


def summary(payload: Payload) -> dict[str, Any]:
    """What is printed of a payload."""
    return {
        "mass": payload.mass,
        "half": float(payload.half_width()[0]),
        "interval": payload.interval()[0].tolist(),
        "by_scale": payload.scale_half_width(),
        "centre": payload.centre.tolist(),
        "centre_half": payload.half_width()[1:4].tolist(),
        "scale": payload.scale.factor.tolist(),
        "scale_half": payload.scale.half_width.tolist(),
        "described": None if np.isnan(payload.scale.described) else payload.scale.described,
        "views": [[view.value, mass, half] for view, mass, half in payload.views],
        "relative": payload.relative,
    }


def print_ur10e(rows: list[Any]) -> None:
    """A line a pair, then the median and how many intervals hold the known mass."""
    for row in rows:
        if "error" in row:
            print(f"{row['case']:70s} {row['error']}")
            continue
        line = f"{row['loaded'][6:]:26s} {row['free'][6:]:22s}"
        for rule in ScaleRule:
            result = row[rule.value]
            covers = (
                "" if np.isnan(LOADED[row["loaded"]]) else f" {'holds' if holds(result, row) else 'MISSES'}"
            )
            line += f" {rule.value} {result['mass']:.3f} +- {result['half']:.3f}{covers},"
        print(line)
    sound = [row for row in rows if "error" not in row]
    for mass in (KNOWN, 2.6):
        pairs = [row for row in sound if LOADED[row["loaded"]] == mass]
        for rule in ScaleRule:
            masses = [row[rule.value]["mass"] for row in pairs]
            hits = sum(holds(row[rule.value], row) for row in pairs)
            agree = sum(overlap(row[rule.value]) for row in pairs)
            if pairs:
                print(
                    f"{mass} kg, {rule.value}: median {np.median(masses):.3f} kg "
                    f"({100 * (np.median(masses) / mass - 1):+.1f} %), {min(masses):.3f} to {max(masses):.3f}; "
                    f"{hits} of {len(pairs)} intervals hold it ({100 * hits / len(pairs):.0f} %); "
                    f"views overlap in {agree}"
                )


def holds(result: Any, row: Any) -> bool:
    """Whether an interval holds the mass that is known."""
    return bool(result["interval"][0] <= LOADED[row["loaded"]] <= result["interval"][1])


def overlap(result: Any) -> bool:
    """Whether the intervals of the parts of the evidence have a common point."""
    low = max(mass - half for _, mass, half in result["views"])
    return bool(low <= min(mass + half for _, mass, half in result["views"]))


def airbot(data: Path) -> Cases:
    """The one pair, by both scales."""
    file, robot_file = data / "airbot_play" / "data.parquet", data / "airbot_play" / "robot.urdf"
    if not file.exists():
        print(f"no {file}: skipped")
        return
    robot = load_robot(robot_file)
    with tempfile.TemporaryDirectory() as folder:
        mapping = Path(folder) / "mapping.toml"
        mapping.write_text(COLUMNS.format(velocity="", effort="tau", unit="N m", robot=""))
        experiment = Experiment.read(mapping)
        free, loaded = (
            open_log(experiment, [file], robot, [name], Diagnostics()) for name in ("chirp", "chirp_loaded")
        )

        def run(rule: ScaleRule) -> Any:
            run = identify(robot, free, threads=1)
            payload = find_payload(run, loaded, unloaded=free, scale=rule, threads=1)
            return summary(payload) | {"explains": payload.explaining(AIRBOT)}

        for rule in (ScaleRule.DESCRIPTION, ScaleRule.GAINS):
            yield rule.value, lambda rule=rule: run(rule)


def print_airbot(rows: list[Any]) -> None:
    """The three views, and the factor of torque that would explain the mass of the configuration."""
    for row in rows:
        if "error" in row:
            print(row)
            continue
        views = ", ".join(f"{view} {mass:.3f} +- {half:.3f}" for view, mass, half in row["views"])
        factor, low, high = row["explains"]
        print(
            f"{row['case']}: {row['mass']:.3f} kg ({row['interval'][0]:.3f} to {row['interval'][1]:.3f}); {views}; "
            f"{'overlap' if overlap(row) else 'NO OVERLAP'}; torques {factor:.2f} ({low:.2f} to {high:.2f}) times as "
            f"great would explain {AIRBOT} kg; scale {np.round(row['scale'], 2).tolist()}"
        )


def simulated(first: int, cases: int) -> Cases:
    """Cases by their number, each with a seed of its own."""
    for number in range(first, first + cases):
        yield str(number), lambda number=number: one_case(number)


def one_case(number: int) -> Any:
    """One arm, two logs, one load."""
    rng = np.random.default_rng([17, number])
    arm = plant(ARMS[number % len(ARMS)], rng)
    rule = ScaleRule.GAINS if (number // len(ARMS)) % 2 else ScaleRule.DESCRIPTION
    lacks = replace(Unmodelled.random(rng), lean=0.0)
    axis = rng.normal(0, LEAN, 2)
    model = arm.model.copy()
    g = np.linalg.norm(model.gravity.linear)
    model.gravity.linear = g * np.array([axis[0], axis[1], -1.0]) / np.sqrt(1.0 + axis @ axis)
    total = sum(model.inertias[i].mass for i in range(1, model.njoints))
    mass = float(total * rng.uniform(*LOADS))
    way = rng.normal(size=3)
    centre = way / np.linalg.norm(way) * rng.uniform(0.02, 0.12)
    radius = rng.uniform(0.02, 0.06, 3)
    inertia = mass * np.diag(
        [radius[1] ** 2 + radius[2] ** 2, radius[0] ** 2 + radius[2] ** 2, radius[0] ** 2 + radius[1] ** 2]
    )
    loaded_model = model.copy()
    loaded_model.inertias[model.njoints - 1] += pin.Inertia(mass, centre, inertia)
    n = arm.described.n
    changed = replace(
        arm,
        model=loaded_model,
        viscous=arm.viscous * (1.0 + FRICTION * rng.normal(size=n)),
        coulomb=arm.coulomb * (1.0 + FRICTION * rng.normal(size=n)),
    )
    gain = np.exp(GAIN * rng.normal(size=n))
    drift = np.exp(DRIFT * rng.normal(size=n))
    robot = described(arm, rng) if rule is ScaleRule.DESCRIPTION else without_masses(arm.described)

    def recorded(loaded: Plant) -> Recorded:
        # Gears and cables are those of the same machine.
        return record(loaded, rng, lacks, SECONDS, machine=np.random.default_rng([18, number]))

    free = log_of(robot, recorded(replace(arm, model=model)), gain)
    with_load = log_of(robot, recorded(changed), gain * drift)
    run = identify(robot, free, Settings(automatic=False), threads=1)
    payload = find_payload(run, with_load, unloaded=free, scale=rule, threads=1)
    interval, truth = payload.interval(), np.concatenate([[mass], centre])
    return summary(payload) | {
        "arm": ARMS[number % len(ARMS)],
        "rule": rule.value,
        "truth": truth.tolist(),
        "holds": [bool(a <= x <= b) for x, (a, b) in zip(truth, interval, strict=False)],
        "effects": sorted(lacks.names),
    }


def log_of(robot: RobotModel, recorded: Recorded, gain: Float) -> Log:
    """A log whose declared torque is the true one over the gains' error."""
    return Log.from_arrays(robot, recorded.t, recorded.q, recorded.tau / gain, dq=recorded.dq)


def described(arm: Plant, rng: np.random.Generator) -> RobotModel:
    """The arm as a description that is off by 5 % has it: masses, centres by radii of gyration, moments."""
    bodies = []
    for pi in arm.described.inertia_prior:
        mass, centre, inertia = to_com(pi)
        off = np.exp(DESCRIBED * rng.normal(size=2))
        gyration = np.sqrt(np.trace(inertia) / 2 / mass)
        bodies.append(
            from_com(
                mass * off[0], centre + DESCRIBED * gyration * rng.normal(size=3), inertia * off[0] * off[1]
            )
        )
    return replace(arm.described, inertia_prior=np.array(bodies))


def without_masses(robot: RobotModel) -> RobotModel:
    """The arm as a description of its kinematics alone has it."""
    return replace(robot, inertia_prior=np.full_like(robot.inertia_prior, np.nan))


def print_simulated(rows: list[Any]) -> None:
    """Coverage of mass and centre, by rule and by arm; how wide the intervals are, and which miss."""
    sound = [row for row in rows if "error" not in row]
    for row in rows:
        if "error" in row:
            print(row["case"], row["error"])

    def line(name: str, rows: list[Any]) -> None:
        if not rows:
            return
        hits = np.array([row["holds"] for row in rows])
        wide = np.median([row["half"] / row["truth"][0] for row in rows])
        off = np.median([row["mass"] / row["truth"][0] - 1 for row in rows])
        z = [(row["mass"] - row["truth"][0]) / (row["half"] / 1.96) for row in rows]
        band = 196 * np.sqrt(0.95 * 0.05 / len(rows))
        print(
            f"{name:14s} {len(rows):4d} cases: mass held by {100 * hits[:, 0].mean():.1f} % "
            f"(95 +- {band:.1f} if exact), centre by {100 * hits[:, 1:].mean():.1f} %; "
            f"half width {100 * wide:.1f} %, bias {100 * off:+.1f} %, r.m.s. z {np.sqrt(np.mean(np.square(z))):.2f}"
        )

    line("all", sound)
    for rule in ScaleRule:
        line(rule.value, [row for row in sound if row["rule"] == rule.value])
    for arm in ARMS:
        line(arm, [row for row in sound if row["arm"] == arm])
    for row in sound:
        if not row["holds"][0]:
            low, high = row["interval"]
            print(
                f"  case {row['case']} {row['arm']} {row['rule']}: {low:.3f} to {high:.3f} kg misses "
                f"{row['truth'][0]:.3f}; {', '.join(row['effects'])}"
            )


if __name__ == "__main__":
    main()
