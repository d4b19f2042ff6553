"""Data and vocabularies of a run, and directories that ESPnet would misread."""

import shutil
from pathlib import Path

import kaldiio
import numpy as np
import pytest
import soundfile
from references.converted_audio import OGG, encoded

from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.text.vocabulary import Vocabulary
from espnet_diverse.training.data.run_data import RunData, Tokens, check_data, check_inputs, existing


def test_sentencepiece_models_go_into_the_run_as_well(tiny_run, tmp_path):
    vocabulary = Vocabulary.train(["abcd abcd dcba", "aabb ccdd"], "bpe", 9)
    vocabulary.save(tmp_path / "tokens")
    tokens = Tokens.load(RunData(tiny_run.train_dir, tiny_run.valid_dir, tmp_path / "tokens"))
    keys = tokens.keys()
    assert keys["token_type"] == "bpe" and keys["bpemodel"] == str(tmp_path / "tokens" / "bpe.model")
    tokens.save(tmp_path / "run")
    copied = Path(tokens.moved(tmp_path / "run").keys()["bpemodel"])
    assert copied == tmp_path / "run" / "bpe.model" and copied.read_bytes() == Path(keys["bpemodel"]).read_bytes()


def test_a_vocabulary_that_no_part_reads_is_refused(tiny_run):
    given = RunData(tiny_run.train_dir, tiny_run.valid_dir, tiny_run.tokens_dir, src_tokens_dir=tiny_run.tokens_dir)
    with pytest.raises(ConfigError, match=r"^--src_tokens_dir \S+: no part of task asr reads it; omit it$"):
        Tokens.load(given)


def test_directories_that_espnet_would_misread_are_refused(train_dir):
    tables = [train_dir / "wav.scp", train_dir / "text"]
    text = (train_dir / "text").read_text()
    (train_dir / "text").write_text("".join(sorted(text.splitlines(keepends=True), reverse=True)))
    with pytest.raises(DataError, match=r"train/text:1: is blank, out of order, .* validate \S*train --fix DIR, and"):
        check_data(train_dir, tables, 16_000)
    for changed in (text.replace("\n", "\n\n", 1), text.replace("train-03 ", "train-03 \u200b"), "\ufeff" + text):
        (train_dir / "text").write_text(changed, encoding="utf-8")
        with pytest.raises(DataError, match=r"train/text:[124]: is blank, out of order, or has other than plain sing"):
            check_data(train_dir, tables, 16_000)
    for changed in (text.replace(" ", "\t"), text.rstrip("\n"), text.replace("\n", "\r\n"), text):
        (train_dir / "text").write_text(changed)  # which ESPnet reads as we do
        check_data(train_dir, tables, 16_000)
    (train_dir / "segments").write_text(
        "".join(f"{line.split()[0]} {line.split()[0]} 0 0.5\n" for line in text.splitlines())
    )
    with pytest.raises(DataError, match="has segments, and training reads one audio file an utterance"):
        check_data(train_dir, tables, 16_000)
    (train_dir / "segments").unlink()
    soundfile.write(train_dir / "train-05.wav", np.sin(np.arange(8000)), 8000)
    said = r"^\S*wav\.scp: train-05: \S*train-05\.wav: has 8000 Hz and 1 channel, and the model reads 16000 Hz"
    with pytest.raises(DataError, match=said):
        check_data(train_dir, tables, 16_000)
    with pytest.raises(DataError, match=r"^11 faults: \S*wav\.scp: train-00: .*; and 8 more$"):
        check_data(train_dir, tables, 8000)
    (train_dir / "train-05.wav").write_bytes(2 * encoded(1.0, **OGG))
    with pytest.raises(DataError, match=r"train-05\.wav: training does not read concatenated ogg; convert it with"):
        check_data(train_dir, tables, 16_000)


def test_several_words_and_white_space_in_paths_are_read_as_by_espnet(tiny_run, train_dir, tmp_path):
    folder = shutil.copytree(train_dir, tmp_path / "of two words")
    for table, separator, between in (("wav.scp", " ", ""), ("text", "\t", " and ")):
        lines = [line.split(maxsplit=1) for line in (train_dir / table).read_text().splitlines()]
        if between:
            content = [f"{name}{separator}{value}{between}{value}\n" for name, value in lines]
        else:
            content = [f"{name} {folder / name}.wav\n" for name, _ in lines]
        (folder / table).write_text("".join(content))
    check_data(folder, [folder / "wav.scp", folder / "text"], 16_000)
    (folder / "wav.scp").write_text(f"train-00 {folder / 'x.ark'}:9\n")
    data = RunData(folder, tiny_run.valid_dir, tiny_run.tokens_dir)
    assert data.files({}, "train")[0] == (folder / "wav.scp", "speech", "kaldi_ark")


