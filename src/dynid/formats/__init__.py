"""File formats of robots and logs that are needed less often.

Robot files: SDF and USD. Logs: Excel workbooks, YAML and printed ROS messages, CODESYS traces, YARP dumps, XML
messages and text that names each value. The core names these readers in its registries and loads them when a file
needs them. Some need an optional package, which the error message names.
"""
