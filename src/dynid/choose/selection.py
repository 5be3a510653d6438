"""What is kept of a choice among models."""

from __future__ import annotations

from dynid.base.records import dataclass


@dataclass(frozen=True)
class Model:
    """One combination of options, one an axis.

    parameters: columns of the model, and one for every shape that was estimated.
    relative: held-out error over torque, both RMS, every joint weighted by its own residual.
    behind: held-out squared error in excess of the best model's, as a share of the latter.
    behind_std: its standard error over blocks.    within: whether the excess is within one standard error,
    or too small to matter.
    """

    options: tuple[str, ...]
    parameters: int
    relative: float
    behind: float
    behind_std: float
    within: bool


@dataclass(frozen=True)
class Ablation:
    """What one option of the chosen model is worth: the chosen model against the same with another option.

    gain: held-out squared error less than with the other option, as a share of the latter; negative = more.
    gain_std: its standard error over blocks.
    """

    axis: str
    option: str
    other: str
    gain: float
    gain_std: float


@dataclass(frozen=True)
class JointForm:
    """A form of friction that earned its place on one joint.

    gain: held-out squared error of all joints less than with plain friction, as a share of the latter.
    gain_std: its standard error over blocks.
    """

    joint: str
    form: str
    gain: float
    gain_std: float


@dataclass(frozen=True)
class MeasurementEffect:
    """A quantity of the log rather than of the robot, estimated beside the chosen model.

    half_width: of the 95 % interval.    adopted: whether the chosen model contains it.
    fault: whether it is the log's alone, which no robot has.
    """

    name: str
    kind: str
    joint: str
    unit: str
    value: float
    half_width: float
    adopted: bool
    fault: bool = True

    @property
    def significant(self) -> bool:
        """Whether its interval leaves out zero."""
        return abs(self.value) > self.half_width


@dataclass(frozen=True)
class Selection:
    """Models compared on held-out blocks, the one chosen by the rule of one standard error first among `models`.

    axes: names of the options' axes.    models: the chosen one, then the others from the best on, at most MOST.
    compared: how many were compared.    folds: into how many runs of blocks the log was cut.
    friction: what "by joint" stands for.    ablations: what each chosen option gains.
    measurement_effects: what the log adds to the robot.
    """

    axes: tuple[str, ...]
    models: tuple[Model, ...]
    compared: int
    folds: int
    friction: tuple[JointForm, ...]
    ablations: tuple[Ablation, ...]
    measurement_effects: tuple[MeasurementEffect, ...]

    @property
    def chosen(self) -> Model:
        """The chosen model."""
        return self.models[0]


MOST = 40
