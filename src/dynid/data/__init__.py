"""Example robots that ship with the package."""
