"""Terms of plug-ins that were written when everything was a member of `Term` work as before, with a warning."""

from __future__ import annotations

import inspect
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from dynid.base import Level
from dynid.signals import Samples
from dynid.terms import (
    CATALOGUE,
    FRICTION_FORM,
    Coefficient,
    Column,
    CurveTerm,
    Dry,
    Extent,
    Feature,
    FrictionForm,
    Hypothesis,
    JointMotion,
    JointTerm,
    Kind,
    LogFacts,
    MotionBasis,
    OnJoint,
    Question,
    Reads,
    Role,
    Scale,
    Shape,
    Side,
    Symbol,
    Term,
    Terms,
    Viscous,
    ZeroShift,
    alive_columns,
    channels_of,
    exported_parts,
    has_open_choice,
    known_torque,
    range_of,
    rival_of,
    torque_of,
)
from dynid.terms.channel import channel
from dynid.terms.curve import c_texts
from dynid.terms.forms import balanced_joints, energy_form, within_extent
from dynid.terms.old import INSTEAD
from dynid.terms.residual_tests import Notice
from dynid.terms.term import OLD_MEMBERS
from dynid.testing import TermContract, random_robot, smooth_samples

ROBOT = random_robot(1, 3, 0.0)
SAMPLES = smooth_samples(ROBOT, 40, channels=("pressure",))


def old_classes() -> dict[str, Any]:
    """Classes as plug-ins have them, and the warnings that they give."""

    @dataclass(frozen=True)
    class Hose(Term):
        """A hose that pulls on the first joint, with much of what an old term could say."""

        scale_of_hose: float = 1.0
        name: str = "hose"
        side = Side.MOTOR
        of_log = True
        reads_rate = True
        passive = True
        scale = Scale.FIXES
        as_cause = "a hose"
        symbols = (Symbol("h", "h", "", "pull of the hose"),)
        role, question = Role.ROBOT, Question("hoses")

        @classmethod
        def proposed(cls, robot: Any, log: Any) -> Any:
            return (*super().proposed(robot, log), cls)  # type: ignore[misc]  # the adapter has it

        @classmethod
        def lacking(cls, fit: Any) -> Iterator[Hypothesis]:
            yield Notice("hose", Level.NOTE, f"{cls.__name__} on {fit}")

        def notices(self, held: Any) -> Iterator[Hypothesis]:
            yield Notice("hose", Level.NOTE, f"{self.name} and {held}")

        def columns(self, robot: Any) -> Any:
            return (Column("h", "N m", self.name, 0),)

        def torque_regressor(self, robot: Any, samples: Any, wanted: Any) -> Any:
            return Viscous(joints=(robot.joint_names[0],)).torque_regressor(robot, samples, wanted)

        def known_torque(self, robot: Any, samples: Any) -> Any:
            return np.full((len(samples), robot.n), 2.0) + 0.0 * channel(samples, "pressure")[:, None]

        def exported(self, robot: Any, theta: Any) -> Any:
            others = super().exported(robot, theta)  # type: ignore[misc]  # the adapter has it
            return (OnJoint(0, float(theta[0]), MotionBasis.SPEED), *(others or ()))

        def zeros(self, robot: Any, theta: Any) -> Any:
            return np.arange(robot.n)

        def channels(self) -> Any:
            return ("pressure",)

        def balances(self, robot: Any) -> Any:
            return np.arange(robot.n) == 0

        def alive(self, robot: Any, moved: Any) -> Any:
            return moved[:1] if self.channels() else moved[:0]

        def energy_form(self, robot: Any, samples: Any, wanted: Any) -> Any:
            h, W = super().energy_form(robot, samples, wanted)  # type: ignore[misc]  # the adapter has it
            return h + 1.0, W

        def within(self, robot: Any, extent: Any) -> Any:
            return Hose(0.5)

    @dataclass(frozen=True)
    class Square(JointTerm):
        """One parameter a joint, tried by its label."""

        width: float = 0.1
        joints: tuple[str, ...] = ()
        name: str = "old_square"
        symbol = "fq"
        unit_revolute = "N m s^2/rad^2"
        unit_prismatic = "N s^2/m^2"
        is_friction = True
        steps = True
        exports_as = MotionBasis.SIGN
        role, question, label = Role.PLAIN, Question("squares"), "square"
        group = FRICTION_FORM

        @classmethod
        def tried_on(cls, log: Any) -> Any:
            return cls(0.1 * log.slowness)

        @classmethod
        def features(cls, remains: Any, joint: int) -> tuple[Feature, ...]:
            return (cls.__name__, joint)  # type: ignore[return-value]  # what comes back is handed on

        def basis(self, robot: Any, samples: Any) -> Any:
            return np.abs(samples.dq) * samples.dq

    @dataclass(frozen=True)
    class Bend(CurveTerm):
        """A curve with a shape, its range and its text in C."""

        bend: Any = None
        joints: tuple[str, ...] = ()
        name: str = "old_bend"
        coefficients = (Coefficient("fa", "N m", "N"),)
        shapes = (Shape("bend", "rad/s", "m/s", typical=0.1),)
        form = FrictionForm("old_bend", replaces=("coulomb",), tried=(0.3, 0.6))
        is_friction = False

        def range_of(self, motion: Any) -> Any:
            return np.array([[1e-3 * motion.peak, motion.peak]])

        def rival(self, joints: Any) -> Any:
            return Terms(())

        def curve(self, robot: Any, samples: Any, joint: int, shape: Any) -> Any:
            return np.arctan(samples.dq[:, joint] / shape[0])[None, :]

        def c_texts(self, joint: int, shape: Any, speed: str) -> Any:
            return (f"atan({speed})",)

    return {"Hose": Hose, "Square": Square, "Bend": Bend}


