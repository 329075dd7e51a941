"""Where do the prefill and each decode step begin? By the first of several rules that works.

Each rule is one module that returns `Cuts` or None; `find.py` tries them in order and `assign.py`
turns the cuts into steps.
"""
