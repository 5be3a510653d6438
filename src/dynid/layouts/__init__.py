"""Detect the meaning of a log's columns from presets, names and physics, and propose an experiment file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.layouts.proposal import Proposal as Proposal
    from dynid.layouts.propose import found_tables as found_tables
    from dynid.layouts.propose import propose_logs as propose_logs
    from dynid.layouts.write import answer_option as answer_option
    from dynid.layouts.write import experiment_text as experiment_text
    from dynid.layouts.write import summary_lines as summary_lines

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "proposal": "Proposal",
        "propose": "found_tables propose_logs",
        "write": "answer_option experiment_text summary_lines",
    },
)
