"""The main job: what shapes an identification, the experiment file, and the whole way from log to result."""
