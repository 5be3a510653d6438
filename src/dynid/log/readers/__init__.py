"""Readers of log formats, and conversions of their tables to a table with one row per time."""
