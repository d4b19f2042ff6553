"""Declarations of a core, and its limit of length."""

import dataclasses

import pytest

from espnet_diverse.attention.supports import EVERYTHING, USES, Supports


def test_the_default_is_self_attention_with_padding():
    assert [use for use in USES if getattr(Supports(), use)] == ["padding"]
    assert not Supports().explicit_weights and not Supports().half_precision and Supports().max_length is None


def test_everything_is_everything():
    fields = [field.name for field in dataclasses.fields(Supports) if field.type is bool]
    assert all(getattr(EVERYTHING, name) for name in fields) and set(USES) < set(fields)
    assert EVERYTHING.missing(USES) is None


def test_the_first_missing_use_is_returned():
    assert Supports(causal=True).missing(["padding", "causal", "cross_attention", "cached_decoding"]) == (
        "cross_attention"
    )


def test_lengths_up_to_the_limit_are_allowed():
    Supports().check_length("mean", 10**9)
    Supports(max_length=8).check_length("mean", 8, 3)
    with pytest.raises(ValueError, match="attention 'mean' supports at most 8 positions, and 9 are needed; shorten"):
        Supports(max_length=8).check_length("mean", 3, 9)
