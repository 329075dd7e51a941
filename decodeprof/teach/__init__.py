"""Teaches the passage from launch-bound to memory-bound: one page with a live model of a step.

`steps` is the model, `curves` the measurements that stand beside it, `page` the page. The page runs
the same model in the browser; a test holds the two against each other.
"""
