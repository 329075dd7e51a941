"""One file a rule: it states what it needs, measures nothing, and judges results.

A rule is a module with `CODE`, `TITLE`, a docstring that is its manual page (what it measures, why
it costs time, what to do, when to ignore it) and `judge(case) -> Outcome`. No rule imports another.
"""
