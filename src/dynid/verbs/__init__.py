"""What is built on robots, logs and runs besides identification: a file a verb."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.verbs.convert import write_recording as write_recording
    from dynid.verbs.demo import run_demo as run_demo
    from dynid.verbs.demo import save as save
    from dynid.verbs.external_torque import thresholds as thresholds
    from dynid.verbs.mcap import write_mcap as write_mcap
    from dynid.verbs.payload import payload_data as payload_data
    from dynid.verbs.payload import payload_lines as payload_lines
    from dynid.verbs.payload import tool_text as tool_text
    from dynid.verbs.regressor import wrench_base as wrench_base
    from dynid.verbs.schemes import compare_schemes as compare_schemes
    from dynid.verbs.schemes import scheme_lines as scheme_lines
    from dynid.verbs.spring_search import search_geometry as search_geometry
    from dynid.verbs.statics import StaticEstimate as StaticEstimate
    from dynid.verbs.statics import StaticPoses as StaticPoses
    from dynid.verbs.statics import balanced as balanced
    from dynid.verbs.statics import find_poses as find_poses
    from dynid.verbs.statics import identify_statics as identify_statics
    from dynid.verbs.statics import read_poses as read_poses
    from dynid.verbs.statics import static_base as static_base
    from dynid.verbs.statics import two_step as two_step
    from dynid.verbs.summary import agreement_data as agreement_data
    from dynid.verbs.summary import agreement_lines as agreement_lines
    from dynid.verbs.summary import comparison_lines as comparison_lines
    from dynid.verbs.summary import describe_base as describe_base
    from dynid.verbs.summary import difference_lines as difference_lines
    from dynid.verbs.summary import identification_lines as identification_lines
    from dynid.verbs.summary import overview_lines as overview_lines
    from dynid.verbs.summary import score_lines as score_lines
    from dynid.verbs.summary import write_scores as write_scores
    from dynid.verbs.wrench_payload import payload_from_wrench as payload_from_wrench
    from dynid.verbs.wrench_payload import wrench_payload_data as wrench_payload_data
    from dynid.verbs.wrench_payload import wrench_payload_lines as wrench_payload_lines

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "convert": "write_recording",
        "mcap": "write_mcap",
        "demo": "run_demo save",
        "external_torque": "thresholds",
        "payload": "payload_data payload_lines tool_text",
        "regressor": "wrench_base",
        "schemes": "compare_schemes scheme_lines",
        "spring_search": "search_geometry",
        "statics": (
            "StaticEstimate StaticPoses balanced find_poses identify_statics read_poses static_base two_step"
        ),
        "summary": (
            "agreement_data agreement_lines comparison_lines describe_base difference_lines "
            "identification_lines overview_lines score_lines write_scores"
        ),
        "wrench_payload": "payload_from_wrench wrench_payload_data wrench_payload_lines",
    },
)
