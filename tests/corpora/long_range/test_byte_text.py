"""Generated reviews, against a reader that counts their judgements; one character for each byte."""

import re
import unicodedata

import pytest

from espnet_diverse.corpora import Selection
from espnet_diverse.corpora.long_range import byte_text
from espnet_diverse.data.characters import clean_text, text_fault

GOOD = {"good", "warm", "fresh", "kind", "fine", "bright", "clean", "quick", "cosy", "rich", "lovely", "fair"}
BAD = {"bad", "cold", "stale", "rude", "poor", "dark", "dirty", "slow", "noisy", "dull", "awful", "dear"}


def read(text):
    """The text of characters that stand for bytes."""
    return bytes(ord(each) if ord(each) < 0x100 else ord(each) - 0x100 for each in text).decode()


def balance(review):
    """Sentences that praise minus those that find fault: the last word tells, and "not" turns it round."""
    total = 0
    for sentence in re.split(r"(?<=\.) ", review):
        words = sentence.rstrip(".").split()
        sign = (words[-1] in GOOD) - (words[-1] in BAD)
        total += -sign if "not" in words else sign
    return total


def test_the_class_is_the_majority_of_judgements(tmp_path):
    selection = Selection(lengths=(200, 700), counts=(60, 6, 6))
    sets = byte_text.prepare(byte_text.generate(tmp_path / "byte_text", selection))
    found = []
    for name, size in zip(("train", "dev", "test"), selection.counts, strict=True):
        assert len(sets[name].text) == size
        for utterance, text in sets[name].text.items():
            review = read(text)
            assert 200 <= len(text) == len(review.encode()) <= 700
            label = sets[name].conditions["utt2domain"][utterance]
            assert label == ("content" if balance(review) > 0 else "not_content")
            assert clean_text(text) == (text, []) and not text_fault(text)
            found.append((review, label))
    assert 20 < sum(label == "content" for _, label in found) < 52 and len({review for review, _ in found}) == 72
    everything = " ".join(review for review, _ in found)
    assert " not " in everything and "café" in everything and " — " in everything


def test_every_byte_has_a_character_of_its_own():
    """Visible, no space, and left as it is by the normalisation of texts."""
    shown = byte_text.as_bytes("Zoë's café\n—")
    assert shown == "Zoǃƫ'sĠcafǃƩĊǢƀƔ" and read(shown) == "Zoë's café\n—"
    every = [chr(byte) if 0x20 < byte < 0x7F else chr(0x100 + byte) for byte in range(256)]
    assert byte_text.as_bytes("".join(map(chr, range(128)))) == "".join(every[:128])
    assert {*byte_text.as_bytes("".join(map(chr, range(0x80, 0xD800))))} == {*every[0x80:0xC0], *every[0xC2:0xEE]}
    assert len(set(every)) == 256 and clean_text("".join(every)) == ("".join(every), [])
    assert not any(each.isspace() or unicodedata.combining(each) for each in every)


def test_tables_of_ones_own_are_read(write_texts):
    tree = write_texts(
        {f"{name}.tsv": ["Source\tTarget", "Ein Café\tde", "a\tb\ten"] for name in ("train", "val", "test")}
    )
    found = byte_text.prepare(tree)["train"]
    assert [read(text) for text in found.text.values()] == ["Ein Café", "a\tb"]
    assert list(found.conditions["utt2domain"].values()) == ["de", "en"]


def test_too_short_texts_are_refused(tmp_path):
    with pytest.raises(ValueError, match="the second at least 100"):
        byte_text.generate(tmp_path / "byte_text", Selection(lengths=(10, 20)))
