"""The result of an identification: verdict, validation, provenance, and the folder that holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.run.agreement import Agreement as Agreement
    from dynid.run.agreement import Cause as Cause
    from dynid.run.blocks import block_seconds as block_seconds
    from dynid.run.blocks import usual_block as usual_block
    from dynid.run.explanations import explain as explain
    from dynid.run.explanations import explanation as explanation
    from dynid.run.explanations import sections as sections
    from dynid.run.floating import refuse_floating as refuse_floating
    from dynid.run.links import DATAS as DATAS
    from dynid.run.links import PRIORS as PRIORS
    from dynid.run.links import joint_values as joint_values
    from dynid.run.links import mass_findings as mass_findings
    from dynid.run.links import total_mass as total_mass
    from dynid.run.links import total_source as total_source
    from dynid.run.result import Identification as Identification
    from dynid.run.result import Validation as Validation
    from dynid.run.serial import FORMAT as FORMAT
    from dynid.run.serial import experiment_text as experiment_text
    from dynid.run.serial import scores_from_dict as scores_from_dict
    from dynid.run.serial import scores_to_dict as scores_to_dict
    from dynid.run.serial import verdict_findings as verdict_findings
    from dynid.run.store import check_output as check_output
    from dynid.run.store import keep_replay as keep_replay
    from dynid.run.store import load as load
    from dynid.run.store import write_tables as write_tables
    from dynid.run.validation import read_samples as read_samples
    from dynid.run.validation import travel_at_rest as travel_at_rest
    from dynid.run.validation import validate as validate
    from dynid.run.verdict import judge as judge
    from dynid.run.verdict import next_steps as next_steps

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "agreement": "Agreement Cause",
        "blocks": "block_seconds usual_block",
        "explanations": "explain explanation sections",
        "links": "DATAS PRIORS joint_values mass_findings total_mass total_source",
        "result": "Identification Validation",
        "serial": "FORMAT experiment_text scores_from_dict scores_to_dict verdict_findings",
        "floating": "refuse_floating",
        "store": "check_output keep_replay load write_tables",
        "validation": "read_samples travel_at_rest validate",
        "verdict": "judge next_steps",
    },
)
