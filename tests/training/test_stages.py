from pathlib import Path

import numpy as np
import pytest
import soundfile
import yaml

from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.runs.config import merge
from espnet_diverse.text.vocabulary import Vocabulary
from espnet_diverse.training import stages
from espnet_diverse.training.data import run_data
from espnet_diverse.training.data.run_data import RunData, Tokens


def collect(tiny_run, train_dir, tmp_path, *overrides):
    config = merge(["model/tiny"], ["num_workers=0", *overrides])
    stages.collect_stats(config, RunData(train_dir, tiny_run.valid_dir, tiny_run.tokens_dir), tmp_path / "stats")


def test_shapes_and_statistics(tiny_run):
    shapes = (tiny_run.stats_dir / "train" / "speech_shape").read_text().splitlines()
    assert len(shapes) == 12 and shapes[0] == "train-00 12000"
    assert (tiny_run.stats_dir / "valid" / "text_shape.char").read_text().splitlines()[0] == "valid-00 3,7"
    with np.load(tiny_run.stats_dir / "train" / "feats_stats.npz") as statistics:
        assert statistics["sum"].shape == (20,)
        assert statistics["count"] == 12 * (1 + 12000 // 160)


def test_the_run_has_its_settings_vocabulary_and_statistics(tiny_run):
    config = yaml.safe_load((tiny_run.model_dir / "config.yaml").read_text())
    assert config["normalize_conf"] == {"stats_file": str(tiny_run.model_dir / "feats_stats.npz")}
    assert config["model"] == "diverse" and config["token_type"] == "char" and config["bpemodel"] is None
    assert config["seed"] == 0 and config["resume"] is True and config["num_att_plot"] == 0
    assert Vocabulary.load(tiny_run.model_dir).tokens == Vocabulary.load(tiny_run.tokens_dir).tokens
    ours = yaml.safe_load((tiny_run.model_dir / "train.yaml").read_text())
    assert ours["encoder_conf"]["attention"]["core"] == "sdma" and "token_list" not in ours


def test_nan_samples_are_refused_with_their_utterance_and_nothing_is_left(tiny_run, train_dir, tmp_path):
    samples, rate = soundfile.read(train_dir / "train-05.wav", dtype="float32")
    samples[3] = np.nan
    soundfile.write(train_dir / "train-05.wav", samples, rate, subtype="FLOAT")
    with pytest.raises(DataError, match=r"wav\.scp: train-05: .*holds NaN or infinite samples"):
        collect(tiny_run, train_dir, tmp_path)
    assert not (tmp_path / "stats").exists()


def test_statistics_that_are_not_finite_are_refused(tiny_run, train_dir, tmp_path, monkeypatch):
    samples, rate = soundfile.read(train_dir / "train-05.wav", dtype="float32")
    samples[3] = np.inf
    soundfile.write(train_dir / "train-05.wav", samples, rate, subtype="FLOAT")
    monkeypatch.setattr(run_data, "validate", lambda *_, **__: None)
    with pytest.raises(DataError, match=r"feats_stats\.npz: sum and sum_square of the features are not finite"):
        collect(tiny_run, train_dir, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["train"]


def test_features_without_variance_are_refused_only_where_they_normalise(tiny_run, train_dir, tmp_path, monkeypatch):
    monkeypatch.setattr(run_data, "validate", lambda *_, **__: None)
    for path in train_dir.glob("*.wav"):
        samples, rate = soundfile.read(path, dtype="float32")
        soundfile.write(path, np.zeros_like(samples), rate, subtype="FLOAT")
    with pytest.raises(DataError, match=f"^{tmp_path}/stats/train/feats_stats.npz: the variance of feature 0 "):
        collect(tiny_run, train_dir, tmp_path)
    collect(tiny_run, train_dir, tmp_path, "normalize=null")
    data = RunData(tiny_run.train_dir, train_dir, tiny_run.tokens_dir)  # silence to validate on
    stages.collect_stats(merge(["model/tiny"], ["num_workers=0"]), data, tmp_path / "more")


def test_keys_that_the_command_fills_in_are_refused(tiny_run, tmp_path):
    with pytest.raises(ConfigError, match="--set token_type=char: key 'token_type' is filled in by the command line"):
        collect(tiny_run, tiny_run.train_dir, tmp_path, "token_type=char")
    said = "--set output_dir=x: keys output_dir token_list token_type are filled in by the command line; remove them"
    with pytest.raises(ConfigError, match=said):
        collect(tiny_run, tiny_run.train_dir, tmp_path, "token_type=char", "token_list=[a]", "output_dir=x")


def test_an_unknown_attention_leaves_nothing(tiny_run, tmp_path):
    origin = "--set encoder_conf.attention.core=sdmaa: encoder_conf.attention: "
    unknown = f"{origin}unknown attention 'sdmaa'; did you mean 'sdma'"
    with pytest.raises(ConfigError, match=unknown):
        collect(tiny_run, tiny_run.train_dir, tmp_path, "encoder_conf.attention.core=sdmaa")
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_option_of_sampling_is_refused_with_its_origin(tiny_run, tmp_path):
    with pytest.raises(ConfigError, match="^--set sampling.temp=5: unknown option 'sampling.temp'; known: by temp"):
        collect(tiny_run, tiny_run.train_dir, tmp_path, "sampling.by=lang", "sampling.temp=5")


def test_a_vocabulary_of_another_language_is_refused_before_features(tiny_run, train_dir, tmp_path, monkeypatch):
    monkeypatch.setattr(stages.espnet_command, "run", lambda *args: pytest.fail("features are computed"))
    table = train_dir / "text"
    table.write_text("".join(f"{line.split()[0]} 你好 a\n" for line in table.read_text().splitlines()))
    with pytest.raises(DataError, match=r"text: the vocabulary .* lacks \d+ of its \d+ tokens; make"):
        collect(tiny_run, train_dir, tmp_path)
    assert not (tmp_path / "stats").exists()


def test_training_without_statistics(tiny_run, tmp_path):
    data = RunData(tiny_run.train_dir, tiny_run.valid_dir, tiny_run.tokens_dir)
    with pytest.raises(DataError, match="speech_shape: no such file; espnet-diverse stats writes it"):
        stages.train(merge(["model/tiny"]), data, tmp_path / "stats", tmp_path / "exp")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [None, "\n"])
def test_a_directory_without_audio_is_refused_for_speech(tiny_run, train_dir, tmp_path, content):
    (train_dir / "wav.scp").unlink()
    if content is not None:
        (train_dir / "wav.scp").write_text(content)
    said = "train: has no wav.scp with the audio that --task asr reads; give a directory with audio, or --task mt or lm"
    with pytest.raises(DataError, match=said):
        collect(tiny_run, train_dir, tmp_path)
    with pytest.raises(DataError, match=said):
        data = RunData(train_dir, tiny_run.valid_dir, tiny_run.tokens_dir)
        stages.train(merge(["model/tiny"]), data, tiny_run.stats_dir, tmp_path / "exp")


@pytest.fixture
def broadcast_dir(train_dir):
    """The training data with one utterance at 44.1 kHz, which is not the first."""
    soundfile.write(train_dir / "train-05.wav", np.sin(np.arange(44_100)), 44_100)
    return train_dir


def test_statistics_of_a_relative_directory_of_another_rate_are_refused(tiny_run, broadcast_dir, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = (
        r"^train/wav\.scp: train-05: \S*: has 44100 Hz and 1 channel, and the model reads 16000 Hz and 1 channel; conv"
    )
    with pytest.raises(DataError, match=said):
        collect(tiny_run, Path("train"), tmp_path)
    lines = [line.split()[0] for line in (broadcast_dir / "text").read_text().splitlines()]
    (broadcast_dir / "segments").write_text("".join(f"{name} {name} 0 0.5\n" for name in lines))
    with pytest.raises(DataError, match="^train: has segments, and training reads one audio file an utterance; .*$"):
        collect(tiny_run, Path("train"), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["train"]


def test_training_refuses_audio_of_another_rate(tiny_run, telephone_run, broadcast_dir, tmp_path):
    said = "train-05: .*: has 44100 Hz and 1 channel, and the model reads 16000 Hz and 1 channel"
    with pytest.raises(DataError, match=said):
        data = RunData(broadcast_dir, tiny_run.valid_dir, tiny_run.tokens_dir)
        stages.train(merge(["model/tiny"]), data, tiny_run.stats_dir, tmp_path / "exp")
    said = "^12 faults: .*train-00.wav: has 16000 Hz and 1 channel, and the model reads 8000 Hz and 1 .* and 9 more$"
    config = merge(["model/tiny"], ["frontend_conf.fs=8k"])
    with pytest.raises(DataError, match=said):
        data = RunData(tiny_run.train_dir, telephone_run.valid_dir, tiny_run.tokens_dir)
        stages.train(config, data, tiny_run.stats_dir, tmp_path / "exp")
    with pytest.raises(DataError, match=said):
        stages.collect_stats(config, data, tmp_path / "stats")
    assert [path.name for path in tmp_path.iterdir()] == ["train"]


def test_faults_of_both_sets_are_named_together(tiny_run, telephone_run, broadcast_dir, tmp_path):
    data = RunData(broadcast_dir, telephone_run.valid_dir, tiny_run.tokens_dir)
    with pytest.raises(DataError, match="train-05: .* has 44100 Hz .*; 4 faults: .*valid-00: .* has 8000 Hz"):
        stages.collect_stats(merge(["model/tiny"]), data, tmp_path / "stats")


def test_training_refuses_statistics_of_other_data(tiny_run, telephone_run, train_dir, tmp_path):
    data = RunData(tiny_run.train_dir, tiny_run.valid_dir, tiny_run.tokens_dir)
    said = "train: has statistics of other data than .*: utterance 'train-00' has 6000 samples in .* and 12000 in "
    with pytest.raises(DataError, match=said):
        stages.train(merge(["model/tiny"]), data, telephone_run.stats_dir, tmp_path / "exp")
    data = RunData(tiny_run.train_dir, tiny_run.test_dir, tiny_run.tokens_dir)
    said = "valid: has statistics of other data than .*test: utterance 'test-00' is in .*wav.scp alone; run espnet-div"
    with pytest.raises(DataError, match=said):
        stages.train(merge(["model/tiny"]), data, tiny_run.stats_dir, tmp_path / "exp")
    for table in ("wav.scp", "text", "utt2spk", "spk2utt"):
        lines = (train_dir / table).read_text().splitlines(keepends=True)
        (train_dir / table).write_text("".join(lines[:10]))
    data = RunData(train_dir, tiny_run.valid_dir, tiny_run.tokens_dir)
    with pytest.raises(DataError, match="utterance 'train-10' is in .*speech_shape alone; run espnet-diverse stats"):
        stages.train(merge(["model/tiny"]), data, tiny_run.stats_dir, tmp_path / "exp")
    assert [path.name for path in tmp_path.iterdir()] == ["train"]


@pytest.mark.parametrize(("fragments", "count"), [(["model/tiny"], 1), (["model/tiny", "update/fine_tune"], 0)])
def test_the_default_optimizer_and_options_without_effect_are_told(tiny_run, tmp_path, monkeypatch, fragments, count):
    monkeypatch.setattr(stages, "run", lambda *parts: None)
    monkeypatch.setattr(stages, "draw_curves", lambda folder: None)
    data = RunData(tiny_run.train_dir, tiny_run.valid_dir, tiny_run.tokens_dir)
    overrides = ["encoder_conf.output_size=16", "frontend_conf.n_mels=20", "decoder_conf.layer_drop_rate=0.1"]
    stages.train(merge(fragments, overrides), data, tiny_run.stats_dir, tmp_path / "exp")
    log = (tmp_path / "exp" / "train.log").read_text()
    assert log.count("no optim is given, so it is ESPnet's default") == count
    assert log.count("decoder_conf.layer_drop_rate=0.1: decoder_conf.layer_drop_rate has no effect") == 1


def test_a_model_of_eight_kilohertz_trains_on_half_the_samples_and_frames(telephone_run):
    shapes = (telephone_run.stats_dir / "train" / "speech_shape").read_text().splitlines()
    assert len(shapes) == 12 and shapes[0] == "train-00 6000"
    with np.load(telephone_run.stats_dir / "train" / "feats_stats.npz") as statistics:
        assert statistics["count"] == 12 * (1 + 6000 // 160)
    assert (telephone_run.model_dir / "valid.acc.ave.pth").exists()


def test_an_invalid_rate_is_refused_with_its_origin(tiny_run, tmp_path):
    with pytest.raises(ConfigError, match="^--set frontend_conf.fs=fast: frontend_conf: fs must be .* but is 'fast'"):
        collect(tiny_run, tiny_run.train_dir, tmp_path, "frontend_conf.fs=fast")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def characters(tmp_path):
    """A vocabulary of the characters a and b, as the tokens of a run have it."""
    vocabulary = Vocabulary("char", ("<blank>", "<unk>", "a", "b", "<space>", "<sos/eos>"))
    return Tokens({"text": vocabulary}, {"text": tmp_path / "tokens"})


def test_each_text_has_its_number_of_tokens(tmp_path, characters):
    (tmp_path / "text").write_text("u1 ab\nu2 b a ab\n", encoding="utf-8")
    assert list(stages._lengths(tmp_path / "text", "train", characters, "text")) == ["u1 2", "u2 6"]


def test_a_vocabulary_of_other_texts_is_refused(tmp_path, characters):
    """One unknown character in ten is allowed, two are not."""
    for line, allowed in (("u1 aaaaaaaaax\n", True), ("u1 aaaaaaaaxx\n", False)):
        (tmp_path / "text").write_text(line, encoding="utf-8")
        found = stages._lengths(tmp_path / "text", "train", characters, "text")
        if allowed:
            assert list(found) == ["u1 10"]
        else:
            with pytest.raises(DataError, match=rf"{tmp_path}/text: the vocabulary .*tokens lacks 2 of its 10 tokens"):
                list(found)


def test_validation_may_have_other_characters(tmp_path, characters, caplog):
    (tmp_path / "text").write_text("u1 aaaaaaaaxx\n", encoding="utf-8")
    assert list(stages._lengths(tmp_path / "text", "valid", characters, "text")) == ["u1 10"]
    (said,) = caplog.messages
    assert (
        said.startswith(f"{tmp_path}/text: the vocabulary ") and "tokens lacks 2 of its 10 tokens, which count" in said
    )


def test_sizes_of_the_vocabulary_come_after_the_lengths(tmp_path, characters):
    (tmp_path / "lengths").write_text("u1 2\nu2 6\n", encoding="utf-8")
    stages._write_sizes(tmp_path / "lengths", tmp_path / "sizes", characters, "text")
    assert (tmp_path / "sizes").read_text(encoding="utf-8") == "u1 2,6\nu2 6,6\n"
