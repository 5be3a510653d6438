"""A preset: what the columns of a recorder mean."""

from pathlib import Path

from dynid.layouts.presets import PresetFile

PRESET = PresetFile(Path(__file__).with_name("frozen_preset.toml"))
