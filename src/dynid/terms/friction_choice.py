"""Friction whose form is chosen by joint: the candidates, and the term that stands for the choice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np

from dynid.base.arrays import Bool
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.kernel import Panels
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.curve import CurveTerm
from dynid.terms.friction import WIDTH, Coulomb, Offset, Viscous
from dynid.terms.joint_term import joint_indices, on_joints
from dynid.terms.term import CATALOGUE, Column, Side, Term, Terms

Names = tuple[str, ...]
BASELINE = "coulomb"
_PLAIN: dict[str, Callable[[Names], Term]] = {
    "viscous": lambda on: Viscous(joints=on),
    "coulomb": lambda on: Coulomb(WIDTH, joints=on),
    "offset": lambda on: Offset(joints=on),
}


class _Forms(Mapping[str, Callable[[Names], Terms]]):
    """Forms of friction by label, plain friction first: every term of the catalogue that has a form."""

    def __getitem__(self, label: str) -> Callable[[Names], Terms]:
        return self._all()[label]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    @staticmethod
    def _all() -> Mapping[str, Callable[[Names], Terms]]:
        kinds = [kind for kind in CATALOGUE.values() if issubclass(kind, CurveTerm) and kind.form]
        return {BASELINE: partial(_with_form, None)} | {
            kind.form.label: partial(_with_form, kind) for kind in kinds if kind.form
        }


def _with_form(kind: type[CurveTerm] | None, on: Names) -> Terms:
    """Plain friction with a form among it, on some joints."""
    if kind is None or kind.form is None:
        return Terms(tuple(make(on) for make in _PLAIN.values()))
    plain = [make(on) for label, make in _PLAIN.items() if label not in kind.form.replaces]
    return Terms((*plain, on_joints(kind(**kind.form.options), on)))


CANDIDATES: Mapping[str, Callable[[Names], Terms]] = _Forms()


@dataclass(frozen=True)
class FrictionChoice(Term):
    """Friction of the form that predicts held-out blocks best, joint by joint; in a result its choice stands instead.

    Until it is chosen it is viscous, Coulomb (width 0.02) and offset.
    choose: "auto" for all candidates, or names of some; "coulomb" is always among them.
    joints: names of the joints it acts on; empty = all.
    """

    choose: str | tuple[str, ...] = "auto"
    joints: tuple[str, ...] = ()
    name: str = "friction"
    remembers: ClassVar[bool] = True
    side = Side.MOTOR

    def __post_init__(self) -> None:
        unknown = [one for one in self.candidates if one not in CANDIDATES]
        if unknown:
            raise UsageError(
                "unknown-friction",
                found=f"friction '{unknown[0]}'",
                expected="'auto' or some of " + ", ".join(CANDIDATES),
            )

    @property
    def candidates(self) -> tuple[str, ...]:
        """Names of the candidates, the baseline first."""
        if self.choose == "auto":
            return tuple(CANDIDATES)
        named = (self.choose,) if isinstance(self.choose, str) else self.choose
        return tuple(dict.fromkeys((BASELINE, *named)))

    @property
    def is_open(self) -> bool:
        """Until its form is chosen, always."""
        return True

    def alternatives(self, joints: tuple[str, ...]) -> Mapping[str, Terms]:
        """The candidates."""
        return {name: CANDIDATES[name](joints) for name in self.candidates}

    def baseline(self) -> Terms:
        """The form it has before the choice."""
        return CANDIDATES[BASELINE](self.joints)

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """Those of the baseline."""
        joint_indices(robot, self.joints)
        return tuple(replace(column, term=self.name) for column in self.baseline().columns(robot))

    def alive(self, robot: RobotModel, moved: Bool) -> Bool:
        """That of the baseline."""
        return np.concatenate([term.alive(robot, moved) for term in self.baseline()])

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """That of the baseline."""
        return self.baseline().torque_regressor(robot, samples, np.asarray(wanted, dtype=np.bool_))
