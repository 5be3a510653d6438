"""A scene in a browser: poses as in Python, hands and keys, both schemes and widths, print, no scripts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynid.robot import load_example
from dynid.scene import Colour, LinkColour, Scene, scene_of, scene_page
from tests.report.test_browser import BEYOND, browser, wait_until  # noqa: F401  (a fixture)

# Pixels of the one magenta link, and how far right they lie.
INK = """() => {
  const canvas = document.querySelector('.scene canvas');
  const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  let sum = 0, x = 0;
  for (let i = 0; i < data.length; i += 4) {
    if (data[i] > 60 && data[i] > 2 * data[i + 1] && data[i + 2] > 2 * data[i + 1]) {
      sum++; x += (i / 4) % canvas.width;
    }
  }
  return [sum, x / Math.max(sum, 1) / canvas.width];
}"""


SLIDER = "Number(document.querySelector('.scene-bar input').value)"


def settled(page: Any) -> None:
    """Waits for the last and fine picture after all changes."""
    wait_until(page, "document.querySelector('.scene').scene.still()")


@pytest.fixture(scope="module")
def moving() -> Scene:
    robot = load_example("ur5e")
    t = np.linspace(0, 4, 401)
    q = 0.8 * np.sin(np.outer(t, np.arange(1, robot.n + 1)))
    marked = LinkColour(Colour("#e020e0", "the upper arm"), "seen")
    return scene_of(robot, t, q, colours={robot.body_names[1]: marked}, lines=[[-1, -1, 0, 1, 1, 0]])


@pytest.fixture
def opened(browser: Any, moving: Scene, tmp_path: Path) -> Any:  # noqa: F811  (the fixture above)
    path = tmp_path / "scene.html"
    path.write_text(scene_page(moving, "UR5e"), encoding="utf-8")

    def open_page(**options: Any) -> tuple[Any, list[str]]:
        width = options.pop("width", 1400)
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        page, errors = context.new_page(), list[str]()
        page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(path.as_uri())
        return page, errors

    return open_page


def test_bodies_stand_where_python_has_them(opened: Any, moving: Scene) -> None:
    page, errors = opened(reduced_motion="reduce")
    for k in (0, 37, len(moving.times) - 1):
        found = page.evaluate(
            "(t) => { const one = document.querySelector('.scene').scene; one.seek(t); return one.placements(); }",
            float(moving.times[k]),
        )
        R, p = moving.placements(moving.q[k][None])
        for pose, turn, place in zip(found, R[0], p[0], strict=True):
            # Positions go to the page as 32-bit numbers.
            np.testing.assert_allclose(np.reshape(pose[:9], (3, 3)), turn, atol=1e-5)
            np.testing.assert_allclose(pose[9:], place, atol=1e-5)
    assert errors == []


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1400, "dark")])
def test_it_is_drawn_in_every_width_and_scheme(opened: Any, width: int, scheme: str) -> None:
    page, errors = opened(width=width, color_scheme=scheme, reduced_motion="reduce")
    settled(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(BEYOND, width) == []
    assert page.evaluate(INK)[0] > 400
    assert errors == []


# Left, top, right and bottom edge of the magenta robot, as shares of the picture.
EDGES = """() => {
  const canvas = document.querySelector('.scene canvas'), w = canvas.width, h = canvas.height;
  const data = canvas.getContext('2d').getImageData(0, 0, w, h).data;
  const edges = [1, 1, 0, 0];
  for (let i = 0; i < data.length; i += 4) {
    if (data[i] > 60 && data[i] > 2 * data[i + 1] && data[i + 2] > 2 * data[i + 1]) {
      const x = (i / 4) % w / w, y = Math.floor(i / 4 / w) / h;
      edges[0] = Math.min(edges[0], x); edges[1] = Math.min(edges[1], y);
      edges[2] = Math.max(edges[2], x); edges[3] = Math.max(edges[3], y);
    }
  }
  return edges;
}"""


@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("name", ["ur5e", "panda", "zollo_planar"])
def test_the_robot_fills_the_picture_and_stays_within(
    browser: Any,  # noqa: F811  (the fixture above)
    name: str,
    width: int,
    tmp_path: Path,
) -> None:
    robot = load_example(name)
    marked = LinkColour(Colour("#e020e0", "a link"), "")
    names = ("base", *robot.body_names)
    path = tmp_path / "scene.html"
    path.write_text(scene_page(scene_of(robot, colours=dict.fromkeys(names, marked))), encoding="utf-8")
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto(path.as_uri())
    for act in ("reset", "front", "side"):
        page.click(f"[data-act={act}]")
        settled(page)
        left, top, right, bottom = page.evaluate(EDGES)
        assert min(left, top) > 0.005
        assert max(right, bottom) < 0.995
        assert max(right - left, bottom - top) > 0.6
    page.close()


def test_it_moves_unless_the_reader_wants_none(opened: Any) -> None:
    page, _ = opened()
    wait_until(page, f"{SLIDER} > 0")
    page, _ = opened(reduced_motion="reduce")
    settled(page)  # one that plays never does
    assert page.evaluate("document.querySelector('.scene-bar output').textContent") == "0.00 s"
    page.click("[data-act=play]")
    wait_until(page, f"{SLIDER} > 0")


def test_keys_turn_zoom_and_play(opened: Any) -> None:
    page, errors = opened(reduced_motion="reduce")
    page.focus(".scene canvas")
    settled(page)
    _, x = page.evaluate(INK)
    for _ in range(6):
        page.keyboard.press("ArrowLeft")
    settled(page)
    assert abs(page.evaluate(INK)[1] - x) > 0.01
    page.keyboard.press("Home")
    settled(page)
    ink, back = page.evaluate(INK)
    assert back == pytest.approx(x, abs=1e-3)
    for _ in range(4):
        page.keyboard.press("+")
    settled(page)
    assert page.evaluate(INK)[0] > 1.3 * ink
    page.keyboard.press(".")
    assert page.evaluate(SLIDER) > 0
    page.keyboard.press(" ")
    assert page.text_content("[data-act=play]") == "Pause"
    assert errors == []


def test_joints_are_moved_by_hand_and_links_are_named(opened: Any, moving: Scene) -> None:
    page, _ = opened(reduced_motion="reduce")
    page.click(".scene-joints summary")
    assert page.locator(".scene-sliders input").count() == moving.robot.n
    page.evaluate(
        "() => { const one = document.querySelector('.scene-sliders input'); one.value = '1.5';"
        " one.dispatchEvent(new Event('input')); }"
    )
    R, _ = moving.placements(np.array([[1.5, *moving.q[0][1:]]]))
    found = page.evaluate("document.querySelector('.scene').scene.placements()")
    np.testing.assert_allclose(np.reshape(found[1][:9], (3, 3)), R[0, 1], atol=1e-5)
    settled(page)
    said = page.evaluate(
        """() => {
          const canvas = document.querySelector('.scene canvas'), names = new Set();
          const box = canvas.getBoundingClientRect();
          for (let x = 4; x < box.width; x += 8) { for (let y = 4; y < box.height; y += 8) {
            canvas.dispatchEvent(new PointerEvent('pointermove', { clientX: box.left + x, clientY: box.top + y }));
            names.add(document.querySelector('.scene-said').textContent);
          } }
          return [...names];
        }"""
    )
    assert f"{moving.robot.body_names[1]}: seen" in said
    assert len(said) > 4


def test_without_scripts_and_in_print_there_is_a_still(opened: Any) -> None:
    page, _ = opened(java_script_enabled=False)
    assert page.is_visible(".scene-still")
    assert not page.is_visible(".scene canvas")
    page, _ = opened(reduced_motion="reduce")
    page.emulate_media(media="print")
    assert page.is_visible(".scene-still")
    assert not page.is_visible(".scene canvas")
    assert not page.is_visible(".scene-bar")
