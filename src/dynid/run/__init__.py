"""The result of an identification: verdict, validation, provenance, and the folder that holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.run.blocks import block_seconds, usual_block
    from dynid.run.explanations import explain, explanation, sections
    from dynid.run.links import joint_values, mass_findings, total_source
    from dynid.run.result import Identification, Validation
    from dynid.run.serial import FORMAT, experiment_text, scores_from_dict, scores_to_dict
    from dynid.run.store import check_output, keep_replay, load, write_tables
    from dynid.run.validation import read_samples, travel_at_rest, validate
    from dynid.run.verdict import judge, next_steps

__all__ = [
    "FORMAT",
    "Identification",
    "Validation",
    "block_seconds",
    "check_output",
    "experiment_text",
    "explain",
    "explanation",
    "joint_values",
    "judge",
    "keep_replay",
    "load",
    "mass_findings",
    "next_steps",
    "read_samples",
    "scores_from_dict",
    "scores_to_dict",
    "sections",
    "total_source",
    "travel_at_rest",
    "usual_block",
    "validate",
    "write_tables",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "blocks": "block_seconds usual_block",
        "explanations": "explain explanation sections",
        "links": "joint_values mass_findings total_source",
        "result": "Identification Validation",
        "serial": "FORMAT experiment_text scores_from_dict scores_to_dict",
        "store": "check_output keep_replay load write_tables",
        "validation": "read_samples travel_at_rest validate",
        "verdict": "judge next_steps",
    },
)
