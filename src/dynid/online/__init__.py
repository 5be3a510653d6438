"""Estimates that follow a running log."""
