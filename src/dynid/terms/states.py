"""Motion states that a user hands over: one (n,) or many (T, n)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from dynid.base.arrays import Float
from dynid.base.errors import UsageError
from dynid.robot.model import RobotModel
from dynid.signals.samples import POSE_RATE, Samples
from dynid.terms.term import Terms


def states(
    robot: RobotModel,
    terms: Terms,
    q: npt.ArrayLike,
    dq: npt.ArrayLike,
    ddq: npt.ArrayLike,
    *,
    rate: float | None = None,
    temperature: npt.ArrayLike | None = None,
    extra: Mapping[str, npt.ArrayLike] | None = None,
) -> tuple[Samples, tuple[int, ...]]:
    """Samples of given states for a model, and the shape that their torque has: that of q.

    q, dq, ddq, temperature: (T, n), or (n,) for one state.    extra: channels by name, (T,).
    rate: Hz, of consecutive states; None = states by themselves, whose torque does not change along time, all at the
    beginning of the log's time.
    Raises UsageError for arrays of another shape, without the channels that terms read, or a rate that is not positive.
    """
    if missing := [name for name in terms.channels() if name not in (extra or {})]:
        raise UsageError(
            "missing-channel",
            found=f"states without the channel '{missing[0]}' that the model reads",
            expected=f"extra = {{'{missing[0]}': values}}, (T,)",
        )
    if rate is not None and not 0 < rate < np.inf:
        raise UsageError(
            "no-rate",
            found=f"a rate of {rate} Hz",
            expected="samples a second of consecutive states, or None",
        )
    shape = np.shape(q)
    given = {"q": q, "dq": dq, "ddq": ddq}
    if temperature is not None:
        given["temperature"] = temperature
    arrays = {name: _states(values, shape, robot, name) for name, values in given.items()}
    T = len(arrays["q"])
    samples = Samples.from_motion(arrays["q"], arrays["dq"], arrays["ddq"], rate=rate or POSE_RATE)
    if rate is None:
        samples = replace(samples, t=np.zeros(T))
    channels = {name: _channel(values, T, name) for name, values in (extra or {}).items()}
    return replace(samples, temperature=arrays.get("temperature"), extra=channels), shape


def _states(values: npt.ArrayLike, shape: tuple[int, ...], robot: RobotModel, name: str) -> Float:
    array = np.array(values, dtype=np.float64)
    if array.shape != shape or array.ndim not in (1, 2) or array.shape[-1] != robot.n:
        raise UsageError(
            "array-shape",
            found=f"{name} of shape {array.shape}",
            expected=f"(T, {robot.n}) or ({robot.n},), the same for q, dq and ddq: the joints of '{robot.name}'",
        )
    return array.reshape(-1, robot.n)


def _channel(values: npt.ArrayLike, T: int, name: str) -> Float:
    array = np.array(values, dtype=np.float64).reshape(-1)
    if len(array) not in (1, T):
        raise UsageError("array-shape", found=f"channel '{name}' of {len(array)} values", expected=f"{T}")
    return np.broadcast_to(array, (T,)).copy()
