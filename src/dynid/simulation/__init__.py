"""A small laboratory: robots that are known exactly, their motion, and the sensors that watch it."""
