"""Suffixes of recordings."""

from espnet_diverse.audio.suffixes import DIRECT, OTHER, SHARED, SUFFIXES


def test_each_suffix_is_of_one_kind():
    assert DIRECT < SUFFIXES and not SUFFIXES & OTHER and not SUFFIXES & SHARED and not OTHER & SHARED
    assert all(suffix.startswith(".") and suffix == suffix.lower() for suffix in SUFFIXES | OTHER | SHARED)
