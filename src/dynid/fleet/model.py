"""The model that all logs of a type share, as a text that travels to workers and stays beside the factors."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base import Bool, DynidError, Float, InputError, Int, Place, UsageError, dataclass, plain
from dynid.factor import BaseMap, random_states, structural_base
from dynid.identification import Experiment
from dynid.robot import RobotModel, robot_from_dict, robot_to_dict
from dynid.rows import TorqueRows
from dynid.run import Identification, load
from dynid.signals import Preparation
from dynid.terms import (
    Column,
    Compliance,
    MotionBasis,
    Of,
    Question,
    Term,
    Terms,
    terms_from_spec,
    terms_to_spec,
)

FORMAT = 1
# Of the random states for the base parameters, which must be the same on every machine.
_SEED = 0
# Directions of the last body that a load changes first: its mass and first moments.
_LOAD = 4


@dataclass(frozen=True, eq=False)
class TypeModel:
    """Robot, terms and signals of one type, and the values that its logs are compared with.

    terms: those of the model, then `watched` further columns whose values are zero in the model: the compliances of
        its joints, if it has none of its own.
    theta: (p,) values of the model's parameters.    preparation: of the signals.
    experiment: how its logs are read, in the form of an experiment file.    accepted: claims that warn.
    """

    name: str
    robot: RobotModel
    terms: Terms
    watched: int
    theta: Float
    preparation: Preparation
    experiment: Mapping[str, Any]
    accepted: tuple[str, ...]

    @staticmethod
    def of_run(name: str, folder: Path, experiment: Path | None = None) -> TypeModel:
        """The model of a run folder.

        experiment: file whose [log] table says how the logs are read, in place of the run's.
        Raises InputError for a folder that is no run or an experiment that is wrong.
        """
        run = load(folder)
        written: Any = run.experiment
        if experiment is not None:
            written = Experiment.read(experiment).raw
        reading: dict[str, Any] = {"log": written["log"]} if "log" in written else {}
        reading["model"] = {"terms": terms_to_spec(run.terms)}
        settings: Any = run.preparation["settings"]
        estimate = run.estimate
        theta = estimate.consistent if len(estimate.consistent) else estimate.parameters
        terms, watched = _watching(run)
        return TypeModel(
            name=name,
            robot=run.robot,
            terms=terms,
            watched=watched,
            theta=np.asarray(theta),
            preparation=replace(Preparation(**settings), rate=None),
            experiment=plain(reading),
            accepted=tuple(run.accepted),
        )

    def text(self) -> str:
        """The model as JSON; the same model gives the same text."""
        data = {
            "format": FORMAT,
            "name": self.name,
            "robot": robot_to_dict(self.robot),
            "terms": terms_to_spec(self.terms),
            "watched": self.watched,
            "theta": self.theta.tolist(),
            "preparation": asdict(self.preparation),
            "experiment": self.experiment,
            "accepted": list(self.accepted),
        }
        return json.dumps(plain(data), sort_keys=True, allow_nan=False) + "\n"

    @staticmethod
    def of_text(text: str, file: str = "model") -> TypeModel:
        """The model of a text; raises InputError if it is none, or of a newer version."""
        try:
            data = json.loads(text)
            if data["format"] != FORMAT:
                raise ValueError(f"format {data['format']}")
            return TypeModel(
                name=data["name"],
                robot=robot_from_dict(data["robot"]),
                terms=terms_from_spec(data["terms"]),
                watched=int(data["watched"]),
                theta=np.array(data["theta"], dtype=np.float64),
                preparation=Preparation(**data["preparation"]),
                experiment=data["experiment"],
                accepted=tuple(data["accepted"]),
            )
        except (LookupError, TypeError, ValueError, AttributeError, DynidError) as error:
            raise InputError(
                "damaged-fleet",
                found=f"no model of a type ({type(error).__name__}: {error})",
                expected=f"one of format {FORMAT}",
                place=Place(file=file),
            ) from error

    @cached_property
    def digest(self) -> str:
        """Hash of the text: factors of one store belong to one model."""
        return hashlib.sha256(self.text().encode()).hexdigest()[:24]

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """All p parameters."""
        return self.terms.columns(self.robot)

    @cached_property
    def base(self) -> BaseMap:
        """Base parameters of the model's own terms; what is watched stands beside them."""
        return structural_base(self.robot, _first(self.terms, self.watched), TorqueRows(), _SEED)

    @cached_property
    def kept(self) -> Int:
        """(k,) parameters whose columns the factors hold: the base's b, then the watched ones."""
        p = len(self.columns)
        return np.concatenate([self.base.independent, np.arange(p - self.watched, p)])

    @property
    def wanted(self) -> Bool:
        """(p,) mask of the same."""
        mask = np.zeros(len(self.columns), dtype=np.bool_)
        mask[self.kept] = True
        return mask

    @cached_property
    def layout(self) -> tuple[Int, ...]:
        """By joint, the parameters (w_j,) whose columns its factor holds, ascending."""
        samples = random_states(self.robot, 8, _SEED, self.terms.channels(), clock=self.terms.clock())
        found = TorqueRows().equations(self.robot, self.terms, samples, self.wanted)
        return tuple(np.asarray(columns) for columns in found.columns)

    @cached_property
    def value(self) -> Float:
        """(k,) values of the kept parameters: base parameters of the model, zero for the watched ones."""
        own = len(self.columns) - self.watched
        return np.concatenate([self.base.reduce(self.theta[:own]), np.zeros(self.watched)])

    @cached_property
    def names(self) -> tuple[str, ...]:
        """(k,) base parameters as formulas, then the watched parameters by name."""
        return (*self.base.formulas(), *(self.columns[i].name for i in self.kept[self.base.rank :]))

    @property
    def units(self) -> tuple[str, ...]:
        """(k,)."""
        return tuple(self.columns[i].unit for i in self.kept)

    def friction(self, joint: int) -> Bool:
        """(k,) the friction of a joint, without its offset."""
        known = self.terms.friction_columns(self.robot)
        return np.array([bool(known[i]) and self.columns[i].owner == joint for i in self.kept])

    def offset(self, joint: int) -> Bool:
        """(k,) the torque of a joint that nothing moves."""
        return self._of(lambda term: getattr(term, "exports_as", None) is MotionBasis.ONE, joint)

    def compliance(self, joint: int) -> Bool:
        """(k,) the compliance of a joint."""
        return self._of(_is_compliance, joint)

    @cached_property
    def daily(self) -> Bool:
        """(k,) what may differ from day to day on a robot that is as it was: friction and offsets, beside gains."""
        every = [self.friction(j) | self.offset(j) for j in range(self.robot.n)]
        return np.asarray(np.logical_or.reduce(every))

    @cached_property
    def load(self) -> Float:
        """(k, 4) how mass and first moments of the last body move the kept parameters."""
        last = self.robot.n_bodies - 1
        own = [i for i, one in enumerate(self.columns) if one.of is Of.BODY and one.owner == last][:_LOAD]
        return np.concatenate([self.base.B[:, own], np.zeros((self.watched, len(own)))])

    def _of(self, kind: Callable[[Term], bool], joint: int) -> Bool:
        named = {term.name for term in self.terms if kind(term)}
        return np.array(
            [self.columns[i].term in named and self.columns[i].owner == joint for i in self.kept],
            dtype=np.bool_,
        )


def _watching(run: Identification) -> tuple[Terms, int]:
    """The terms of a run with compliances of all joints about its bodies, where it has none."""
    bodies = [i for i, one in enumerate(run.estimate.columns) if one.of is Of.BODY]
    if any(_is_compliance(term) for term in run.terms) or len(bodies) != 10 * run.robot.n_bodies:
        return run.terms, 0
    estimate = run.estimate
    theta = estimate.consistent if len(estimate.consistent) else estimate.parameters
    return run.terms + Compliance(inertia=tuple(theta[bodies].tolist())), run.robot.n


def _is_compliance(term: Term) -> bool:
    return term.question == Question("elasticity")


def _first(terms: Terms, watched: int) -> Terms:
    return Terms(tuple(terms)[:-1]) if watched else terms


def check_same(stored: TypeModel, given: TypeModel, folder: Path) -> None:
    """Raises UsageError if a type's model is another one than that its factors in a store were made with."""
    if stored.digest != given.digest:
        raise UsageError(
            "fleet-model",
            found=f"another model of type '{given.name}' than that of the factors in '{folder}'",
            expected="the same: factors of two models cannot be pooled",
            do="choose another --out",
        )