def test_a_relative_directory_is_checked_as_well(train_dir, monkeypatch):
    tables = [train_dir / "wav.scp", train_dir / "text"]
    monkeypatch.chdir(train_dir.parent)
    check_data(Path("train"), tables, 16_000)
    check_data(Path("train"), tables[1:], None)  # of a task that reads no audio
    with pytest.raises(DataError, match=r"^12 faults: train/wav\.scp: train-00: "):
        check_data(Path("train"), tables, 8000)
    (train_dir / "segments").touch()
    with pytest.raises(DataError, match="^train: has segments, and training reads one audio file an utterance; wri"):
        check_data(Path("train"), tables, 16_000)


@pytest.mark.parametrize(
    ("task", "model_conf", "names"),
    [
        ("asr", {}, ["speech", "text"]),
        ("st", {}, ["speech", "text"]),
        ("st", {"asr_weight": 0.3}, ["speech", "text", "src_text"]),
        ("st", {"mt_weight": 0.3}, ["speech", "text", "src_text"]),
        ("mt", {}, ["text", "src_text"]),
        ("lm", {}, ["text"]),
    ],
)
def test_transcripts_are_read_only_if_a_loss_needs_them(tiny_run, task, model_conf, names):
    data = RunData(tiny_run.train_dir, tiny_run.valid_dir, tiny_run.tokens_dir, task)
    assert [name for _, name, _ in data.entries({"model_conf": model_conf})] == names
    assert data.speech == ("speech" in names)
    assert data.phases() == {"train": tiny_run.train_dir, "valid": tiny_run.valid_dir}


def test_an_autoencoder_reads_the_text_in_place_of_its_source(tiny_run, tmp_path):
    data = RunData(tiny_run.train_dir, tiny_run.valid_dir, tiny_run.tokens_dir, "mt")
    tables = [(table, name) for table, name, _ in data.entries({"model": "vae"})]
    assert tables == [("text", "text"), ("text", "src_text")]
    (tmp_path / "text").write_text("a words\n")
    check_inputs(tmp_path, "mt", source="text")


def test_each_text_has_its_vocabulary_which_moves_into_the_run(tiny_translation, tmp_path):
    run = tiny_translation
    tokens = Tokens.load(
        RunData(run.train_dir, run.valid_dir, run.tokens_dir, "mt", run.tokens_dir.parent / "src_tokens")
    )
    assert len(tokens.vocabularies["text"]) == len(tokens.vocabularies["src_text"]) + 4
    tokens.save(tmp_path)
    keys = tokens.moved(tmp_path).keys()
    assert (keys["token_list"], keys["src_token_list"]) == (
        str(tmp_path / "tokens.txt"),
        str(tmp_path / "src_tokens" / "tokens.txt"),
    )
    assert keys["bpemodel"] is keys["src_bpemodel"] is None and keys["src_token_type"] == "char"
    for name, folder in tokens.moved(tmp_path).folders.items():
        assert Vocabulary.load(folder).tokens == tokens.vocabularies[name].tokens
    assert [tokens.shape(name) for name in ("text", "speech")] == ["text_shape.char", "speech_shape"]


def test_a_vocabulary_of_bert_is_for_the_source_of_text_translation(tiny_run, tiny_bert, tmp_path):
    Vocabulary.of_bert(tiny_bert).save(tmp_path)
    data = {"train_dir": tiny_run.train_dir, "valid_dir": tiny_run.valid_dir}
    said = "a vocabulary of type bert is for the source text, --src_tokens_dir with --task mt; make another type for "
    for task, tokens_dir, src_tokens_dir, name in (
        ("asr", tmp_path, None, "text"),
        ("mt", tmp_path, tiny_run.tokens_dir, "text"),
        ("st", tiny_run.tokens_dir, tmp_path, "src_text"),
    ):
        with pytest.raises(DataError, match=f"^{tmp_path}: {said}{name}$"):
            Tokens.load(RunData(**data, tokens_dir=tokens_dir, task=task, src_tokens_dir=src_tokens_dir))
    kept = Tokens.load(RunData(**data, tokens_dir=tiny_run.tokens_dir, task="mt", src_tokens_dir=tmp_path))
    assert kept.vocabularies["src_text"].type == "bert"


@pytest.mark.parametrize("content", [None, "\n"])
def test_audio_that_a_task_reads_must_be_there(tmp_path, content):
    if content is not None:
        (tmp_path / "wav.scp").write_text(content)
    said = "has no wav.scp with the audio that --task st reads; give a directory with audio, or --task mt or lm for one"
    with pytest.raises(DataError, match=said):
        check_inputs(tmp_path, "st")
    (tmp_path / "wav.scp").write_text("a a.wav\n")
    check_inputs(tmp_path, "st")


