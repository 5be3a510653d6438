"""dynid: the dynamics of a real robot, from its log."""

__version__ = "0.1.0"
