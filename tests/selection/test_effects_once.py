"""Two effects that are one file and one line of the catalogue each, seen wherever effects are seen."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import dynid
from dynid.base import Diagnostics, Float
from dynid.diagnosis import diagnose
from dynid.exporters import export
from dynid.identification import Settings
from dynid.report import report_html
from dynid.run import Identification
from dynid.signals import Preparation
from dynid.terms import FrictionChoice, RigidBody, RotorInertia
from dynid.testing import TrueMotion, analysis_of, small_arm
from tests.selection.arm import identified
from tests.selection.logs import THETA, chosen, motion

BEND = 0.3
EFFECTS = {
    "saturating_viscous": ("SaturatingViscous", "saturating_viscous", "fvs"),
    "zero_offset": ("ZeroOffset", "zero_offset", "zq"),
}
FILES = {"saturating_viscous": "friction_curves", "zero_offset": "zero_offset"}


def saturating(clean: Float) -> Float:
    """Torque whose second joint has friction that bends over in place of viscous friction."""
    dq = motion()[1][:, 1]
    own = np.array(clean)
    own[:, 1] += -THETA[34] * dq + 6.0 * dq / (1.0 + np.abs(dq) / BEND)
    return own


@pytest.fixture(scope="module")
def bent(tmp_path_factory: pytest.TempPathFactory) -> Identification:
    return chosen(tmp_path_factory.mktemp("bent"), saturating)


@pytest.fixture(scope="module")
def askew(tmp_path_factory: pytest.TempPathFactory) -> Identification:
    return identified(tmp_path_factory.mktemp("askew"), np.radians([0.0, 0.0, 2.0, 0.0, 0.0, 0.0]))


@pytest.mark.parametrize("name", EFFECTS)
def test_an_effect_is_one_file_and_one_line(name: str) -> None:
    source = Path(dynid.__file__).parent
    naming = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if re.search("|".join(rf"\b{word}\b" for word in EFFECTS[name]), path.read_text(encoding="utf-8"))
    }
    assert naming == {f"terms/{FILES[name]}.py", "terms/catalogue.py"}
    catalogue = (source / "terms/catalogue.py").read_text(encoding="utf-8").splitlines()
    assert len([line for line in catalogue if EFFECTS[name][0] in line and "import" not in line]) == 1


def test_the_choice_finds_the_friction_and_its_bend(bent: Identification) -> None:
    assert bent.selection is not None
    assert {(one.joint, one.form) for one in bent.selection.friction} >= {("joint2", "saturating")}
    assert "by joint" in bent.selection.chosen.options
    (bend,) = [one for one in bent.shapes if one.joint == "joint2"]
    assert abs(bend.value - BEND) <= 3 * bend.std
    value = dict(zip(bent.estimate.names, bent.estimate.value, strict=True))["fvs2"]
    assert abs(value / 6.0 - 1.0) < 0.1


def test_an_experiment_that_names_forms_compares_them_alike(bent: Identification, tmp_path: Path) -> None:
    """The forms of `{ term = "friction" }` are judged as those that the log chooses by itself.

    The two comparisons hold the prior at the effective samples of a plain fit of their own.
    """
    terms = RigidBody() + RotorInertia() + FrictionChoice(("saturating", "presliding", "stribeck"))
    named = chosen(tmp_path, saturating, settings=Settings(terms=terms, preparation=Preparation(cutoff=6.0)))
    assert bent.selection is not None
    (own,) = [one for one in bent.selection.friction if one.joint == "joint2"]
    (choice,) = [one for one in named.choices if one.joint == "joint2"]
    assert (choice.chosen, own.form) == ("saturating", "saturating")
    assert choice.winner.gain == pytest.approx(own.gain, rel=0.03)
    assert choice.winner.gain_std == pytest.approx(own.gain_std, rel=0.03)


def test_the_report_names_it(bent: Identification, askew: Identification) -> None:
    assert "viscous friction at low speed, saturating" in report_html(bent)
    text = report_html(askew)
    assert "zero offset of the joint&#39;s position" in text
    assert "zeros" in text


def test_c_code_holds_the_curve(bent: Identification, tmp_path: Path) -> None:
    export(bent, tmp_path / "model.c", diagnostics=Diagnostics())
    assert "dq[1] / (1.0 + fabs(dq[1]) / " in (tmp_path / "model.c").read_text(encoding="utf-8")


def test_mjcf_holds_the_closest_lines_and_says_what_is_lost(bent: Identification, tmp_path: Path) -> None:
    said = Diagnostics()
    export(bent, tmp_path / "model.xml", diagnostics=said, allow_unphysical=True)
    (warning,) = [one for one in said.warnings if one.identifier == "export-straightened"]
    assert "'joint2'" in warning.text
    assert "'joint1'" not in warning.text
    assert 'name="joint2"' in (tmp_path / "model.xml").read_text(encoding="utf-8")


def test_the_diagnosis_names_what_plain_models_lack() -> None:
    def effect(motion: TrueMotion, rng: np.random.Generator) -> Float:
        added = np.zeros_like(motion.tau)
        dq = motion.dq[:, 1]
        added[:, 1] = 1.5 * motion.size[1] * dq / (1.0 + np.abs(dq) / 0.4)
        return added

    found = [one for one in diagnose(analysis_of(small_arm(), effect)) if one.joint == "shoulder"]
    assert "saturating_viscous" in found[0].advice
    assert "saturates" in found[0].text


def test_a_zero_that_the_model_holds_is_reported(askew: Identification) -> None:
    (doubt,) = [one for one in askew.diagnostics.doubts if one.identifier == "zero-offset"]
    assert "'joint3'" in doubt.text
    assert "position.offset" in doubt.text
