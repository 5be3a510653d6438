"""From files to a report by forms alone: what the pages offer, and when a run may begin."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pytest
import typer

from dynid.app import jobs
from dynid.app.commands import COMMANDS, MOTION_FORMATS, RECORDED, demo
from dynid.app.readiness import readiness
from dynid.app.workspace import Project, Workspace
from dynid.base import UsageError
from dynid.cli.main import app
from dynid.excitation import Format, read_plan_file
from tests.app.conftest import Served, User, ended


def fields(page: str, form: str) -> dict[str, str]:
    """What a browser would send of a form: selected options, values, ticked boxes."""
    found = re.search(rf'<form[^>]*id="{form}".*?</form>', page, re.DOTALL)
    assert found is not None
    text, sent = found[0], {}
    for name, options in re.findall(r'<select name="([^"]+)"[^>]*>(.*?)</select>', text, re.DOTALL):
        chosen = re.search(r"<option(?: value=\"([^\"]*)\")? selected>(.*?)</option>", options)
        first = re.search(r"<option(?: value=\"([^\"]*)\")?>(.*?)</option>", options)
        one = chosen or first
        assert one is not None
        sent[html.unescape(name)] = html.unescape(one[1] if one[1] is not None else one[2])
    for tag in re.findall(r"<input[^>]*>", text):
        attributes = dict(re.findall(r'([a-z]+)="([^"]*)"', tag))
        if attributes.get("type") in ("checkbox", "radio") and " checked" not in tag:
            continue
        if "name" in attributes and attributes["name"] != "csrf":
            sent[html.unescape(attributes["name"])] = html.unescape(attributes.get("value", ""))
    return sent


def boxes(page: str) -> list[str]:
    return re.findall(r'name="(right:[^"]+)"', page)


def test_a_whole_run_and_what_makes_it_wait(
    served: Served, user: User, robot_file: Path, csv_log: Path
) -> None:
    name = user.new_project("two joints")
    project, page = served.workspace.project(name), f"/p/{name}/identify"
    assert "a robot file is missing" in user.page(page)
    assert user.send(f"/p/{name}/do/identify").status == 409
    assert user.upload(name, "two.toml", robot_file.read_bytes()).status == 200
    assert '"ready":true' in user.upload(name, "log.csv", csv_log.read_bytes()).text

    # The columns: likely ones wait to be confirmed.
    assert user.send(f"/p/{name}/do/guess").headers["location"] == f"{page}#init"
    assert ended(project).state == jobs.DONE
    shown = user.page(page)
    assert "confirm or correct: effort: columns" in shown
    assert "confirm or correct: position: columns" in shown
    sent = fields(shown, "mapping")
    assert sent["column:effort:elbow"] == "tau_elbow"
    assert user.send(f"/p/{name}/do/check").status == 303
    assert ended(project).state == jobs.DONE
    refused = user.send(f"/p/{name}/do/identify")
    assert refused.status == 409
    assert "confirm or correct: effort: columns" in refused.text
    assert len(boxes(shown)) >= 2
    assert user.send(f"/p/{name}/do/columns", **sent | dict.fromkeys(boxes(shown), "1")).status == 303
    assert jobs.latest(project, "init").id == "0001"  # type: ignore[union-attr] - confirming changes no file

    # Checked, confirmed: it may run.
    assert readiness(project).missing == []
    assert "Before it can run" not in user.page(page)
    # Another log under the same name: all of it is stale.
    user.upload(name, "log.csv", csv_log.read_bytes() + b"\n")
    assert readiness(project).missing == ["the files have changed: find the columns again"]
    assert user.send(f"/p/{name}/do/identify").status == 409
    user.upload(name, "log.csv", csv_log.read_bytes())
    assert readiness(project).missing == []
    # An experiment file changed by hand: the check is stale.
    written = (project.folder / "experiment.toml").read_text()
    (project.folder / "experiment.toml").write_text(written + "[prepare]\ncutoff = 5.0\n")
    assert "changed since the check" in readiness(project).missing[0]
    (project.folder / "experiment.toml").write_text(written)

    # The run, and its report.
    assert user.send(f"/p/{name}/do/identify", name="../first run").headers["location"] == f"{page}#identify"
    job = ended(project)
    assert (job.state, job.command.result) == (jobs.DONE, "runs/_first run"), job.text("stderr")
    assert 'class="banner' in user.page(page)
    runs = user.page(f"/p/{name}/runs?show=runs/_first run/report.html".replace(" ", "%20"))
    address = re.search(r'<iframe src="([^"]+)"', runs)
    assert address is not None
    assert "Identification report" in user.page(address[1])
    assert "<iframe" not in user.page(f"/p/{name}/runs?show=../../../etc/passwd")
    # The same name again is refused as the command line refuses it.
    assert user.send(f"/p/{name}/do/identify", name="_first run").status == 303
    again = ended(project)
    assert (again.state, again.code) == (jobs.FAILED, 7)
    assert "output-exists" in html.unescape(user.page(page))


def test_the_experiment_is_edited_and_a_doubt_accepted(
    served: Served, user: User, robot_file: Path, csv_log: Path
) -> None:
    name = user.new_project("by hand")
    project, page = served.workspace.project(name), f"/p/{name}/identify"
    user.upload(name, "two.toml", robot_file.read_bytes())
    # The effort of a joint has the wrong sign.
    header, *rows = csv_log.read_text().splitlines()
    at = header.replace('"', "").split(",").index("tau_shoulder")
    cells = [row.split(",") for row in rows]
    turned = [",".join(str(-float(one)) if k == at else one for k, one in enumerate(row)) for row in cells]
    user.upload(name, "log.csv", "\n".join([header, *turned]).encode())
    assert "find the columns first" in user.page(page)

    # A file that nobody vouches for, none, and one with a mistake; then one that counts as it is.
    text = """[log]
