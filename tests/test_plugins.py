"""Plug-ins travel: from experiment files and the command line into run folders and back out of them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import dynid
from dynid.base import Float, InputError, Need, Registry, ResourceError, UsageError, load_plugins, registry
from dynid.identification import Experiment, settings_to_experiment
from dynid.log import canonical_columns, write_log
from dynid.terms import CATALOGUE as TERMS
from tests.command_line import Run

KINDS = '''
import json
from dataclasses import dataclass, replace

import numpy as np

from dynid.base import option
from dynid.estimate import WLS
from dynid.feasible import Block, Cone
from dynid.feasible import Condition
from dynid.feasible.constraints import ten_of
from dynid.rows import Equations, TorqueRows
from dynid.terms import JointTerm


@dataclass(frozen=True)
class Quadratic(JointTerm):
    """Friction that grows with the square of velocity."""

    above: float = option(0.0, "speed where it begins", unit="rad/s", least=0)
    name: str = "quadratic"
    symbol = "fq"
    unit_revolute = "N m s^2/rad^2"
    unit_prismatic = "N s^2/m^2"

    def basis(self, robot, samples):
        return np.abs(samples.dq) * samples.dq


@dataclass(frozen=True)
class JointPowerRows:
    """dq_j tau_j = dq_j Y_j theta."""

    share: float = 1.0
    name: str = "joint_power"

    def groups(self, robot):
        return robot.joint_names

    def equations(self, robot, terms, samples, wanted):
        torque = TorqueRows().equations(robot, terms, samples, wanted)
        panels = tuple(panel * samples.dq[:, j] for j, panel in enumerate(torque.panels))
        return Equations(torque.columns, panels)


@dataclass(frozen=True)
class Patient:
    """Weighted least squares with more rounds."""

    patience: int = option(60, "rounds", least=1, most=100)
    name: str = "patient"

    def fit(self, regression):
        return replace(WLS(rounds=self.patience).fit(regression), method=self.name)


@dataclass(frozen=True)
class AtLeastAsHeavy:
    """Mass of body a >= mass of body b."""

    a: int
    b: int

    def conditions(self, columns, spread):
        row = np.zeros((1, len(columns)))
        row[0, ten_of(columns, self.a)[0]], row[0, ten_of(columns, self.b)[0]] = 1.0, -1.0
        return [Condition(f"body {self.a} as heavy as {self.b}", Block(Cone.POSITIVE, row, np.zeros(1)), "kg")]


class JsonTable:
    row_count = None

    def __init__(self, path):
        self.path = path
        data = json.loads(path.read_text())
        self.data = {name: np.array(values, dtype=np.float64) for name, values in data.items()}
        self.column_names = tuple(self.data)
        self.row_count = len(self.data["t"])

    def batches(self, columns, rows, start=0, stop=None):
        end = self.row_count if stop is None else min(stop, self.row_count)
        for first in range(start, end, rows):
            yield {name: self.data[name][first : min(first + rows, end)] for name in columns}


class JsonReader:
    name = "json"
    suffixes = (".json",)

    def can_read(self, head):
        return head[:1] == b"{"

    def open(self, path, delimiter=None, decimal=None):
        return JsonTable(path)


def hello(name: str) -> None:
    """Greets."""
    print(f"hello {name}")
'''
REGISTERED = """
from dynid.cli.plugins import COMMANDS
from dynid.estimate import CATALOGUE as ESTIMATORS
from dynid.feasible import CATALOGUE as CONSTRAINTS
from dynid.log import READERS
from dynid.rows import CATALOGUE as ROWS
from dynid.log import write_log
from dynid.terms import CATALOGUE as TERMS

