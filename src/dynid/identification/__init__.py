"""The main job: what shapes an identification, the experiment file, and the whole way from log to result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.identification.blocks import Blocks
    from dynid.identification.commands import with_found_servo
    from dynid.identification.experiment import Experiment, named_files, open_log
    from dynid.identification.logs import factors_of, held_out_log, torque_factors, training_log
    from dynid.identification.pipeline import identify
    from dynid.identification.schema import json_schema
    from dynid.identification.settings import (
        DEFAULT_TERMS,
        Settings,
        default_estimator,
        settings_to_experiment,
    )

__all__ = [
    "DEFAULT_TERMS",
    "Blocks",
    "Experiment",
    "Settings",
    "default_estimator",
    "factors_of",
    "held_out_log",
    "identify",
    "json_schema",
    "named_files",
    "open_log",
    "settings_to_experiment",
    "torque_factors",
    "training_log",
    "with_found_servo",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "blocks": "Blocks",
        "commands": "with_found_servo",
        "experiment": "Experiment named_files open_log",
        "logs": "factors_of held_out_log torque_factors training_log",
        "pipeline": "identify",
        "schema": "json_schema",
        "settings": "DEFAULT_TERMS Settings default_estimator settings_to_experiment",
    },
)