time = { column = "t", unit = "s" }
position = { columns = "q_{joint}", unit = "rad" }
effort = { columns = "tau_{joint}", unit = "N m" }
"""
    assert user.send(f"/p/{name}/do/edit", text=text).status == 400
    assert user.send(f"/p/{name}/do/edit", text="\r\n", right="1").status == 400
    assert not (project.folder / "experiment.toml").exists()
    user.send(f"/p/{name}/do/edit", text="[log]\nposition = 1\n", right="1")
    job = ended(project)
    assert (job.state, job.code) == (jobs.FAILED, 3)
    assert "experiment.toml" in job.text("stderr")
    assert user.send(f"/p/{name}/do/identify").status == 409
    answer = user.send(f"/p/{name}/do/edit", text=text.replace("\n", "\r\n"), right="1")
    assert answer.headers["location"] == f"{page}#check"
    job = ended(project)
    assert job.state == jobs.DONE, job.text("stderr")
    assert job.command.shown == (
        "dynid check robot/two.toml logs/log.csv --config experiment.toml --no-fit --out pages/check.html"
    )
    assert (project.folder / "experiment.toml").read_text() == text
    assert readiness(project).missing == []

    # What speaks against the log is accepted by a click, in the line that runs, and can be taken back.
    shown = html.unescape(user.page(page))
    assert 'name="code" value="torque-sign"' in shown
    assert "dynid identify robot/two.toml logs/log.csv --config experiment.toml --out runs/run-1" in shown
    assert user.send(f"/p/{name}/do/accept", code="nonsense").status == 400
    line = "dynid identify robot/two.toml logs/log.csv --config experiment.toml --accept torque-sign --out runs/run-1"
    assert user.send(f"/p/{name}/do/accept", code="torque-sign").headers["location"] == f"{page}#run"
    assert line in html.unescape(user.page(page))
    user.send(f"/p/{name}/do/accept", code="torque-sign", back="1")
    assert project.accepted == ()
    user.send(f"/p/{name}/do/accept", code="torque-sign")
    user.send(f"/p/{name}/do/identify", name="run-1")
    job = ended(project)
    assert (job.state, job.command.shown) == (jobs.DONE, line), job.text("stderr")
    # Of another file it was not accepted.
    user.send(f"/p/{name}/do/edit", text=text + "[prepare]\ncutoff = 5.0\n", right="1")
    assert ended(project).state == jobs.DONE
    assert project.accepted == ()


def test_a_file_that_is_no_log(served: Served, user: User, robot_file: Path) -> None:
    name = user.new_project("bad")
    project = served.workspace.project(name)
    user.upload(name, "two.toml", robot_file.read_bytes())
    user.upload(name, "log.parquet", b"PAR1 cut off")
    user.send(f"/p/{name}/do/guess")
    job = ended(project)
    assert job.state == jobs.FAILED
    shown = html.unescape(user.page(f"/p/{name}"))
    assert job.text("stderr").strip().splitlines()[0] in shown
    assert "error[" in job.text("stderr")
    assert "find the columns first" in shown
    assert user.send(f"/p/{name}/do/remove", file="logs/log.parquet").status == 303
    assert project.logs() == ()


def test_two_users_do_not_meet(served: Served, robot_file: Path, csv_log: Path) -> None:
    one, other = served.user(), served.user()
    first, second = one.new_project("first"), other.new_project("second")
    one.upload(first, "two.toml", robot_file.read_bytes())
    other.upload(second, "log.csv", csv_log.read_bytes())
    a, b = served.workspace.project(first), served.workspace.project(second)
    assert (a.robots(), a.logs()) == (("robot/two.toml",), ())
    assert (b.robots(), b.logs()) == ((), ("logs/log.csv",))
    assert one.send(f"/p/{first}/do/roles", robot="robot/two.toml").status == 303
    assert b.about.robot == ""
    assert other.send(f"/p/{second}/do/delete").status == 303
    assert "first" in one.page(f"/p/{first}")
    assert one.ask("GET", f"/p/{second}").status == 404


@pytest.fixture
def project(workspace: Workspace) -> Project:
    made = workspace.new_project("arm")
    (made.folder / "robot" / "two.toml").write_text("")
    for log in ("a.csv", "b.csv"):
        (made.folder / "logs" / log).write_text("t\n")
    for run in ("one", "two"):
        (made.folder / "runs" / run).mkdir()
        (made.folder / "runs" / run / "run.json").write_text("{}")
    (made.folder / "plans" / "plan-1").mkdir()
    return made


def words(project: Project, action: str, **form: str | list[str]) -> str:
    sent = {key: value if isinstance(value, list) else [value] for key, value in form.items()}
    return COMMANDS[action](project, sent).shown


def test_forms_become_commands(project: Project) -> None:
    project.change(
        roles={"logs/b.csv": "validate"},
        answers={"log.effort.unit": "N m"},
        motions={"slow one": "train", "fast": "validate", "crash": "off"},
    )
    assert words(project, "init") == (
        "dynid init robot/two.toml logs/a.csv --out experiment.toml --no-ask --answer 'log.effort.unit=N m' "
        "--train 'slow one' --hold-out fast"
    )
    assert words(project, "check") == (
        "dynid check robot/two.toml logs/a.csv --config experiment.toml --no-fit --out pages/check.html"
    )
    assert words(project, "show", trajectory="slow one") == (
        "dynid show robot/two.toml logs/a.csv --config experiment.toml --out pages/recorded.html "
        "--trajectory 'slow one'"
    )
    assert words(project, "identify", name="") == (
        "dynid identify robot/two.toml logs/a.csv --validate logs/b.csv --config experiment.toml --out runs/run-1"
    )
    assert words(project, "compare", run=["runs/one", "runs/two"]) == (
        "dynid compare runs/one runs/two --out pages/comparison-1.html"
    )
    assert words(project, "export", run="runs/one", format="mjcf", feasible="1") == (
        "dynid export runs/one --to exports/one-mjcf-1.xml --format mjcf --feasible"
    )
    assert (
        words(project, "validate", run="runs/two", log="logs/b.csv") == "dynid validate runs/two logs/b.csv"
    )
    plain = {"family": "fourier", "time": "20", "seed": "0"}
    assert words(project, "excite", **plain, floor="0.1", format=["csv"]) == (
        "dynid excite robot/two.toml --out plans/plan-2 --time 20 --floor 0.1 --format csv"
    )
    assert words(project, "watch", log="logs/a.csv", wait="5") == (
        "dynid watch robot/two.toml logs/a.csv --every 1 --wait 5 --out pages/watch-1.csv"
    )


def test_what_a_motion_needs_beside_options_is_a_plan_file(project: Project) -> None:
    form = {"family": "sweep", "time": "20", "seed": "3", "share": "0.8", "clearance": "0.02"}
    made = COMMANDS["excite"](project, {key: [value] for key, value in form.items()})
    assert made.shown == "dynid excite robot/two.toml --plan plans/plan-2.toml --out plans/plan-2 --time 20"
    ((path, text),) = made.files
    (project.folder / path).write_text(text)
    settings = read_plan_file(project.folder / path)
    assert (settings.motion.family, settings.search.seed) == ("sweep", 3)
    assert (settings.limits.share, settings.surroundings.clearance) == (0.8, 0.02)


def test_every_option_of_the_pages_is_one_of_the_command_line(project: Project) -> None:
    (project.folder / "experiment.toml").write_text("")
    (project.folder / RECORDED).write_text("")
    project.change(
        roles={"logs/b.csv": "validate"},
        answers={"log.effort.unit": "N m"},
        motions={"a": "train", "b": "validate"},
    )
    live = project.folder / "live" / "now.csv"
    live.write_text("t\n")
    forms: dict[str, dict[str, list[str]]] = {
        "init": {},
        "check": {},
        "edit": {"text": ["[log]"], "right": ["1"]},
        "show": {"trajectory": ["a"]},
        "identify": {},
        "compare": {"run": ["runs/one", "runs/two"]},
        "export": {"run": ["runs/one"], "format": ["urdf"], "feasible": ["1"]},
        "validate": {"run": ["runs/one"], "log": ["logs/a.csv"]},
        "excite": {
            "family": ["sweep"], "time": ["9"], "seed": ["1"], "floor": ["0"], "format": list(MOTION_FORMATS),
            "after": ["runs/one"],
        },
        "watch": {"log": ["live/now.csv"], "wait": ["5"], "mapped": ["1"]},
    }  # fmt: skip
    assert set(forms) == set(COMMANDS)
    commands = {name: make(project, forms[name]) for name, make in COMMANDS.items()}
    group: Any = typer.main.get_command(app)
    context = typer.Context(group)
    for command in (*commands.values(), demo(project, {})):
        name = command.arguments[0]
        known = {
            flag
            for one in group.get_command(context, name).params
            for flag in (*one.opts, *one.secondary_opts)
        }
        used = {word for word in command.arguments if word.startswith("--")}
        assert used <= known, (name, used - known)
    assert set(MOTION_FORMATS) <= set(map(str, Format))


@pytest.mark.parametrize(
    ("action", "form"),
    [
        ("compare", {"run": ["runs/one"]}),
        ("compare", {"run": ["runs/one", "../../x"]}),
        ("export", {"run": "/etc", "format": "urdf"}),
        ("export", {"run": "runs/one", "format": "exe"}),
        ("validate", {"run": "runs/one", "log": "../../x.csv"}),
        ("excite", {"family": "fourier", "time": "nan", "seed": "0"}),
        ("excite", {"family": "fourier", "time": "1e9", "seed": "0"}),
        ("excite", {"family": "fourier", "time": "20", "seed": "0.5"}),
        ("excite", {"family": "--force", "time": "20", "seed": "0"}),
        ("excite", {"family": "sweep", "time": "20", "seed": "0", "share": "7"}),
        ("watch", {"log": "-", "wait": "5"}),
    ],
)
def test_what_a_form_cannot_ask_for(project: Project, action: str, form: dict[str, str | list[str]]) -> None:
    with pytest.raises(UsageError):
        words(project, action, **form)
