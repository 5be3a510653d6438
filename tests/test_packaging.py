"""Files for packagers agree with pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from dynid.base import __version__
from dynid.verbs.selftest import EXTRAS

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
# Names of packages that are others in conda.
CONDA = {"mujoco-core": "mujoco-python"}


def section(text: str, name: str) -> list[str]:
    """Entries of a list of requirements in the recipe."""
    block = re.search(rf"^  {name}:\n((?:    +- .*\n)+)", text, re.MULTILINE)
    assert block is not None, name
    return [line.strip().removeprefix("- ") for line in block[1].splitlines()]


def test_the_conda_recipe_needs_what_the_package_needs() -> None:
    text = (ROOT / "packaging/conda/recipe.yaml").read_text(encoding="utf-8")
    project = PROJECT["project"]
    assert f"version: {project['version']}\n" in text
    wanted = {f"python {project['requires-python']}"}
    for line in project["dependencies"]:
        name, bounds = re.fullmatch(r"([\w-]+)(.*)", line).groups()  # type: ignore[union-attr]  # the pattern takes any line
        wanted.add(f"{CONDA.get(name, name)} {bounds}")
    assert set(section(text, "run")) == wanted
    built = {re.sub(r"==", " ==", line) for line in PROJECT["build-system"]["requires"]}
    assert set(section(text, "host")) == built | {"python", "pip"}


def test_one_version_everywhere() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {__version__}\n" in citation
    assert PROJECT["project"]["version"] == __version__


def test_all_holds_every_extra_of_users() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    (line,) = extras["all"]
    inside = line.removeprefix("dynid[").removesuffix("]").split(",")
    assert set(inside) == set(extras) - {"all", "browser", "docs", "test", "dev"}
    assert inside == sorted(inside)


def test_the_doctor_and_the_page_of_packages_know_every_extra() -> None:
    extras = set(PROJECT["project"]["optional-dependencies"]) - {"browser", "docs", "test", "dev"}
    page = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `dynid\[(\w+)\]`", page, re.MULTILINE)) == extras
    assert set(EXTRAS) == extras - {"all"}


def test_messages_name_extras_in_one_way() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    for path in (ROOT / "src").rglob("*.py"):
        for before, extra, after in re.findall(
            r"(.{0,13})dynid\[(\w+)\](.?)", path.read_text(encoding="utf-8")
        ):
            assert (before, after) == ("pip install '", "'"), path
            assert extra in extras, path


def test_the_wheel_carries_the_pages_that_explain_codes() -> None:
    build = PROJECT["tool"]["scikit-build"]
    assert build["wheel"]["packages"] == {"dynid": "src/dynid", "dynid/data/findings": "docs/findings"}
    assert "docs/findings/*" in build["sdist"]["include"]


def test_contributing_names_files_that_are_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for name in re.findall(r"`((?:src/dynid|docs|tests)/[\w/.-]+)`", text):
        assert (ROOT / name).exists(), name
    for name in re.findall(r"a line in `([\w/.]+)`", text):
        assert (ROOT / "src/dynid" / name).is_file(), name
    import dynid.testing

    for name in re.findall(r"`(\w+Contract)`", text):
        assert name in dynid.testing.__all__
