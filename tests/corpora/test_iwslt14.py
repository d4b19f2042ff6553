"""IWSLT14: the official release as fairseq's script splits it, and what that script writes."""

import pytest

from espnet_diverse.corpora import Selection, iwslt14
from espnet_diverse.errors import ConfigError, DataError

EMPTY = "is an empty line; write it, or remove it from all parallel files"


def talk(language: str) -> list[str]:
    """A talk of 46 sentences after its title and description."""
    return [
        "<url>http://www.ted.com/talks/x</url>",
        "<keywords>a, b</keywords>",
        "<speaker>Somebody</speaker>",
        "<talkid>7</talkid>",
        f"<title>Title {language}</title>",
        f"<description>TED Talk Subtitles {language}</description>",
        *(f" {language} sentence {number}. " for number in range(1, 45)),
        "",
        "much longer than the other" if language == "de" else "word",
        '<reviewer href="x">Somebody</reviewer>',
    ]


def xml(language: str, count: int) -> list[str]:
    segments = [f'<seg id="{number}"> {language}\u2019s &amp; {number} </seg>' for number in range(1, count + 1)]
    return [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<doc docid="535" genre="lectures" {language}>',
        *segments,
        "</doc>",
    ]


@pytest.fixture
def tree(write_texts):
    files = {f"de-en/train.tags.de-en.{language}": talk(language) for language in ("de", "en")}
    for count, test in enumerate(iwslt14.TESTS, start=1):
        for language in ("de", "en"):
            files[f"de-en/IWSLT14.{test}.de-en.{language}.xml"] = xml(language, count)
    return write_texts(files)


def test_official_release(tree):
    sets = iwslt14.prepare(tree, Selection(on_bad="drop"))
    assert (len(sets["train"].text), len(sets["dev"].text), len(sets["test"].text)) == (44, 2, 15)
    assert sets["train"].text["de-en-iwslt14-train-0000005"] == "Title en"
    # The 23rd and the 46th of the pairs that are kept, of which titles and descriptions are two.
    assert sets["dev"].src_text == {
        "de-en-iwslt14-dev-0000027": "de sentence 21.",
        "de-en-iwslt14-dev-0000050": "de sentence 44.",
    }
    assert sets["train"].dropped == {
        "de-en-iwslt14-train-0000051": f"train.tags.de-en.de:51: {EMPTY}",
        "de-en-iwslt14-train-0000052": "5 words to 1, a ratio of more than 1.5",
    }
    assert sets["test"].text["de-en-iwslt14-test-TED.tst2012-0000003"] == "en's & 1"


def test_the_other_direction(tree):
    sets = iwslt14.prepare(tree.joinpath("de-en"), Selection(pairs=("en-de",), on_bad="drop"))
    assert sets["train"].src_text["en-de-iwslt14-train-0000005"] == "Title en"
    with pytest.raises(ConfigError, match="there is no direction 'fr-en'; there are: de-en en-de$"):
        iwslt14.prepare(tree, Selection(pairs=("fr-en",)))


def test_a_sentence_on_one_side_alone_is_refused(tree):
    """The other pairs of its talk would be wrong."""
    path = tree / "de-en" / "train.tags.de-en.en"
    path.write_text(path.read_text().replace("<talkid>7</talkid>", "a sentence"))
    with pytest.raises(DataError, match="train.tags.de-en.en: talk 1 ends after 49 sentences, and in .* after 48"):
        iwslt14.prepare(tree, Selection(on_bad="drop"))


def test_more_markup_on_one_side_changes_no_pair(tree):
    """As in releases with the names of translators in one file alone."""
    expected = iwslt14.prepare(tree, Selection(on_bad="drop"))
    for name, first in (("train.tags.de-en.en", "<talkid>"), ("IWSLT14.TED.tst2010.de-en.en.xml", "<seg id=")):
        path = tree / "de-en" / name
        path.write_text(path.read_text().replace(first, f"<translator>Nobody</translator>\n{first}", 1))
    assert iwslt14.prepare(tree, Selection(on_bad="drop")) == expected


def test_tokenised_release(write_texts):
    lines = {"de": ["das ist ja gro@@ ß , &quot; sagte er &quot; ."], "en": ["that &apos;s great , he said ."]}
    tree = write_texts({f"{split}.{side}": lines[side] for split in ("train", "valid", "test") for side in lines})
    sets = iwslt14.prepare(tree)
    assert sets["dev"].src_text == {"de-en-iwslt14-dev-0000001": 'das ist ja groß , " sagte er " .'}
    assert sets["dev"].text == {"de-en-iwslt14-dev-0000001": "that 's great , he said ."}


def test_missing_files(tree, tmp_path):
    with pytest.raises(
        DataError, match="no IWSLT14 in .*: there is neither .*train.tags.de-en.de nor .*/train.de; unpack"
    ):
        iwslt14.prepare(tmp_path / "nowhere")
    (tree / "de-en" / "IWSLT14.TED.tst2011.de-en.en.xml").unlink()
    with pytest.raises(DataError, match="IWSLT14.TED.tst2011.de-en.en.xml: cannot be read"):
        iwslt14.prepare(tree, Selection(on_bad="drop"))
