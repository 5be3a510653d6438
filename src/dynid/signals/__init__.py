"""Signals: from rows of a log to uniformly sampled, filtered motion and torque."""
