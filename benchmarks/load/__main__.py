"""`python -m benchmarks.load MODE [--name value ...]`: build the generator where needed, and become it."""

import os
import sys

from benchmarks.load import build

binary = str(build())
os.execv(binary, [binary, *sys.argv[1:]])