with warnings.catch_warnings(record=True) as CAUGHT:
    warnings.simplefilter("always")
    OLD = old_classes()


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("Hose", "exported: @exported_parts.register of dynid.terms.forms"),
        ("Hose", "side: traits = Traits(side=...)"),
        ("Hose", "symbols: words = TermWords(symbols=...)"),
        ("Square", "label: selection = Selection(proposed=...)"),
        ("Square", "is_friction: traits = Traits(kind=Kind.FRICTION)"),
        ("Bend", "range_of: @range_of.register of dynid.terms.curve"),
    ],
)
def test_a_warning_names_what_to_write_instead(name: str, instead: str) -> None:
    (warning,) = (one for one in CAUGHT if f"{name} has members" in str(one.message))
    assert warning.category is DeprecationWarning
    assert warning.filename == __file__
    assert instead in str(warning.message)


def test_new_terms_are_not_warned_of() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")

        @dataclass(frozen=True)
        class New(JointTerm):
            side: str = "an option of its own"
            name: str = "new"
            symbol = "n"
            unit_revolute = unit_prismatic = "1"

            def basis(self, robot: Any, samples: Samples) -> Any:
                return samples.q

    assert New.traits is JointTerm.traits
    assert New().side == "an option of its own"


def test_data_are_traits_words_and_selection() -> None:
    traits = OLD["Hose"].traits
    assert (traits.kind, traits.side, traits.reads) == (Kind.LOG, Side.MOTOR, Reads.RATE)
    assert (traits.passive, traits.scale) == (True, Scale.FIXES)
    words = OLD["Hose"].words
    assert words.symbols[0].name == "h"
    with pytest.warns(DeprecationWarning, match="write dynid.base.Finding"):
        said = [*words.lacking("it"), *words.notices(OLD["Hose"](), "it")]
    assert [(one.finding.code, one.finding.text) for one in said] == [
        ("hose", "Hose on it"),
        ("hose", "hose and it"),
    ]
    assert OLD["Hose"].selection.question == Question("hoses")
    traits = OLD["Square"].traits
    assert (traits.kind, traits.dry, traits.basis) == (Kind.FRICTION, Dry.STEP, MotionBasis.SIGN)
    assert traits.side is Side.MOTOR
    assert OLD["Bend"].traits.kind is Kind.EFFECT
    assert OLD["Square"].words.features(None, 2) == ("Square", 2)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_proposals_are_those_of_the_class() -> None:
    hose, square = OLD["Hose"], OLD["Square"]
    assert hose.selection.proposed(hose, ROBOT, LogFacts()) == (hose,)
    (proposal,) = square.selection.proposed(square, ROBOT, LogFacts(slowness=0.5))
    assert (proposal.label, proposal.variants, proposal.role) == ("square", (square(0.05),), Role.PLAIN)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_methods_are_asked_for_by_the_functions_of_terms() -> None:
    hose, theta, wanted = OLD["Hose"](), np.array([3.0]), np.ones(1, dtype=np.bool_)
    assert channels_of(hose) == ("pressure",)
    known = known_torque(hose, ROBOT, SAMPLES)
    assert known is not None
    assert known.max() == 2.0
    line, zeros = exported_parts(hose, ROBOT, theta) or ()
    assert isinstance(line, OnJoint)
    assert isinstance(zeros, ZeroShift)
    assert zeros.positions.tolist() == [0.0, 1.0, 2.0]
    assert balanced_joints(hose, ROBOT).tolist() == [True, False, False]
    assert alive_columns(hose, ROBOT, np.array([False, True, True])).tolist() == [False]
    assert energy_form(hose, ROBOT, SAMPLES, wanted)[0].max() == 1.0
    assert within_extent(hose, ROBOT, Extent(*np.zeros((3, 3)))) == OLD["Hose"](0.5)
    np.testing.assert_array_equal(hose.torque(ROBOT, SAMPLES, theta), torque_of(hose, ROBOT, SAMPLES, theta))


