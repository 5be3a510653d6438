"""Many logs of many robots: one factor a log in a store, pooled, fitted and watched without the logs."""

from __future__ import annotations

from dynid.base import lazily

_HOMES = {
    "plan": "Plan read_plan",
    "run": "run_fleet",
    "store": "FleetStore",
}
__all__ = ["FleetStore", "Plan", "read_plan", "run_fleet"]
__getattr__, __dir__ = lazily(__name__, _HOMES)
