"""`espnet-diverse tokens`: files on disk, lines on screen, one line for each mistake."""

import pytest

from espnet_diverse.bin.main import main
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.text.vocabulary import Vocabulary


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text"
    path.write_text("a-1 你好 世界\na-2 你好\n", encoding="utf-8")
    return path


def test_characters(text, tmp_path, capsys):
    assert main(["tokens", "--text", str(text), "--output_dir", str(tmp_path / "tokens")]) == 0
    tokens = (tmp_path / "tokens" / "tokens.txt").read_text(encoding="utf-8").split()
    assert tokens == ["<blank>", "<unk>", "你", "好", "<space>", "世", "界", "<sos/eos>"]
    assert capsys.readouterr().out == f"{tmp_path / 'tokens'}: 8 tokens (char)\n"


@pytest.mark.parametrize("type", ["bpe", "unigram"])
def test_sentencepiece(type, text, tmp_path, capfd):
    output = tmp_path / "tokens"
    arguments = ["tokens", "--text", str(text), "--output_dir", str(output), "--type", type, "--vocab_size", "9"]
    assert main(arguments) == 0
    vocabulary = Vocabulary.load(output)
    assert (vocabulary.type, len(vocabulary)) == (type, 9)
    # sentencepiece's own log, some hundred lines, stays away.
    assert capfd.readouterr().err == f"building a vocabulary of type {type} from 2 transcripts\n"


@pytest.mark.parametrize("type", ["bpe", "unigram"])
def test_a_sample_of_the_transcripts(type, text, tmp_path, capsys, caplog):
    with text.open("a", encoding="utf-8") as file:
        file.writelines(f"b-{number:03d} {'ab' * (number % 7 + 1)}\n" for number in range(300))
    output, sample = tmp_path / "tokens", ["--input_sentence_size", "20"]
    arguments = ["tokens", "--text", str(text), "--output_dir", str(output), "--type", type, "--vocab_size", "14"]
    assert main([*arguments, *sample, "--coverage", str(text)]) == 0
    assert " 0 of them unknown" in capsys.readouterr().out  # also of transcripts that are not in the sample
    assert "notice: tokens are learned from a random sample of 20 of 302 sentences" in caplog.text


def test_several_texts_make_one_vocabulary(text, tmp_path):
    other = tmp_path / "src_text"
    other.write_text("a-1 xy\n", encoding="utf-8")
    output = tmp_path / "tokens"
    assert main(["tokens", "--text", str(text), str(other), "--output_dir", str(output)]) == 0
    assert {"你", "x", "y"} <= set(Vocabulary.load(output).tokens)


def test_coverage_of_another_text(text, tmp_path, capsys):
    dev = tmp_path / "dev"
    dev.write_text("b-1 你见\nb-2 好见鬼\n", encoding="utf-8")
    assert (
        main(["tokens", "--text", str(text), "--output_dir", str(tmp_path / "o"), "--coverage", str(dev), str(text)])
        == 0
    )
    assert capsys.readouterr().out.splitlines()[1:] == [
        f"{dev}: 5 characters, 3 of them unknown (2 different): U+89C1 见 2x, U+9B3C 鬼 1x",
        f"{text}: 7 characters, 0 of them unknown (0 different)",
    ]


