"""What the columns of a stranger's log mean: presets with sources, names, and physics; the experiment file proposed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.layouts.proposal import Proposal
    from dynid.layouts.propose import found_tables, propose_logs
    from dynid.layouts.write import answer_option, experiment_text, summary_lines

__all__ = [
    "Proposal",
    "answer_option",
    "experiment_text",
    "found_tables",
    "propose_logs",
    "summary_lines",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "proposal": "Proposal",
        "propose": "found_tables propose_logs",
        "write": "answer_option experiment_text summary_lines",
    },
)
