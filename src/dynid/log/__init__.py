"""Logs: files of measured rows, mapped to joints by name, checked and converted to SI."""
