"""File to `Trace`: which format is it, and what does it hold?"""
