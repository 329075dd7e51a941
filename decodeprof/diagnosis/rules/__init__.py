"""One file a rule: it states what it needs, measures nothing, and judges results.

A rule is a module with `CODE`, `TITLE` (a few words for a table), a docstring that is its manual
page and `judge(case) -> Outcome`. The docstring's first sentence says what is wrong; the sections
`What it measures`, `Why it costs time`, `What to do` and `When to ignore it` follow, each indented
below its name and a colon. No rule imports another.
"""
