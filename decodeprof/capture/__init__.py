"""Runs a target and makes a recording of it. The only code beside the example that imports torch."""
