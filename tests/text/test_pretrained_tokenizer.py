"""The vocabulary of a pretrained encoder against the library's own tokenizer."""

import shutil
import sys

import pytest
from espnet2.text.token_id_converter import TokenIDConverter
from references.whisper import tokenizer as whisper_tokenizer
from tokenizers import Tokenizer
from tokenizers.models import Unigram
from transformers import AutoTokenizer

from espnet_diverse.bin.main import main
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.text import pretrained_tokenizer
from espnet_diverse.text.pretrained_tokenizer import FILE, PretrainedTokenizer, read_tokenizer
from espnet_diverse.text.vocabulary import Vocabulary
from espnet_diverse.training.data.run_data import RunData, Tokens

TEXTS = ["abcd", "ABCD abx a", "", "漢 a", "[SEP] b"]


def unigram(path, pieces, unknown):
    """A tokenizer.json of another type, which adds no special tokens to a sentence."""
    path.mkdir()
    Tokenizer(Unigram([(piece, -1.0) for piece in pieces], unk_id=unknown)).save(str(path / FILE))
    return path


def test_indices_are_the_librarys(tiny_bert):
    ids, vocabulary = PretrainedTokenizer(read_tokenizer(tiny_bert)).ids(), Vocabulary.of_bert(tiny_bert)
    theirs = AutoTokenizer.from_pretrained(tiny_bert)
    for text in TEXTS:
        assert [ids[index] for index in vocabulary.encode(text)] == theirs(text, add_special_tokens=False).input_ids
    begin, end = len(vocabulary) - 1, len(vocabulary)
    assert [ids[begin], ids[end], ids[1]] == [theirs.cls_token_id, theirs.sep_token_id, theirs.unk_token_id]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("hello tag", ["Ġhello", "Ġtag"]),
        (" hello", ["Ġhello"]),
        ("tag 你", ["Ġtag", "Ġ", "ä", "½", "ł"]),
        ("你 tag", ["ä", "½", "ł", "Ġtag"]),
        ("あ", ["ã", "ģ", "Ĥ"]),
        ("ก", ["à", "¸", "ģ"]),
        ("「あ", ["ã", "Ģ", "Į", "ã", "ģ", "Ĥ"]),
        ("ο", ["Ġ", "Î", "¿"]),
        ("한", ["Ġ", "í", "ķ", "ľ"]),
        ("", []),
    ],
)
def test_whispers_texts_begin_with_a_space_but_in_scripts_without_spaces(text, tokens):
    made = PretrainedTokenizer(whisper_tokenizer().to_str().encode())
    assert made.encode(text) == tokens and made.decode(tokens) == text.removeprefix(" ")


def test_it_survives_the_disk_and_espnets_converter(tiny_bert, tmp_path):
    vocabulary = Vocabulary.of_bert(tiny_bert)
    vocabulary.save(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"tokens.txt", "tokens.yaml", "tokenizer.json"}
    again, converter = Vocabulary.load(tmp_path), TokenIDConverter(tmp_path / "tokens.txt")
    assert again.tokens == vocabulary.tokens and again.token_type == "hugging_face"
    assert all(again.encode(text) == converter.tokens2ids(vocabulary.tokenise(text)) for text in TEXTS)
    assert again.decode(again.encode("abcd ab")) == "abcd ab"
    Vocabulary.train(["ab"], "char").save(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"tokens.txt", "tokens.yaml"}


def test_unknown_words_are_encoded_as_unk_and_reported(tiny_bert):
    vocabulary = Vocabulary.of_bert(tiny_bert)
    assert vocabulary.tokenise("a xy") == ["a", "xy"] and vocabulary.encode("a xy")[1] == 1
    assert vocabulary.coverage(["a xy"]).unknown == {"x": 1, "y": 1}


