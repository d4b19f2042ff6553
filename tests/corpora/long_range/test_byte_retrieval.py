"""Generated pairs of reviews, against a reader that notes what each says of every thing."""

import re

import pytest
from corpora.long_range.test_byte_text import BAD, GOOD, read

from espnet_diverse.corpora import Selection
from espnet_diverse.corpora.long_range import byte_retrieval
from espnet_diverse.corpora.long_range.byte_text import THINGS, VERBS


def opinions(review):
    """What a review says of each thing; it must not contradict itself."""
    found = {}
    for sentence in re.split(r"(?<=\.) ", review):
        words = sentence.rstrip(".").split()
        if words[-1] not in GOOD | BAD:
            continue
        thing = re.split(f" (?:{'|'.join(VERBS)}) ", sentence, maxsplit=1)[0]
        thing = next(each for each in THINGS if each.lower() == thing.lower())
        praises = (words[-1] in GOOD) != ("not" in words)
        assert found.setdefault(thing, praises) == praises
    return found


@pytest.mark.parametrize("lengths", [(500, 900), (2000, 2500)])
def test_the_class_is_whether_the_reviews_agree(tmp_path, lengths):
    selection = Selection(lengths=lengths, counts=(60, 6, 6))
    sets = byte_retrieval.prepare(byte_retrieval.generate(tmp_path / "pairs", selection))
    classes = set()
    for utterance, text in sets["train"].text.items():
        first, second = map(opinions, read(text).split(" // "))
        common = first.keys() & second.keys()
        differing = sum(first[thing] != second[thing] for thing in common)
        label = sets["train"].conditions["utt2domain"][utterance]
        assert lengths[0] <= len(text) <= lengths[1] and len(common) >= 2
        assert differing == 0 if label == "same_place" else differing >= 2
        classes.add(label)
    assert classes == {"same_place", "other_place"}