def test_curves_keep_their_range_their_rival_and_their_text() -> None:
    bend = OLD["Bend"]()
    assert has_open_choice(bend)
    assert range_of(bend, JointMotion(2.0, 1.0, 1.0)).tolist() == [[2e-3, 2.0]]
    assert rival_of(bend, ()) == Terms(())
    assert c_texts(bend, 0, np.ones(1), "dq") == ("atan(dq)",)


def test_built_in_terms_answer_by_their_old_names_with_a_warning() -> None:
    viscous: Any = Viscous()
    with pytest.warns(DeprecationWarning, match="@torque_of.register"):
        tau = viscous.torque(ROBOT, SAMPLES, np.ones(3))
    np.testing.assert_array_equal(tau, SAMPLES.dq)
    with pytest.warns(DeprecationWarning, match="Kind.FRICTION"):
        assert viscous.is_friction
    with pytest.raises(AttributeError, match="'Viscous' has no attribute 'nothing'"):
        _ = viscous.nothing


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
class TestOldHose(TermContract):
    def term(self) -> Term:
        term: Term = OLD["Hose"]()
        return term


class TestOldSquare(TermContract):
    def term(self) -> Term:
        term: Term = OLD["Square"]()
        return term


class TestOldBend(TermContract):
    def term(self) -> Term:
        term: Term = OLD["Bend"](0.3)
        return term


def test_the_protocols_have_nine_members() -> None:
    """What a term says: its columns, its curve and its words; the traits and the selection are data."""

    def own(kind: type, *bases: type) -> set[str]:
        names = {*vars(kind), *inspect.get_annotations(kind)} - {name for base in bases for name in dir(base)}
        return {name for name in names if not name.startswith("_")}

    columns = own(Term, object) - set(INSTEAD)
    assert columns == {"name", "columns", "torque_regressor", "traits", "words", "selection"}
    curve = own(CurveTerm, JointTerm) - {"form"}
    assert curve == {"coefficients", "shapes", "curve"}
    assert len(columns | curve) == 9


def test_the_old_interface_is_loaded_for_its_members_alone() -> None:
    assert frozenset(INSTEAD) == OLD_MEMBERS
    code = (
        "import sys; from dynid.terms import *; from dynid.terms.forms import channels_of\n"
        "assert not channels_of(Viscous()) and not hasattr(Viscous(), 'of')\n"
        "assert 'dynid.terms.old' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_no_built_in_term_has_an_old_member() -> None:
    for kind in CATALOGUE.values():
        options = {*kind.__dataclass_fields__}
        for base in kind.__mro__:
            if base.__module__.startswith("dynid.") and base is not Term:
                assert not (set(vars(base)) & set(INSTEAD)) - options - {"label"}, (kind, base)


def test_joints_of_a_term_are_names_wherever_it_has_any() -> None:
    for kind in CATALOGUE.values():
        assert not callable(getattr(kind, "joints", ())), kind
