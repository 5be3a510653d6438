"""A local web page that runs dynid's commands by clicks (`dynid app`).

A project holds one robot with its logs, runs and designed motions, as ordinary files in one folder. Each button starts
one dynid command as a job in its own process, so that a job continues when the server ends. The page shows the command
line of every job, its progress, its messages and its results. The server accepts requests from this machine only, and
only with the token of the link that it prints.
"""
