"""Robot descriptions: readers, checks and the model that everything else works on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dynid.robot.description import describe
    from dynid.robot.load import load_example, load_robot

__all__ = ["describe", "load_example", "load_robot"]


def __getattr__(name: str) -> Any:
    # Types of this room are imported by every other one; the readers are loaded only when they are called.
    if name == "describe":
        from dynid.robot.description import describe

        return describe
    if name in ("load_example", "load_robot"):
        from dynid.robot import load

        return getattr(load, name)
    raise AttributeError(name)
