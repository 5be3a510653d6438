"""What a model leaves of a log's torque."""

from __future__ import annotations

from dataclasses import dataclass

from dynid.arrays import Float, Int, locked_int, shared


@dataclass(frozen=True, eq=False)
class Residuals:
    """Measured and predicted torque, filtered alike, at the decimated rate.

    t: (T,) s, on the log's clock.    trajectory: (T,) index into `trajectories`.    segment: (T,).
    measured, predicted: (T, n) N m.    q, dq: (T, n), for plots against position and velocity.
    rate: Hz.
    std: (T, n) standard deviation of the predicted torque from that of the parameters; None = not known.
    temperature: (T, n) of the drives, degrees C, nan where a joint has none; None = not logged.
    """

    trajectories: tuple[str, ...]
    joint_names: tuple[str, ...]
    t: Float
    trajectory: Int
    segment: Int
    measured: Float
    predicted: Float
    q: Float
    dq: Float
    rate: float
    std: Float | None = None
    temperature: Float | None = None

    def __post_init__(self) -> None:
        T, n = len(self.t), len(self.joint_names)
        object.__setattr__(self, "t", shared(self.t, (T,), "t"))
        for name in ("trajectory", "segment"):
            object.__setattr__(self, name, locked_int(getattr(self, name), (T,), name))
        for name in ("measured", "predicted", "q", "dq"):
            object.__setattr__(self, name, shared(getattr(self, name), (T, n), name))
        for name in ("std", "temperature"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, shared(getattr(self, name), (T, n), name))

    @property
    def error(self) -> Float:
        """Measured minus predicted torque, (T, n)."""
        return self.measured - self.predicted
