"""The model by evidence: candidates compared on held-out blocks, nonlinear parameters by variable projection."""
