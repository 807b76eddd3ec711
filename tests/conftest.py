"""How property tests choose their examples.

A test run is the same every time: the examples follow from the test itself. `make fuzz` looks further, with
examples nobody has seen; what it finds becomes an `@example` of its test.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("random", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))
