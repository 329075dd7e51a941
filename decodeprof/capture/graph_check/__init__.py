"""Captures a target's decode step as a CUDA graph, in a child process, and says what came of it.

Importing this package never imports torch; its child does.
"""
