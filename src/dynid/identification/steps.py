"""What the steps of an identification hand on: the call, the log as equations want it, and the fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dynid.base.diagnostics import Diagnostics
from dynid.base.progress import Progress
from dynid.base.records import dataclass
from dynid.choose.choose_model import Chosen
from dynid.choose.search import Fitted, NonlinearFit, Search
from dynid.choose.shapes import ShapeEstimate
from dynid.estimate.estimator import Estimate, Estimator
from dynid.estimate.scores import LeftOut
from dynid.factor.blocking import Blocking
from dynid.identification.settings import Settings
from dynid.log.read import Log
from dynid.log.summary import LogSummary
from dynid.robot.model import RobotModel
from dynid.rows.automatic import RowsChoice
from dynid.rows.rows import Rows
from dynid.run.blocks import Rest
from dynid.signals.prepare import Prepared
from dynid.signals.repetition import Repetition
from dynid.signals.samples import Samples


@dataclass(frozen=True, eq=False)
class Call:
    """What all steps share.

    threads: of passes over the log.    simulating: threads of simulations.
    """

    robot: RobotModel
    log: Log
    settings: Settings
    threads: int
    simulating: int
    progress: Progress | None
    diagnostics: Diagnostics


@dataclass(frozen=True, eq=False)
class Data:
    """The log as equations want it.

    settings: with the terms that its encoders ask for.    rest: in which all joints stand.
    repeated: trajectories whose motion is gone through more than once, by name.    blocks: how the log is cut; of
    `repeated` those into parts of which a part can be held out of all repetitions together.
    """

    settings: Settings
    prepared: Prepared
    choice: RowsChoice
    rows: Rows
    batches: Iterable[Samples]
    summary: LogSummary
    rest: Rest
    repeated: Mapping[str, Repetition]
    blocks: Blocking


@dataclass(frozen=True, eq=False)
class Found:
    """The fit of the model as it was chosen, with its nonlinear parameters.

    trial: the search on the samples that models are compared on.
    free: the estimate before its bodies were made physically consistent; it shows signs that no real robot has.
    estimator: that the estimate came from.    left_out: what the training's scores leave out, by this fit.
    """

    trial: Search
    model: Chosen
    nonlinear: NonlinearFit
    fitted: Fitted
    free: Estimate
    estimate: Estimate
    estimator: Estimator
    shapes: tuple[ShapeEstimate, ...]
    stiffness: dict[str, list[dict[str, object]]]
    left_out: LeftOut | None = None
