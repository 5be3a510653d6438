"""What is built on robots, logs and runs besides identification: a file a verb."""
