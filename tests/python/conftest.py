import os

from hypothesis import settings

# A tenth with TRUNKLINE_TEST_SCALE=0.1, as in the C++ tests. Seeds are fixed, so that a failure is everyone's.
scale = float(os.environ.get("TRUNKLINE_TEST_SCALE", "1"))
settings.register_profile("trunkline", max_examples=max(1, int(120 * scale)), deadline=None, derandomize=True)
settings.load_profile("trunkline")
