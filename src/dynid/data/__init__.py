"""Data that ships with the package: robots made up for examples."""
