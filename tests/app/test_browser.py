"""Whole ways through the pages by clicks in a real browser; skipped where none is installed."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from dynid.app import jobs
from dynid.app.workspace import Project
from tests.app.conftest import Served, ended, serving, until
from tests.command_line import make_log
from tests.report.test_browser import BEYOND, FAINT, wait_until

# A log of a real robot, MB.
MOST_BYTES = 64 << 20
# A click may start a command on a busy machine, ms.
PATIENCE = 120_000
TRAIN, HELD_OUT = "id/ur-20_02_10-30sec_12harm", "id/ur-20_02_12-40sec_12harm"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("browser") / "workspace", MOST_BYTES) as found:
        yield found


class Visitor:
    """One browser's page, with what its console complained of."""

    def __init__(self, browser: Any, server: Served, **context: Any):
        self.server, self.errors = server, list[str]()
        self.context = browser.new_context(**context)
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.page.on("console", lambda line: self.errors.append(line.text) if line.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(f"http://127.0.0.1:{server.port}/?token={server.token}")

    def new_project(self, name: str) -> str:
        self.page.fill("input[name=name]", name)
        self.page.click("text=Create project")
        self.page.wait_for_selector("#files")
        return self.id

    @property
    def id(self) -> str:
        return str(self.page.url.split("/p/")[1].split("/")[0])

    def wait_for(self, selector: str) -> None:
        """Waits for an element of a page whose script listens."""
        self.page.wait_for_selector(selector)
        self.page.wait_for_load_state()

    def drop(self, *files: Path) -> None:
        self.page.wait_for_load_state()  # the page's script listens from then on
        self.page.set_input_files("input.choose >> nth=0", [str(one) for one in files])

    def confirm(self) -> None:
        self.wait_for("#mapping")
        self.page.click("text=Confirm all")
        self.page.click("#mapping .actions button:has-text('Apply')")
        self.wait_for("text=all columns are confirmed")

    def check(self) -> None:
        self.page.click("#check-form button")
        self.wait_for(".job.done#check")

    def run(self) -> None:
        self.page.click("#identify-form button")

    def report(self) -> Any:
        """The report's own page, inside this one."""
        self.page.click("text=Read the report")
        self.page.wait_for_selector("#report iframe")
        frame = self.page.frame_locator("#report iframe")
        frame.locator("#verdict").wait_for()
        return frame

    def leave(self) -> None:
        self.context.close()
        assert self.errors == []


@contextmanager
def held(project: Project) -> Iterator[jobs.Job]:
    """The newest job, standing still at a stage that it has reported, so that clicks come before its end."""
    job = jobs.jobs(project)[0]
    until(lambda: job.progress.get("stage"))
    os.killpg(int(job.pid or 0), signal.SIGSTOP)
    try:
        assert jobs.job_of(project, job.id).state == jobs.RUNNING
        yield job
    finally:
        with suppress(ProcessLookupError):
            os.killpg(int(job.pid or 0), signal.SIGCONT)


def test_a_whole_run_of_the_example(browser: Any, server: Served) -> None:
    visitor = Visitor(browser, server)
    page = visitor.page
    page.click("text=Create the example")
    page.wait_for_selector("text=robot/robot.toml")
    assert page.is_disabled("#identify-form button")
    page.click("#guess button")
    visitor.confirm()
    page.click("text=Show the robot move")
    page.wait_for_selector("iframe.scene")
    page.locator("iframe.scene").scroll_into_view_if_needed()
    moved = page.frame_locator("iframe.scene")
    moved.locator(".scene canvas").wait_for()
    moved.locator(".series-chart canvas >> nth=0").wait_for()
    assert "arm7" in moved.locator("h1").inner_text()
    assert page.is_disabled("#identify-form button")
    visitor.check()
    signals = page.frame_locator("iframe[title='Findings and recorded signals']")
    signals.locator(".series-chart canvas >> nth=0").wait_for()
    assert page.is_enabled("#identify-form button")
    visitor.run()
    visitor.wait_for(".job.done#identify")
    assert "Good" in page.inner_text("#run .banner")
    report = visitor.report()
    assert "arm7" in report.locator("h1").inner_text()
    # Compared with the demo's own run, exported, and scored.
    for name in ("run-1", "demo"):
        page.check(f'input[name=run][value="runs/{name}"]')
    page.click("text=Compare selected runs")
    page.wait_for_selector(".job.done#compare")
    page.click("a:has-text('comparison-1')")
    page.frame_locator("#report iframe").locator("h1").wait_for()
    page.click("#export-form button")
    page.wait_for_selector(".job.done#export")
    with page.expect_download() as download:
        page.click("a:has-text('run-1-urdf-1.urdf')")
    assert Path(download.value.path()).read_text().startswith("<?xml")
    visitor.leave()


def test_a_whole_run_of_a_real_log(browser: Any, server: Served, data_dir: Path) -> None:
    visitor = Visitor(browser, server)
    page = visitor.page
    visitor.new_project("UR10e")
    folder = data_dir / "ur10e_innopolis"
    visitor.drop(folder / "robot.urdf", folder / "data.parquet")
    visitor.wait_for("#mapping")  # guessed unasked
    said = page.inner_text("#run .missing")
    assert "confirm or correct: torque per ampere" in said
    assert "time runs back" in said
    page.click("text=leave out all")
    page.select_option(f'select[name="motion:{TRAIN}"]', "train")
    page.select_option(f'select[name="motion:{HELD_OUT}"]', "validate")
    page.click("text=Confirm all")
    page.click("#mapping .actions button:has-text('Apply')")
    visitor.wait_for("text=all columns are confirmed")
    project = server.workspace.project(visitor.id)
    # Other motions were chosen: the columns were found anew.
    assert [job.command.kind for job in jobs.jobs(project)] == ["init", "init"]
    visitor.check()
    assert TRAIN in page.inner_text("#check .lines")
    visitor.run()
    visitor.wait_for(".job.done#identify")
    report = visitor.report()
    assert report.locator("#verdict .level").inner_text().lower() in ("good", "usable")
    page.goto(f"http://127.0.0.1:{server.port}/p/{visitor.id}")
    # The experiment is edited, by a file that says so, and what it says counts.
    page.evaluate("document.querySelector('#edit-form').closest('details').open = true")
    text = page.input_value("#edit-form textarea")
    page.fill("#edit-form textarea", f"{text}\n[prepare]\ncutoff = 8.0\n")
    page.check("#edit-form input[name=right]")
    page.click("#edit-form button")
    visitor.wait_for(".job.done#check")
    page.wait_for_selector("text=Your version of this file")
    assert "cutoff = 8.0" in (project.folder / "experiment.toml").read_text()
    assert page.is_enabled("#identify-form button")
    # The line that is shown does the same in a terminal.
    command = jobs.latest(project, "identify").command.shown  # type: ignore[union-attr]  # it has just run
    page.goto(f"http://127.0.0.1:{server.port}/p/{visitor.id}/jobs")
    assert command in page.inner_text("main")
    visitor.leave()


def test_a_bad_file_says_what_the_command_line_says(
    browser: Any, server: Served, robot_file: Path, tmp_path: Path
) -> None:
    visitor = Visitor(browser, server)
    page = visitor.page
    visitor.new_project("bad")
    (tmp_path / "log.parquet").write_bytes(b"PAR1 cut off")
    visitor.drop(robot_file, tmp_path / "log.parquet")
    page.wait_for_selector(".job.failed#init")
    text = page.inner_text("#init .errors")
    assert text.startswith("error[")
    assert "log.parquet" in text
    assert page.is_disabled("#identify-form button")
    page.click("tr:has-text('log.parquet') >> text=Remove")
    page.wait_for_selector("text=a log to fit is missing")
    # One that is too large says so and leaves the page as it is.
    with (tmp_path / "large.csv").open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    visitor.drop(tmp_path / "large.csv")
    page.wait_for_selector(".uploads .bad:not(:empty)")
    assert "too large" in page.inner_text(".uploads").lower() or "more than" in page.inner_text(".uploads")
    visitor.errors.clear()  # the browser's own line about the refused request
    visitor.leave()


def test_two_users_at_once(
    browser: Any, server: Served, robot_file: Path, csv_log: Path, tmp_path: Path
) -> None:
    visitors = [Visitor(browser, server), Visitor(browser, server)]
    logs = [csv_log, make_log(robot_file, tmp_path / "other.csv", 2, seconds=8.0)]
    for visitor, name in zip(visitors, ("one", "two"), strict=True):
        visitor.new_project(name)
    for visitor, log in zip(visitors, logs, strict=True):  # both jobs are at work together
        visitor.drop(robot_file, log)
    for visitor, log in zip(visitors, logs, strict=True):
        visitor.wait_for("#mapping")
        assert log.name in visitor.page.inner_text("#roles")
    visitors[0].confirm()
    assert "confirm or correct" in visitors[1].page.inner_text("#run .missing")
    visitors[1].page.reload()
    assert "confirm or correct" in visitors[1].page.inner_text("#run .missing")
    assert visitors[0].id != visitors[1].id
    for visitor in visitors:
        visitor.leave()


def test_a_run_that_is_stopped_and_one_that_is_killed(
    browser: Any, server: Served, robot_file: Path, csv_log: Path
) -> None:
    visitor = Visitor(browser, server)
    page = visitor.page
    visitor.new_project("interrupted")
    visitor.drop(robot_file, csv_log)
    visitor.confirm()
    visitor.check()
    project = server.workspace.project(visitor.id)
    visitor.run()
    page.wait_for_selector(".job#identify")
    with held(project):
        page.wait_for_selector(".job.running#identify .stage:not(:empty)")
        page.click(".job.running#identify >> text=Stop")
        page.wait_for_selector(".job.running#identify >> text=Stop at once")
    visitor.wait_for(".job.stopped#identify")
    assert "interrupted: nothing was written" in page.inner_text("#identify .errors")
    assert project.runs() == ()
    visitor.run()
    page.wait_for_selector(".job#identify:not(.stopped)")
    with held(project) as job:
        page.wait_for_selector(".job.running#identify")
        os.killpg(int(job.pid or 0), signal.SIGKILL)
    page.wait_for_selector(".job.interrupted#identify")
    assert "start it again" in page.inner_text("#identify")
    assert project.runs() == ()
    visitor.leave()


def test_a_recording_is_followed_while_it_grows(
    browser: Any, server: Served, robot_file: Path, csv_log: Path
) -> None:
    visitor = Visitor(browser, server)
    page = visitor.page
    project = server.workspace.project(visitor.new_project("live"))
    visitor.drop(robot_file)
    page.wait_for_selector("text=robot/two.toml")
    lines = csv_log.read_text().splitlines(keepends=True)
    growing = project.folder / "live" / "now.csv"
    growing.write_text("".join(lines[:800]))
    page.click("text=Follow live")
    page.select_option("select[name=log]", "live/now.csv")
    page.fill("input[name=wait]", "3600")
    page.click("button:has-text('Follow')")
    page.wait_for_selector(".job.running#watch .lines:has-text('t = ')")

    def go_on() -> None:
        with growing.open("a") as file:
            for line in lines[800:]:
                file.write(line)
                file.flush()

    seen = "document.querySelector('.job.running .lines').textContent.split('t = ').length - 1"
    before = page.evaluate(seen)
    recorder = threading.Thread(target=go_on)
    recorder.start()
    wait_until(page, f"{seen} > {before}")
    recorder.join()
    page.click(".job.running#watch >> text=Stop")
    assert ended(project).state == jobs.STOPPED
    visitor.leave()


def test_a_motion_is_designed_and_watched(browser: Any, server: Served) -> None:
    visitor = Visitor(browser, server)
    page = visitor.page
    visitor.new_project("motion")
    visitor.drop(Path(str(files("dynid.data"))) / "arm7.toml")
    page.wait_for_selector("text=robot/arm7.toml")
    page.click("nav a:has-text('Design a motion')")
    page.select_option("select[name=family]", "sweep")
    page.fill("input[name=time]", "0.5")
    page.evaluate("document.getElementById('excite-form').noValidate = true")
    page.click("#excite-form button.primary")
    assert page.inner_text("pre.errors").startswith("error[number] found time '0.5'")
    page.click("text=Back")
    page.select_option("select[name=family]", "sweep")
    page.click("#excite-form button.primary")
    page.wait_for_selector(".job.done#excite")
    page.click("text=watch it")
    plan = page.frame_locator("#shown iframe")
    plan.locator(".scene canvas").first.wait_for()
    assert plan.locator("h1").inner_text() == "arm7"
    with page.expect_download() as download:
        page.click("a:has-text('motion.csv')")
    first, header, *_ = Path(download.value.path()).read_text().splitlines()
    assert first.startswith("# NOT CHECKED: the robot's own shapes")
    assert header.startswith('"t",')
    visitor.errors.clear()  # the browser's own line about the refused form
    visitor.leave()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
def test_nothing_is_cut_off_or_too_faint(
    browser: Any, server: Served, robot_file: Path, csv_log: Path, width: int, scheme: str
) -> None:
    visitor = Visitor(browser, server, viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = visitor.page
    name = visitor.new_project(f"a name that is as long as names of projects are {'x' * 40}")
    visitor.drop(robot_file, csv_log)
    page.wait_for_selector("#mapping")
    for path in (
        f"/p/{name}",
        f"/p/{name}/runs",
        f"/p/{name}/motion",
        f"/p/{name}/live",
        f"/p/{name}/jobs",
        "/",
    ):
        page.goto(f"http://127.0.0.1:{server.port}{path}")
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        assert page.evaluate(BEYOND, width) == [], path
        assert page.evaluate(FAINT) == [], path
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (ground == "rgb(255, 255, 255)") == (scheme == "light")
    visitor.leave()


def test_a_server_that_is_gone_is_said_and_the_page_goes_on(
    browser: Any, robot_file: Path, csv_log: Path, tmp_path: Path
) -> None:
    with serving(tmp_path / "workspace", MOST_BYTES) as server:
        visitor = Visitor(browser, server)
        page = visitor.page
        project = server.workspace.project(visitor.new_project("gone"))
        visitor.drop(robot_file)
        page.wait_for_selector("text=robot/two.toml")
        (project.folder / "live" / "now.csv").write_bytes(csv_log.read_bytes())
        page.goto(f"http://127.0.0.1:{server.port}/p/{visitor.id}/live")
        page.fill("input[name=wait]", "3600")
        page.click("button:has-text('Follow')")
        page.wait_for_selector(".job.running#watch .lines:has-text('t = ')")
        page.route("**/jobs/*", lambda route: route.abort())
        page.wait_for_selector("text=the server does not answer")
        page.unroute_all(behavior="wait")
        wait_until(page, "!document.querySelector('.stage').textContent.includes('does not answer')")
        page.click(".job.running#watch >> text=Stop")
        page.wait_for_selector(".job.stopped#watch")
        visitor.errors.clear()  # the browser's own lines about requests that failed
        visitor.leave()
