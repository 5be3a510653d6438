"""What is kept of a search for shapes and of a comparison of friction models."""

from __future__ import annotations

from dynid.base.records import dataclass


@dataclass(frozen=True)
class ShapeEstimate:
    """A nonlinear parameter of one joint.

    name: shape and number of the joint, "velocity5".    std: nan where the data do not determine it.
    lower, upper: bounds of the search.    note: "" or why the value is doubtful.
    """

    name: str
    term: str
    joint: str
    unit: str
    value: float
    std: float
    lower: float
    upper: float
    note: str = ""


@dataclass(frozen=True)
class FormScore:
    """How one form of friction did on blocks that it was not fitted on.

    parameters: linear and nonlinear ones of the joint.
    relative: held-out error over torque, both RMS, of all joints, each weighted by its own residual.
    gain: held-out mean square error less than that of the first candidate, as a share of the latter.
    gain_std: its standard error over blocks.    earned: whether the gain exceeds one standard error.
    """

    name: str
    parameters: int
    relative: float
    gain: float
    gain_std: float
    earned: bool


@dataclass(frozen=True)
class Choice:
    """Candidates for one joint, the simplest first, and the one chosen by the rule of one standard error.

    subject: "friction", or the term of the model whose worth was looked at (it stays in the model whatever comes out).
    """

    joint: str
    subject: str
    candidates: tuple[FormScore, ...]
    chosen: str

    @property
    def winner(self) -> FormScore:
        """The chosen candidate."""
        return next(one for one in self.candidates if one.name == self.chosen)
