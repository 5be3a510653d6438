"""What is built on robots, logs and runs besides identification: a file a verb."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.verbs.convert import write_recording
    from dynid.verbs.demo import run_demo, save
    from dynid.verbs.external_torque import thresholds
    from dynid.verbs.payload import payload_data, payload_lines, tool_text
    from dynid.verbs.schemes import compare_schemes, scheme_lines
    from dynid.verbs.spring_search import search_geometry
    from dynid.verbs.statics import (
        StaticEstimate,
        StaticPoses,
        balanced,
        find_poses,
        identify_statics,
        read_poses,
        static_base,
        two_step,
    )
    from dynid.verbs.summary import (
        agreement_data,
        agreement_lines,
        comparison_lines,
        describe_base,
        difference_lines,
        identification_lines,
        score_lines,
        write_scores,
    )

__all__ = [
    "StaticEstimate",
    "StaticPoses",
    "agreement_data",
    "agreement_lines",
    "balanced",
    "compare_schemes",
    "comparison_lines",
    "describe_base",
    "difference_lines",
    "find_poses",
    "identification_lines",
    "identify_statics",
    "payload_data",
    "payload_lines",
    "read_poses",
    "run_demo",
    "save",
    "scheme_lines",
    "score_lines",
    "search_geometry",
    "static_base",
    "thresholds",
    "tool_text",
    "two_step",
    "write_recording",
    "write_scores",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "convert": "write_recording",
        "demo": "run_demo save",
        "external_torque": "thresholds",
        "payload": "payload_data payload_lines tool_text",
        "schemes": "compare_schemes scheme_lines",
        "spring_search": "search_geometry",
        "statics": (
            "StaticEstimate StaticPoses balanced find_poses identify_statics read_poses static_base two_step"
        ),
        "summary": (
            "agreement_data agreement_lines comparison_lines describe_base difference_lines "
            "identification_lines score_lines write_scores"
        ),
    },
)