@pytest.mark.parametrize(
    "content, options, message",
    [
        ("", "", "text: is empty"),
        ("a-1 x\na-2\n", "", "text:2: empty transcript"),
        ("a-1 x\na-2 \u3000\n", "", "text:2: empty transcript"),
        ("a-1 x\na-1 y\n", "", "text:2: duplicate id 'a-1'"),
        ("a-1 <unk> x\n", "", "text:1: transcript contains the reserved symbol <unk>"),
        ("a-1 abc\n", "--type bpe --vocab_size 900", "vocab_size 900 is too large for this text; the maximum is "),
        ("a-1 abc\n", "--type unigram", "vocab_size is None; type unigram needs a number of tokens"),
        ("a-1 abc\n", "--input_sentence_size 5", "--input_sentence_size 5 is for the types bpe and unigram; leave it"),
        ("a-1 abc\n", "--type bpe --vocab_size 9 --input_sentence_size -1", "input_sentence_size -1 is not possible"),
        ("a-1 abc\n", "--vocab_size 900", "vocab_size 900 is not possible with type char"),
        ("a-1 abc\n", "--type word", "unknown vocabulary type 'word'; choose one of char, bpe, unigram"),
        ("a-1 abc\n", "--coverage nowhere", "nowhere: cannot be read (No such file or directory)"),
    ],
)
def test_mistakes_get_one_line_and_leave_no_files(content, options, message, text, tmp_path, capsys):
    text.write_text(content, encoding="utf-8")
    assert main(["tokens", "--text", str(text), "--output_dir", str(tmp_path / "tokens"), *options.split()]) == 1
    error = [line for line in capsys.readouterr().err.splitlines() if "error:" in line]
    assert len(error) == 1
    assert message in error[0]
    assert not (tmp_path / "tokens").exists()


@pytest.mark.parametrize(
    ("options", "said"), [(["--bert", "x"], "--type bert needs --bert"), (["--input_sentence_size", "5"], "--input")]
)
def test_a_plan_checks_all_options_before_its_first_step(options, said, text, tmp_path, parse):
    module, args = parse("tokens", ["--text", str(text), "--output_dir", str(tmp_path / "tokens"), *options])
    with pytest.raises(ConfigError, match=said):
        module.check(args, {})


@pytest.mark.parametrize(
    ("there", "foreign"),
    [
        (["tokens.txt", "tokens.yaml", "config.yaml"], "config.yaml"),
        (["bpe.model"], "bpe.model"),  # of another program, which makes no tokens.yaml
        (["tokens.txt"], "tokens.txt"),
    ],
)
def test_nothing_of_others_is_replaced(there, foreign, text, tmp_path, capsys, parse):
    output = tmp_path / "tokens"
    output.mkdir()
    for name in there:
        (output / name).write_text("mine")
    arguments = ["--text", str(text), "--output_dir", str(output)]
    assert main(["tokens", *arguments]) == 1
    assert f"tokens: has {foreign}, which `tokens` has not written; move it away" in capsys.readouterr().err
    assert {path.name: path.read_text() for path in output.iterdir()} == dict.fromkeys(there, "mine")
    module, args = parse("tokens", arguments)
    with pytest.raises(DataError, match="which `tokens` has not written"):
        module.check(args, {})


def test_own_vocabularies_are_replaced(text, tmp_path):
    output = tmp_path / "tokens"
    arguments = ["tokens", "--text", str(text), "--output_dir", str(output)]
    assert main([*arguments, "--type", "bpe", "--vocab_size", "9"]) == main(arguments) == 0
    assert Vocabulary.load(output).type == "char" and not (output / "bpe.model").exists()
    (output / "tokens.yaml").unlink()
    (output / ".tokens_of_a_killed_run").mkdir()
    assert main(arguments) == 0


def test_a_file_is_not_replaced(text, capsys):
    (text.parent / "mine").touch()
    assert main(["tokens", "--text", str(text), "--output_dir", str(text.parent / "mine")]) == 1
    assert "mine: is a file, but a directory must be written here; choose another path" in capsys.readouterr().err


def test_a_table_of_recordings_is_no_text(tmp_path, capsys):
    (tmp_path / "wav.scp").write_text("a a.wav\n")
    assert main(["tokens", "--text", str(tmp_path / "wav.scp"), "--output_dir", str(tmp_path / "tokens")]) == 1
    assert "wav.scp: has recording path a line, such as 'a a.wav', and no texts" in capsys.readouterr().err
    assert not (tmp_path / "tokens").exists()
