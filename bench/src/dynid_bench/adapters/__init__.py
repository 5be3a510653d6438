"""Methods as files that the benchmark starts, each in an environment of its own."""
