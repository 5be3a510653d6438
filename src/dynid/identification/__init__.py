"""The main job: what shapes an identification, the experiment file, and the whole way from log to result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.identification.blocks import Blocks as Blocks
    from dynid.identification.commands import with_found_servo as with_found_servo
    from dynid.identification.experiment import Experiment as Experiment
    from dynid.identification.experiment import named_files as named_files
    from dynid.identification.experiment import open_log as open_log
    from dynid.identification.logs import factors_of as factors_of
    from dynid.identification.logs import held_out_log as held_out_log
    from dynid.identification.logs import torque_factors as torque_factors
    from dynid.identification.logs import training_log as training_log
    from dynid.identification.pipeline import identify as identify
    from dynid.identification.schema import json_schema as json_schema
    from dynid.identification.settings import DEFAULT_TERMS as DEFAULT_TERMS
    from dynid.identification.settings import Settings as Settings
    from dynid.identification.settings import default_estimator as default_estimator
    from dynid.identification.settings import settings_to_experiment as settings_to_experiment

__getattr__, __dir__, __all__ = lazily(
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