TERMS.register("quadratic", Quadratic)
ROWS.register("joint_power", JointPowerRows)
ESTIMATORS.register("patient", Patient)
CONSTRAINTS.register("at_least_as_heavy", AtLeastAsHeavy)
READERS.register("json", JsonReader())
COMMANDS.register("hello", hello)
"""
ENTRY_POINTS = """
[dynid.terms]
quadratic = tiny_kinds:Quadratic
broken = tiny_kinds:Nothing
[dynid.rows]
joint_power = tiny_kinds:JointPowerRows
[dynid.estimators]
patient = tiny_kinds:Patient
[dynid.constraints]
at_least_as_heavy = tiny_kinds:AtLeastAsHeavy
[dynid.readers]
json = tiny_kinds:JsonReader
[dynid.commands]
hello = tiny_kinds:hello
"""
MODEL = """
[model]
terms = ["rigid_body", "viscous", { term = "coulomb", width = 0.02 }, "offset", { term = "quadratic", above = 0.1 }]
rows = { rows = "joint_power", share = 0.5 }
"""
FEASIBLE = """
[estimate]
constraints = [{ constraint = "at_least_as_heavy", a = 1, b = 2 }]
"""
PATIENT = """
[estimate]
method = "patient"
patience = 40
"""


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Every registry, and what is imported, as it was."""
    added = {what: dict(one._added) for what, one in registry._REGISTRIES.items()}
    named, modules = dict(registry._NAMED), set(sys.modules)
    yield
    for what, one in registry._REGISTRIES.items():
        one._added.clear()
        one._added.update(added.get(what, {}))
    registry._NAMED.clear()
    registry._NAMED.update(named)
    for name in set(sys.modules) - modules:
        if name.startswith(("tiny", "my_")):
            del sys.modules[name]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an installed package: a module and its entry points."""
    site = tmp_path / "site"
    site.mkdir()
    install(site)
    monkeypatch.syspath_prepend(str(site))
    return site


def install(site: Path) -> None:
    info = site / "dynid_tiny-1.2.dist-info"
    info.mkdir()
    (site / "tiny_kinds.py").write_text(KINDS)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: dynid-tiny\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    (info / "top_level.txt").write_text("tiny_kinds\n")


def test_packages_are_looked_through_once_until_another_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model may ask for a term of the caller's own thousands of times."""
    asked = []

    def counted(**wanted: str) -> object:
        asked.append(wanted)
        return entry_points(**wanted)

    monkeypatch.setattr("importlib.metadata.entry_points", counted)
    monkeypatch.syspath_prepend(str(tmp_path))
    os.utime(tmp_path, (0, 0))  # of long ago, since clocks of files are coarse
    assert [TERMS.get("quadratic") for _ in range(3)] == [None] * 3
    assert len(asked) == 1
    install(tmp_path)
    assert "quadratic" in TERMS


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a module that registers its kinds, on the path but not installed."""
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "my_kinds.py").write_text(KINDS + REGISTERED)
    monkeypatch.syspath_prepend(str(folder))
    return folder


def forgotten() -> None:
    """What another process would know: nothing of plug-ins."""
    for one in registry._REGISTRIES.values():
        one._added.clear()
    registry._NAMED.clear()
    registry._scanned.cache_clear()
    for name in ("tiny_kinds", "my_kinds"):
        sys.modules.pop(name, None)


def test_an_installed_plug_in_is_known_by_name_alone(
    installed: Path, run: Run, robot_file: Path, train_log: Path, other_log: Path, tmp_path: Path
) -> None:
    config, folder = tmp_path / "experiment.toml", tmp_path / "run"
    config.write_text(MODEL + FEASIBLE)
    found = run("identify", robot_file, train_log, "--config", config, "--out", folder)
    assert found.code == 0, found.err
    written = json.loads((folder / "run.json").read_text())
    needs = {entry["kind"]: entry for entry in written["provenance"]["plugins"]}
    assert {kind: entry["name"] for kind, entry in needs.items()} == {
        "term": "quadratic",
        "rows": "joint_power",
        "constraint": "at_least_as_heavy",
    }
    assert {entry["package"] for entry in needs.values()} == {"dynid-tiny 1.2"}
    # The stored experiment is what ran.
    forgotten()
    again = Experiment.from_dict(written["experiment"]).settings()
    assert again == Experiment.read(config).settings()
    assert again.terms is not None
    assert vars(tuple(again.terms)[-1])["above"] == 0.1
    assert vars(again.rows)["share"] == 0.5
    assert settings_to_experiment(again)["estimate"]["constraints"] == [
        {"constraint": "at_least_as_heavy", "a": 1, "b": 2}
    ]
    for words in (
        ("report", folder),
        ("validate", folder, other_log),
        ("compare", folder, folder),
        ("export", folder, "--to", tmp_path / "model.json"),
        ("export", folder, "--to", tmp_path / "model.c"),
        ("export", folder, "--to", tmp_path / "model.urdf"),
    ):
        forgotten()
        done = run(*words)
        assert done.code == 0, done.err
        # What a format cannot hold is not dropped in silence.
        if words[0] == "export" and words[-1] != tmp_path / "model.json":
            assert "quadratic" in done.err
    forgotten()
    from dynid.exporters import read_model_json

    assert [term.name for term in read_model_json(tmp_path / "model.json")[1]][-1] == "quadratic"


def test_a_module_is_named_in_the_experiment_or_on_the_command_line(
    module: Path, run: Run, robot_file: Path, train_log: Path, other_log: Path, tmp_path: Path
) -> None:
    config = tmp_path / "experiment.toml"
    config.write_text(MODEL + PATIENT)
    unknown = run("identify", robot_file, train_log, "--config", config, "--out", tmp_path / "no")
    assert unknown.code == 3
    assert "my_kinds" not in sys.modules
    named = ("--plugin", "my_kinds")
    for folder, text, words in (
        (tmp_path / "named", 'plugins = ["my_kinds"]\n', ()),
        (tmp_path / "given", "", named),
    ):
        forgotten()
        config.write_text(text + MODEL + PATIENT)
        found = run("identify", robot_file, train_log, "--config", config, "--out", folder, *words)
        assert found.code == 0, found.err
        stored = json.loads((folder / "run.json").read_text())["experiment"]
        assert stored["plugins"] == ["my_kinds"]
        assert Experiment.from_dict(stored).settings() == Experiment.read(config).settings()
        # A run may come from anyone: what it names is not imported for that.
        forgotten()
        commands = (("report", folder), ("validate", folder, other_log), ("compare", folder, folder))
        # Both runs are the same.
        for words_of in commands[:1] if words else commands:
            missing = run(*words_of)
            assert missing.code == 3
            assert "error[missing-plugin]" in missing.err
            assert "the term 'quadratic' of my_kinds" in missing.err
            assert "--plugin my_kinds" in missing.err
            assert "damaged" not in missing.err
            assert "my_kinds" not in sys.modules
            assert run(*words_of, *named).code == 0
            forgotten()


def recorded(robot_file: Path, log_file: Path) -> tuple[Float, dict[str, Float]]:
    """Times, and positions and efforts by column, of a log."""
    robot = dynid.load_robot(robot_file)
    log = dynid.read_log(log_file, robot)
    whole = log.read(log.trajectories[0])
    assert whole.tau is not None
    columns = canonical_columns(robot.joint_names, whole.q, tau=whole.tau)
    return whole.t, columns


def test_a_growing_log_is_followed_with_an_own_term(
    installed: Path, run: Run, robot_file: Path, train_log: Path, tmp_path: Path
) -> None:
    t, columns = recorded(robot_file, train_log)
    rows = write_log(tmp_path / "rows.csv", t, columns)
    config = tmp_path / "experiment.toml"
    config.write_text('[model]\nterms = ["rigid_body", "viscous", "quadratic"]\n')
    watched = run("watch", robot_file, rows, "--config", config, "--wait", 0)
    assert watched.code == 0, watched.err
    assert "fq2" in watched.out


def test_a_missing_package_is_named_with_what_to_install(
    installed: Path, run: Run, robot_file: Path, train_log: Path, tmp_path: Path
) -> None:
    config, folder = tmp_path / "experiment.toml", tmp_path / "run"
    config.write_text('[model]\nterms = ["rigid_body", "viscous", "offset", "quadratic"]\n')
    assert run("identify", robot_file, train_log, "--config", config, "--out", folder).code == 0
    forgotten()
    (installed / "dynid_tiny-1.2.dist-info" / "entry_points.txt").unlink()
    missing = run("report", folder)
    assert missing.code == 3
    assert (
        "the term 'quadratic' of tiny_kinds (dynid-tiny 1.2), which is not installed or registered"
        in missing.err
    )
    assert "pip install dynid-tiny" in missing.err


def test_a_file_beside_the_experiment_is_a_plug_in(
    run: Run, robot_file: Path, train_log: Path, tmp_path: Path
) -> None:
    (tmp_path / "my_file.py").write_text(KINDS + REGISTERED)
    config = tmp_path / "experiment.toml"
    config.write_text('plugins = ["my_file.py"]\n' + MODEL)
    done = run("identify", robot_file, train_log, "--config", config, "--out", tmp_path / "run")
    assert done.code == 0, done.err
    assert f"{config} runs code of its own: the plug-in 'my_file.py'" in done.err


def test_readers_and_commands_come_from_plug_ins(
    installed: Path, run: Run, robot_file: Path, train_log: Path, tmp_path: Path
) -> None:
    t, columns = recorded(robot_file, train_log)
    data = {name: values.tolist() for name, values in ({"t": t} | columns).items()}
    (tmp_path / "train.json").write_text(json.dumps(data))
    assert "tiny_kinds" not in sys.modules
    found = run("identify", robot_file, tmp_path / "train.json", "--no-auto", "--out", tmp_path / "run")
    assert found.code == 0, found.err
    (need,) = json.loads((tmp_path / "run" / "run.json").read_text())["provenance"]["plugins"]
    assert (need["kind"], need["name"], need["package"]) == ("reader", "json", "dynid-tiny 1.2")
    # A reader is needed for its logs alone.
    forgotten()
    assert run("report", tmp_path / "run").code == 0
    assert "tiny_kinds" not in sys.modules
    assert "hello" in run("--help").out
    assert "tiny_kinds" not in sys.modules
    assert run("hello", "arm").out == "hello arm\n"
    assert run("hullo").code == 2


def test_a_command_of_a_named_module(module: Path, run: Run) -> None:
    assert run("--plugin", "my_kinds", "hello", "arm").out == "hello arm\n"


def test_what_a_plug_in_lacks_or_breaks_is_reported(installed: Path, module: Path, tmp_path: Path) -> None:
    with pytest.raises(ResourceError, match=r"'broken' of the package dynid-tiny, which fails to import"):
        TERMS["broken"]
    (module / "my_broken.py").write_text("1 / 0\n")
    with pytest.raises(ResourceError, match="plug-in 'my_broken', which fails to import"):
        load_plugins(["my_broken"])
    (module / "my_half.py").write_text("import my_nowhere\n")
    with pytest.raises(ResourceError, match="my_nowhere"):
        load_plugins(["my_half"])
    config = tmp_path / "experiment.toml"
    config.write_text('\nplugins = ["my_absent"]\n')
    with pytest.raises(InputError, match=r"experiment\.toml:2: found no module 'my_absent'"):
        Experiment.read(config)
    with pytest.raises(InputError, match=r"no file 'my_absent\.py'"):
        load_plugins(["my_absent.py"])
    config.write_text('plugins = ["my_kinds"]\n[estimate]\nmethod = "patient"\npatience = 1000\n')
    with pytest.raises(InputError, match="1000 of 'patient'; expected a whole number from 1 to 100"):
        Experiment.read(config).settings()
    config.write_text('[estimate]\nmethod = "patient"\npatienc = 3\n')
    with pytest.raises(InputError, match="did you mean 'patience'"):
        Experiment.read(config)


def test_a_registry_is_a_mapping_that_keeps_its_own_names() -> None:
    one: Registry[int] = Registry("number", "dynid.nothing", {"one": 1})
    one["two"] = 2
    assert dict(one) == {"one": 1, "two": 2}
    assert one.meant("tow") == "did you mean 'two'?"
    with pytest.raises(UsageError, match="name-taken"):
        one["one"] = 3
    one["one"] = 1
    del one["two"]
    assert "two" not in one
    assert one.get("two") is None
    del registry._REGISTRIES["number"]
    assert Need.of("term", "viscous", TERMS["viscous"]) is None