def test_tokens_that_a_list_of_lines_cannot_hold_get_a_name(tmp_path):
    folder = unigram(tmp_path / "u", ["<unk>", "a", "\u3000", "<blank>", " b"], 0)
    tokens = Vocabulary.of_bert(folder).tokens
    assert tokens == ("<blank>", "<unk>", "a", "<token-2>", "<token-3>", "<token-4>", "<sos/eos>")


def test_a_tokenizer_without_marks_is_refused(tmp_path):
    folder = unigram(tmp_path / "u", ["<unk>", "a"], 0)
    with pytest.raises(ConfigError, match="the tokenizer adds 0 special tokens to a sentence; it must add 2"):
        PretrainedTokenizer(read_tokenizer(folder)).ids()


def test_faulty_files_are_refused(tiny_bert, tmp_path):
    with pytest.raises(DataError, match="tokenizer.json is not a tokenizer of Hugging Face; write it again"):
        PretrainedTokenizer(b"{}")
    with pytest.raises(
        ConfigError, match=r"tokenizer.json: cannot be read \(No such file or directory\); write it with"
    ):
        read_tokenizer(tmp_path)
    with pytest.raises(ConfigError, match="^/nowhere/bert: no such folder; .* hf:owner/name"):
        read_tokenizer("/nowhere/bert")
    Vocabulary.of_bert(tiny_bert).save(tmp_path / "v")
    shutil.copy(unigram(tmp_path / "u", ["<unk>", "a"], 0) / FILE, tmp_path / "v" / FILE)
    with pytest.raises(
        DataError, match="tokens.txt and tokenizer.json do not belong together; make the vocabulary agai"
    ):
        Vocabulary.load(tmp_path / "v")
    with pytest.raises(ConfigError, match="type bert is not trained on text; give the pretrained encoder"):
        Vocabulary.train(["a"], "bert")


def test_the_missing_package_is_named(tiny_bert, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ConfigError, match="needs tokenizers; run: pip install 'espnet_diverse\\[whisper\\]'"):
        PretrainedTokenizer(read_tokenizer(tiny_bert))


def test_it_is_refused_for_the_target_text(tiny_bert, tmp_path):
    Vocabulary.of_bert(tiny_bert).save(tmp_path)
    with pytest.raises(
        DataError, match="a vocabulary of type bert is for the source text, .* make another type for text$"
    ):
        Tokens.load(RunData(tmp_path, tmp_path, tmp_path, "mt"))


def test_the_command(tiny_bert, tmp_path, capsys):
    (tmp_path / "text").write_text("u1 abx a\n")
    arguments = ["tokens", "--text", str(tmp_path / "text"), "--output_dir", str(tmp_path / "tokens")]
    coverage = ["--coverage", str(tmp_path / "text")]
    assert main([*arguments, "--type", "bert", "--bert", str(tiny_bert), *coverage]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"{tmp_path / 'tokens'}: 15 tokens (bert)" and "5 characters, 3 of them unknown" in said[1]
    for wrong in (["--type", "bert"], ["--bert", "x"], ["--type", "bert", "--bert", "x", "--vocab_size", "9"]):
        assert main([*arguments, *wrong]) == 1
        assert "--type bert needs --bert PATH and no --vocab_size, and other" in capsys.readouterr().err


def test_an_interrupt_is_no_fault_of_the_file():
    with pytest.raises(KeyboardInterrupt), pretrained_tokenizer._refusing():
        raise KeyboardInterrupt


def test_pieces_of_bytes_are_characters_and_mark_spaces():
    tokenizer = PretrainedTokenizer(whisper_tokenizer().to_str().encode())
    tokens = tokenizer.encode(" hello 天 gut")
    pieces = tokenizer.pieces(tokens)
    assert len(pieces) == len(tokens) > 5 and "".join(pieces) == "▁hello▁天▁gut"
    assert pieces[0] == "▁hello" and "天" in pieces and "" in pieces  # one character of three tokens
    assert tokenizer.pieces(tokens[:-1]) == pieces[:-1] and tokenizer.pieces([]) == []
    assert tokenizer.pieces([*tokens[:3], "<token-3>"])[0] == "▁hello"
