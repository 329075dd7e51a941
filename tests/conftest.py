"""Property tests try the same examples everywhere, and slow machines do not fail them."""

from hypothesis import settings

settings.register_profile("deterministic", derandomize=True, deadline=None)
settings.load_profile("deterministic")
