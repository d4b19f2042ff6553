"""Parallel text of one's own: layouts, directions, sets, and missing files."""

import pytest

from espnet_diverse.bin.main import main
from espnet_diverse.corpora import Selection
from espnet_diverse.corpora.parallel_text import Layout, from_tokens, prepare
from espnet_diverse.data.kaldi import read_data_dir
from espnet_diverse.errors import ConfigError, DataError

LANGUAGES = ("de", "en", "fr")


@pytest.fixture
def tree(write_texts):
    """A text in three languages."""
    return write_texts(
        {
            f"{split}.{language}": [f"{language} {split}"]
            for split in ("train", "valid", "test")
            for language in LANGUAGES
        }
    )


def test_all_directions_of_one_text(tree):
    sets = prepare(tree)
    assert list(sets) == ["train", "dev", "test"]
    assert len(sets["dev"].text) == 6
    assert sets["dev"].src_text["fr-de-corpus-dev-0000001"] == "fr valid"
    assert sets["dev"].text["fr-de-corpus-dev-0000001"] == "de valid"


def test_other_files_beside_the_texts_are_no_languages(write_texts):
    tree = write_texts({f"{s}.{side}": ["a b"] for s in ("train", "dev", "test") for side in ("de", "en", "txt")})
    assert {*prepare(tree)["train"].conditions["utt2lang"].values()} == {"de", "en"}


def test_pairs_with_their_own_texts_are_read_both_ways(write_texts):
    tree = write_texts({f"{split}.de-en.{side}": [side] for split in ("train", "dev", "test") for side in ("de", "en")})
    assert Layout((tree,), {"test": ("test",)}).directions() == ["de-en", "en-de"]
    assert prepare(tree, Selection(pairs=("en-de",)))["test"].text == {"en-de-corpus-test-0000001": "de"}


def test_zero_shot_directions_are_in_the_test_set_alone(tree):
    sets = prepare(tree, Selection(pairs=("de-en", "en-fr"), zero_shot=("de-fr",)))
    directions = {name: sorted(key[:5] for key in data.text) for name, data in sets.items()}
    assert directions == {"train": ["de-en", "en-fr"], "dev": ["de-en", "en-fr"], "test": ["de-en", "de-fr", "en-fr"]}


def test_an_unknown_direction_lists_the_known_ones(tree):
    with pytest.raises(ConfigError) as error:
        prepare(tree, Selection(pairs=("de-ru",)))
    known = "de-en en-de de-fr fr-de en-fr fr-en"
    assert sorted(str(error.value).partition("there are: ")[2].split()) == sorted(known.split())
    assert str(error.value).startswith(f"{tree}: there is no direction 'de-ru'; there are: ")


def test_missing_files_are_named(tree, tmp_path):
    (tree / "train.fr").unlink()
    with pytest.raises(DataError, match="fr-en should be trained but has no training data; remove it, or test it only"):
        prepare(tree, Selection(pairs=("de-en", "fr-en")))
    (tree / "valid.en").unlink()
    with pytest.raises(
        DataError, match="there are no sentences for the set dev in these directions; get its files, or"
    ):
        prepare(tree, Selection(pairs=("de-en",)))
    with pytest.raises(DataError, match="no parallel text in .*/nowhere: there is no pair of files such as train.de"):
        prepare(tmp_path / "nowhere")


def test_traces_of_other_tools_are_undone():
    line = "the rich ##AT##-##AT## text for@@ mat &apos;s &amp; &#91; x &#93;"
    assert from_tokens(line) == "the rich-text format 's & [ x ]"


def test_text_that_was_not_tokenised_stays():
    for line in ("see http://x/?id=1&copy=2&currency=eur &section=3", "a &nbsp; b", "R&D; &eacute;"):
        assert from_tokens(line) == line
    assert from_tokens("AT&amp;amp;T &amp;lt; x") == "AT&amp;T &lt; x"  # escaped twice, as in some releases


def test_the_command_writes_directories_of_text(tree, tmp_path, capsys):
    argv = ["prepare", "parallel_text", str(tree), "--output_dir", str(tmp_path / "data")]
    for _ in range(2):  # a second time in its place
        assert main([*argv, "--pairs", "de-en", "--case", "lower", "--speed_perturb", "1.0"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "test: 1 sentences, 0 dropped"
    files = sorted(path.name for path in (tmp_path / "data" / "dev").iterdir())
    assert files == [".prepared.json", "src_text", "text", "utt2lang", "utt2tgtlang"]
    data = read_data_dir(tmp_path / "data" / "dev")
    assert data.is_text and data.conditions["utt2tgtlang"] == {"de-en-corpus-dev-0000001": "en"}
    assert main([*argv, "--speed_perturb", "0.9"]) == 1
    assert "speed factors are for audio, and these sets are text alone" in capsys.readouterr().err
    assert main([*argv, "--transcripts", "written"]) == 1
    assert "corpus parallel_text has no option --transcripts; it has --languages" in capsys.readouterr().err
