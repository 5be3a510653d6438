"""Formats that few logs and robots come in: USD, SDF, xacro, workbooks, YAML, traces, port folders, XML messages."""