def test_source_text_that_a_task_reads_must_be_there(tmp_path):
    said = "has no src_text with the source text that --task mt reads; give a directory with source text, or --task asr"
    with pytest.raises(DataError, match=said):
        check_inputs(tmp_path, "mt")
    for task in ("lm", "cls"):
        check_inputs(tmp_path, task)
    (tmp_path / "src_text").write_text("a words\n")
    check_inputs(tmp_path, "mt")


def test_a_missing_file_names_the_command_that_writes_it(tmp_path):
    with pytest.raises(DataError, match=r"^a/b: no such file; espnet-diverse stats writes it$"):
        existing(Path("a/b"))
    with pytest.raises(DataError, match="no such file; espnet-diverse train writes it$"):
        existing(tmp_path, "train")
    (tmp_path / "b").touch()
    assert existing(tmp_path / "b") == tmp_path / "b"


def ark_of(train_dir, utterances, **coding):
    """Replace the audio of some utterances by entries of an ark."""
    table = dict(line.split() for line in (train_dir / "wav.scp").read_text().splitlines())
    content = {name: (16_000, soundfile.read(train_dir / f"{name}.wav", dtype="int16")[0]) for name in utterances}
    kaldiio.save_ark(str(train_dir / "x.ark"), content, scp=str(train_dir / "scp"), **coding)
    table |= dict(line.split() for line in (train_dir / "scp").read_text().splitlines())
    (train_dir / "scp").unlink()
    (train_dir / "wav.scp").write_text("".join(f"{name} {path}\n" for name, path in sorted(table.items())))


CODED = {"write_function": "soundfile", "write_kwargs": {"format": "flac"}}


def test_training_reads_arks_of_coded_audio_alone(tiny_run, train_dir):
    tables, names = [train_dir / "wav.scp"], [f"train-{number:02d}" for number in range(12)]
    data = RunData(train_dir, tiny_run.valid_dir, tiny_run.tokens_dir)
    ark_of(train_dir, names, **CODED)
    check_data(train_dir, tables, 16_000)
    assert data.files({}, "train")[0] == (train_dir / "wav.scp", "speech", "kaldi_ark")
    assert data.files({}, "valid")[0] == (tiny_run.valid_dir / "wav.scp", "speech", "sound")
    ark_of(train_dir, names)  # whose integers kaldiio would not scale
    with pytest.raises(
        DataError, match=r"^12 faults: .*: training does not read wav in an ark; convert it with espnet-d"
    ):
        check_data(train_dir, tables, 16_000)


def test_training_reads_files_or_arks(train_dir):
    ark_of(train_dir, ["train-03"], **CODED)
    with pytest.raises(
        DataError, match=r"wav.scp: has files and entries of arks, and training reads one kind; write it"
    ):
        check_data(train_dir, [train_dir / "wav.scp"], 16_000)


def test_features_are_checked_in_place_of_audio(tiny_run, train_dir):
    data = RunData(train_dir, tiny_run.valid_dir, tiny_run.tokens_dir)
    config = {"input_size": 3}
    assert data.entries(config) == [("feats.scp", "speech", "kaldi_ark"), ("text", "text", "text")]
    assert data.entries({"input_size": 1}) == data.entries({}) == [("wav.scp", "speech", "sound"), data.entries({})[1]]
    with pytest.raises(
        DataError, match=r"train: has no feats.scp with the features that a model with input_size reads; c"
    ):
        check_inputs(train_dir, "asr", features=True)
    content = {f"train-{number:02d}": np.ones((4, 3), np.float32) for number in range(12)}
    kaldiio.save_ark(str(train_dir / "f.ark"), content, scp=str(train_dir / "feats.scp"))
    (train_dir / "wav.scp").write_text("train-00 sox |\n")
    check_inputs(train_dir, "asr", features=True)
    tables = [train_dir / "feats.scp"]
    check_data(train_dir, tables, None, size=3)
    with pytest.raises(
        DataError, match=r"^12 faults: .*feats.scp: train-00: has features of size 3, and 4 is expected"
    ):
        check_data(train_dir, tables, None, size=4)
    (train_dir / "f.ark").write_bytes((train_dir / "f.ark").read_bytes().replace(b"FM ", b"PKL"))
    with pytest.raises(DataError, match=r"^12 faults: .*there is no binary matrix at byte 9"):
        check_data(train_dir, tables, None, decode=False, size=3)


def test_a_directory_that_is_not_there_is_named(tmp_path):
    with pytest.raises(DataError, match=f"^{tmp_path}/gone: there is no such directory; correct the path, "):
        check_inputs(tmp_path / "gone", "asr")
