"""The worked example: a small engine, made fast in stages that each remove one finding."""
