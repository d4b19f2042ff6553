"""Puts the oracles of tests/references within reach of an import, and texts that two systems got partly right."""

import random

import pytest

WORDS = ["the", "a", "cat", "dog", "sat", "on", "mat", ",", "Tree", "house", ".", "of", "It's", "3.5", "old"]


@pytest.fixture(scope="session")
def translations():
    """References and two systems' texts, 60 sentences: the second system garbles more words."""
    pick = random.Random(3)
    references = [" ".join(pick.choices(WORDS, k=pick.randint(4, 14))) for _ in range(60)]

    def garbled(text, share):
        words = [pick.choice(WORDS) if pick.random() < share else word for word in text.split()]
        return " ".join(words[: len(words) - (pick.random() < share)])

    return references, [garbled(text, 0.25) for text in references], [garbled(text, 0.35) for text in references]
