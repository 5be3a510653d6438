"""Readers of logs, a file for each family of formats, and the shapes of tables that they bring to one row a moment."""
