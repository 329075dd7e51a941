"""Runs a user's target in a child process and writes down what happened: a recording.

Importing this package, and recording with it, never imports torch: the child does.
"""

from decodeprof.capture.directory import new_directory
from decodeprof.capture.job import Job, Progress, RecordingStopped
from decodeprof.capture.supervise import record

__all__ = ["Job", "Progress", "RecordingStopped", "new_directory", "record"]
