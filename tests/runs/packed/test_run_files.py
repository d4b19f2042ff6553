"""Files that a copy of a run needs."""

from pathlib import Path

import pytest

from espnet_diverse.runs.packed import run_files
from espnet_diverse.runs.packed.run_files import copy_files, make_vocabularies
from espnet_diverse.text.vocabulary import Vocabulary

CHARACTERS = ["<blank>", "<unk>", "c", "a", "b", "<sos/eos>"]


def test_files_inside_and_outside_of_the_run(tmp_path):
    run, copy = tmp_path / "run", tmp_path / "copy"
    (run / "src_tokens").mkdir(parents=True)
    for path in (run / "tokens.txt", run / "src_tokens" / "bpe.model", run / "bpe.model", tmp_path / "stats.npz"):
        path.write_text(path.name)
    config = {"bpemodel": str(run / "bpe.model"), "src_bpemodel": str(run / "src_tokens" / "bpe.model")}
    config["normalize_conf"] = {"stats_file": str(tmp_path / "stats.npz")}
    copy_files(config, run, copy)
    assert config == {
        "bpemodel": "bpe.model",
        "src_bpemodel": "src_tokens/bpe.model",
        "normalize_conf": {"stats_file": "stats.npz"},
    }
    assert (copy / "tokens.txt").read_text() == "tokens.txt" and (copy / "stats.npz").read_text() == "stats.npz"
    assert all((copy / config[key]).read_text() == "bpe.model" for key in ("bpemodel", "src_bpemodel"))


def test_two_tokenizers_of_one_name_stay_apart(tmp_path):
    for language in ("de", "en"):
        (tmp_path / language).mkdir()
        (tmp_path / language / "bpe.model").write_text(language)
    config = {key: str(tmp_path / lang / "bpe.model") for key, lang in (("bpemodel", "en"), ("src_bpemodel", "de"))}
    copy_files(config, tmp_path / "run", tmp_path / "copy")
    assert [(tmp_path / "copy" / config[key]).read_text() for key in ("bpemodel", "src_bpemodel")] == ["en", "de"]


def test_a_model_of_espnet_gets_vocabularies_in_the_order_of_its_tokens(tmp_path):
    config = {"token_type": "char", "token_list": CHARACTERS, "bpemodel": None}
    config |= {"src_token_type": "char", "src_token_list": [*CHARACTERS[:-1], "d", CHARACTERS[-1]]}
    copy_files(config, tmp_path / "run", tmp_path / "copy")
    assert Vocabulary.load(tmp_path / "copy").tokens == tuple(CHARACTERS)
    assert Vocabulary.load(tmp_path / "copy" / "src_tokens").encode("dab") == [5, 3, 4]


def test_a_vocabulary_that_is_there_stays(tmp_path):
    Vocabulary.train(["xyz"], "char").save(tmp_path)
    make_vocabularies({"token_type": "char", "token_list": CHARACTERS}, tmp_path)
    assert Vocabulary.load(tmp_path).tokens[2:-1] == tuple("xyz")


@pytest.mark.parametrize("kind", ["word", "phn", None])
def test_tokens_of_other_kinds_have_no_vocabulary(tmp_path, kind):
    make_vocabularies({"token_type": kind, "token_list": CHARACTERS}, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_hidden_files_and_folders_of_a_user_are_kept(tmp_path):
    (tmp_path / "old" / ".git").mkdir(parents=True)
    (tmp_path / "old" / ".git" / "config").write_text("of git")
    (tmp_path / "old" / ".gitignore").symlink_to("elsewhere")
    (tmp_path / "old" / "shown").touch()
    (tmp_path / "new").mkdir()
    run_files._copy_hidden(tmp_path / "old", tmp_path / "new")
    assert (tmp_path / "new" / ".git" / "config").read_text() == "of git"
    assert {path.name for path in (tmp_path / "new").iterdir()} == {".git", ".gitignore"}
    assert (tmp_path / "new" / ".gitignore").readlink() == Path("elsewhere")
