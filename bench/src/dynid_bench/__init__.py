"""A benchmark of methods that identify robot dynamics: data sets, splits, scores, and peers as adapters."""
