"""Puts the oracles of tests/references within reach of an import."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
