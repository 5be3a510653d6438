"""One schema: settings dataclasses make the checks of files, options, tables and the JSON schema."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from dynid.base import DynidError, InputError, UsageError, options_of
from dynid.estimate import CATALOGUE
from dynid.feasible import LinkLimits
from dynid.identification import Blocks, Experiment, Settings, json_schema
from dynid.robot import Reading, ServoSettings, load_robot
from dynid.signals import Preparation, Standstill
from tests.command_line import Run


def settings_of(folder: Path, text: str) -> Settings:
    path = folder / "experiment.toml"
    path.write_text(text)
    return Experiment.read(path).settings()


@pytest.mark.parametrize(
    ("text", "line", "found", "expected"),
    [
        ("[prepare]\norder = true", 2, "prepare.order = true", "a whole number from 1 to 8"),
        ("[prepare]\norder = 4.0", 2, "prepare.order = 4.0", "a whole number from 1 to 8"),
        ('[prepare]\ncutoff = "8"', 2, "prepare.cutoff = '8'", "from 0.001 to 50000 (Hz) or 'auto'"),
        ("[prepare]\ncutoff = 1e-300", 2, "prepare.cutoff = 1e-300", "from 0.001"),
        ("[prepare]\n\nstate_cutoff = 1e9", 3, "prepare.state_cutoff", "to 50000 (Hz)"),
        ("[prepare]\nrate = 1e7", 2, "prepare.rate", "from 0.001 to 100000 (Hz)"),
        ("[prepare]\nrate = 1979-05-27", 2, "1979-05-27", "(Hz)"),
        ("[prepare]\ndecimate = 1", 2, "prepare.decimate = 1", "true or false"),
        ("[data]\ntrain = []", 2, "data.train = []", "at least one"),
        ("[data]\ntrain = [{ part = [0.5] }]", 2, "part = [0.5]", "2 numbers from 0 to 1"),
        (
            '[log]\ndelimiter = ","\ndecimal = ","',
            3,
            "log.decimal = ','",
            "a decimal sign other than delimiter = ','",
        ),
        ('[log]\ndelimiter = "1"', 2, "log.delimiter = '1'", "a character that no number contains"),
        (
            "[model]\nrows = { rows = 'momentum', degree = true }",
            2,
            "degree = true",
            "a whole number from 1 to 2",
        ),
        ("[model]\nrows = { rows = 'momentum', cutoff = '5' }", 2, "cutoff = '5'", "a number > 0 (Hz)"),
        ("[model]\nrows = { rows = 'momentum', stick = -1 }", 2, "stick = -1", "at least 0 (rad/s or m/s)"),
        ("[model]\nterms = [{ term = 'coulomb', width = true }]", 2, "width = true", "a finite number"),
        ("[model]\nterms = [{ term = 'coulomb', joints = 'a' }]", 2, "joints = 'a'", "a list of texts"),
        ("[estimate]\nmethod = 'wls'\nrounds = true", 3, "estimate.rounds = true", "a whole number from 1"),
        ("[estimate]\nmethod = 'wls'\ntolerance = 0", 3, "estimate.tolerance = 0", "a number > 0"),
        ("[estimate]\nprior = 'flat'", 2, "estimate.prior = 'flat'", "'euclidean', 'entropic' or 'geodesic'"),
        ("[estimate]\nseed = -1", 2, "estimate.seed = -1", "a whole number from 0"),
        ("terms = ['rigid_body']", 1, "unknown key 'terms'", "did you mean 'terms' under [model]?"),
    ],
)
def test_types_and_ranges_are_strict(text: str, line: int, found: str, expected: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        settings_of(tmp_path, text)
    reported = str(caught.value)
    assert reported.startswith("error[")
    assert f"experiment.toml:{line}: found" in reported
    assert found in reported
    assert expected in reported
    assert "\n" not in reported


def test_python_has_the_same_ranges() -> None:
    for kind, wrong in (
        (Preparation, {"order": 9}),
        (Preparation, {"cutoff": float("nan")}),
        (Preparation, {"velocity": "guess"}),
        (Settings, {"folds": 1}),
        (Settings, {"block_seconds": 0.0}),
        (CATALOGUE["feasible"], {"total_mass": (-1.0, 2.0)}),
    ):
        with pytest.raises(UsageError) as caught:
            kind(**wrong)
        (name,) = wrong
        assert options_of(kind)[name].words == caught.value.expected


def test_every_option_of_a_method_has_a_sentence() -> None:
    in_files = json_schema()["$defs"]["EstimateSection"]["properties"]
    for kind in CATALOGUE.values():
        asked = {name: described for name, described in options_of(kind).items() if name in in_files}
        assert all(described.option.doc for described in asked.values()), kind
    for kind in (Preparation, Standstill, LinkLimits, Blocks):
        assert all(described.option.doc for described in options_of(kind).values())


def test_sections_are_the_settings_that_python_takes() -> None:
    content = Experiment.read(None).content
    assert content.prepare == Preparation()
    assert content.drive == ServoSettings()
    assert content.statics.made(Standstill) == Standstill()
    assert content.estimate.made(Blocks) == Blocks()
    assert content.robot.made(Reading) == Reading()


def allowed(schema: dict[str, Any], form: dict[str, Any], value: Any) -> bool:
    """Whether a value fulfils the part of JSON schema that ours use."""
    if "$ref" in form:
        form = schema["$defs"][form["$ref"].rsplit("/", 1)[1]] | {
            k: v for k, v in form.items() if k != "$ref"
        }
    kinds = {
        "object": dict,
        "array": list,
        "string": str,
        "integer": int,
        "number": (int, float),
        "boolean": bool,
    }
    if "anyOf" in form and not any(allowed(schema, one, value) for one in form["anyOf"]):
        return False
    if "const" in form and value != form["const"]:
        return False
    if "enum" in form and value not in form["enum"]:
        return False
    if "not" in form and allowed(schema, form["not"], value):
        return False
    if form.get("type") == "null":
        return value is None
    if "type" in form and not (
        isinstance(value, kinds[form["type"]]) and (form["type"] == "boolean" or not isinstance(value, bool))
    ):
        return False
    if isinstance(value, dict):
        known = form.get("properties", {})
        if form.get("additionalProperties") is False and set(value) - set(known):
            return False
        if not set(form.get("required", ())) <= set(value):
            return False
        if "if" in form and allowed(schema, form["if"], value) and not allowed(schema, form["then"], value):
            return False
        if (
            not all(allowed(schema, form["propertyNames"], name) for name in value)
            if "propertyNames" in form
            else False
        ):
            return False
        return all(allowed(schema, known[name], one) for name, one in value.items() if name in known)
    if isinstance(value, list):
        items = form.get("prefixItems") or [form.get("items", {})] * len(value)
        return len(value) >= form.get("minItems", 0) and all(
            allowed(schema, one, part) for one, part in zip(items, value, strict=True)
        )
    if isinstance(value, int | float) and not isinstance(value, bool):
        return (
            value >= form.get("minimum", value)
            and value <= form.get("maximum", value)
            and not value <= form.get("exclusiveMinimum", -1e308)
        )
    return True


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("", True),
        ("[prepare]\ncutoff = 8\nvelocity = 'measured'", True),
        ("[prepare]\ncutof = 8", False),
        ("[prepare]\ncutoff = -8", False),
        ("[prepare]\norder = true", False),
        ("[model]\nterms = ['rigid_body', { term = 'coulomb', width = 0.1 }]", True),
        ("[model]\nterms = [{ term = 'coulomb', wide = 0.1 }]", False),
        ("[model]\nrows = { rows = 'momentum', degree = 3 }", False),
        ("[estimate]\nmethod = 'wls'\nrounds = 3", True),
        ("[estimate]\nmethod = 'wls'\nround = 3", False),
        ("[estimate]\nmethod = 'of_a_plugin'\nround = 3", True),
        ("[data]\ntrain = [{ trajectory = 'a', part = [0, 0.5] }]", True),
        ("[log]\nposition = { columns = 'q{number}', unit = 'rad' }", True),
    ],
)
def test_the_json_schema_agrees_with_the_checks(text: str, good: bool, tmp_path: Path) -> None:
    schema = json_schema()
    assert allowed(schema, schema, tomllib.loads(text)) == good
    if "of_a_plugin" in text:
        return
    try:
        settings_of(tmp_path, text)
    except DynidError:
        assert not good
    else:
        assert good


def test_the_schema_is_printed_and_a_template_names_it(run: Run, tmp_path: Path) -> None:
    assert json.loads(run("schema").out) == json.loads(json.dumps(json_schema()))
    assert "convention" in json.loads(run("schema", "robot").out)["properties"]
    begun = tmp_path / "experiment.toml"
    assert run("schema", "--template", begun).code == 0
    text = begun.read_text()
    named = text.splitlines()[0].removeprefix("#:schema ./")
    assert json.loads((tmp_path / named).read_text())["title"] == "dynid experiment"
    assert Experiment.read(begun).settings() == Settings()
    assert run("schema", "--template", begun).code == 7
    # Each line is a key that is taken once the # is gone, where it has a default.
    freed = [line if "= ..." in line else line.removeprefix("#") for line in text.splitlines()[2:]]
    begun.write_text("\n".join(line for line in freed))
    assert Experiment.read(begun).settings() == Settings()


def test_settings_are_options_of_identify_and_check(
    run: Run, robot_file: Path, train_log: Path, tmp_path: Path
) -> None:
    found = run(
        "identify",
        robot_file,
        train_log,
        "--no-auto",
        "--cutoff",
        "6",
        "--rest",
        "0",
        "--folds",
        "3",
        "--out",
        tmp_path / "run",
    )
    assert found.code == 0
    stored = json.loads((tmp_path / "run" / "run.json").read_text())["experiment"]
    assert stored["prepare"] == {"cutoff": 6, "rest": 0}
    assert stored["estimate"] == {"folds": 3}
    wrong = run("identify", robot_file, train_log, "--order", "true", "--out", tmp_path / "no")
    assert wrong.code == 3
    assert "command line: found prepare.order = true; expected a whole number from 1 to 8" in wrong.err
    assert run("check", robot_file, train_log, "--velocity", "guess").code == 3


def test_numbers_with_underscores_are_no_numbers(run: Run, robot_file: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text(
        "t,q_shoulder,q_elbow,tau_shoulder,tau_elbow\n"
        + "".join(f"{i / 100},0,0,0,{'1_0' if i == 2 else '1'}\n" for i in range(4))
    )
    found = run("check", robot_file, log)
    assert found.code == 3
    assert "log.csv:4 row 2: found column 'tau_elbow' = '1_0'; expected a number" in found.err


def test_a_negative_limit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "robot.urdf"
    path.write_text(
        '<robot name="r">\n<link name="base"/><link name="arm"/>\n<joint name="j" type="revolute">\n'
        '<parent link="base"/><child link="arm"/>\n'
        '<limit lower="-1" upper="1" effort="-10" velocity="2"/>\n</joint>\n</robot>\n'
    )
    with pytest.raises(InputError) as caught:
        load_robot(path)
    assert caught.value.identifier == "negative-limit"
    assert "robot.urdf:5" in str(caught.value)
    assert "effort = -10" in str(caught.value)
