import json
import math
import shutil

import numpy as np
import pytest
import soundfile
import torch
import yaml
from espnet2.bin.asr_inference import Speech2Text

from espnet_diverse.decoding.espnet_search import Search, decode, load_search
from espnet_diverse.decoding.options import Options
from espnet_diverse.decoding.task_ids import KnownTasks
from espnet_diverse.errors import ConfigError, DataError, ModelError
from espnet_diverse.scope import current
from espnet_diverse.training import checkpoint

OPTIONS = Options(beam_size=3, ctc_weight=0.4, penalty=0.1)


@pytest.fixture(scope="module")
def search(tiny_run):
    return load_search(tiny_run.model_dir, options=OPTIONS)


def read(path):
    return dict(line.partition(" ")[::2] for line in path.read_text().splitlines())


@pytest.fixture
def flawed(tiny_run, tmp_path):
    """The test data with four more utterances that cannot be decoded."""
    data_dir = tmp_path / "flawed"
    shutil.copytree(tiny_run.test_dir, data_dir)
    samples, rate = soundfile.read(data_dir / "test-00.wav", dtype="float32")
    soundfile.write(data_dir / "short.wav", samples[:600], rate)
    samples[7] = np.nan
    soundfile.write(data_dir / "nan.wav", samples, rate, subtype="FLOAT")
    (data_dir / "text.wav").write_text("not audio")
    bad = {"bad-gone": "gone", "bad-nan": "nan", "test-01-text": "text", "bad-short": "short"}
    with (data_dir / "wav.scp").open("a") as table:
        table.writelines(f"{name} {data_dir}/{stem}.wav\n" for name, stem in bad.items())
    return data_dir


def test_text_and_scores_are_those_of_espnet(tiny_run, search, tmp_path, capsys):
    outcomes = decode(search, tiny_run.test_dir, tmp_path)
    theirs = Speech2Text(
        tiny_run.model_dir / "config.yaml",
        tiny_run.model_dir / "valid.acc.ave.pth",
        lm_weight=0.0,
        beam_size=3,
        ctc_weight=0.4,
        penalty=0.1,
    )
    text, score = read(tmp_path / "text"), read(tmp_path / "score")
    assert list(text) == list(score) == ["test-00", "test-01", "test-02"]
    for outcome in outcomes:
        expected, _, _, hypothesis = theirs(
            soundfile.read(tiny_run.test_dir / f"{outcome.utterance}.wav", dtype="float32")[0]
        )[0]
        assert text[outcome.utterance] == outcome.text == expected
        assert float(score[outcome.utterance]) == pytest.approx(float(hypothesis.score), abs=1e-3)
    assert json.loads((tmp_path / "failures.json").read_text()) == {}
    assert "decoded 3 of 3 utterances (0 failed, 0 empty), 2 s of audio in" in capsys.readouterr().out
    numbers = json.loads((tmp_path / "decode.json").read_text())
    assert numbers["tokens"] == sum(map(len, text.values()))  # its tokens are characters
    assert numbers["utterances"] == 3 and numbers["audio_seconds"] == pytest.approx(2.25)
    assert numbers["tokens_per_second"] == pytest.approx(numbers["tokens"] / numbers["wall_seconds"])


def test_a_bad_utterance_costs_no_other_and_workers_give_the_same(tiny_run, search, flawed, tmp_path, capsys):
    decode(search, tiny_run.test_dir, tmp_path / "clean")
    outcomes = decode(search, flawed, tmp_path / "one")
    decode(search, flawed, tmp_path / "two", nj=2)
    for name in ("text", "score"):
        contents = [(tmp_path / folder / name).read_bytes() for folder in ("clean", "one", "two")]
        assert contents[0] == contents[1] == contents[2]
    assert [outcome.utterance for outcome in outcomes] == sorted(outcome.utterance for outcome in outcomes)
    failures = json.loads((tmp_path / "two" / "failures.json").read_text())
    assert failures == json.loads((tmp_path / "one" / "failures.json").read_text())
    assert set(failures) == {"bad-gone", "bad-nan", "bad-short", "test-01-text"}
    assert "no such audio file" in failures["bad-gone"] and "NaN or infinite samples" in failures["bad-nan"]
    assert "too short" in failures["bad-short"] and "not readable as audio" in failures["test-01-text"]
    assert "decoded 3 of 7 utterances (4 failed, 0 empty)" in capsys.readouterr().out
    assert [outcome.utterance for outcome in outcomes if outcome.failure] == sorted(failures)


def test_other_rates_and_channels_are_converted(tiny_run, search, tmp_path):
    samples, rate = soundfile.read(tiny_run.test_dir / "test-00.wav", dtype="float32")
    (tmp_path / "data").mkdir()
    soundfile.write(tmp_path / "data" / "stereo.wav", np.stack([samples, samples], axis=1), rate, subtype="PCM_16")
    (tmp_path / "data" / "wav.scp").write_text(f"a {tiny_run.test_dir}/test-00.wav\nb {tmp_path}/data/stereo.wav\n")
    first, second = decode(search, tmp_path / "data", tmp_path / "out")
    assert first[1:] == second[1:]


def test_segments_are_refused(search, tmp_path):
    (tmp_path / "segments").write_text("part long 0.1 0.6\n")
    with pytest.raises(DataError, match="has segments; cut them with espnet-diverse prepare"):
        decode(search, tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


class Silent:
    """A search that finds nothing."""

    device = "cpu"
    tasks = KnownTasks()

    def __call__(self, speech, tasks):
        return []


class Broken(Silent):
    def __call__(self, speech, tasks):
        raise MemoryError("no room")


def test_an_utterance_without_a_hypothesis_has_an_empty_text(tiny_run, tmp_path, capsys):
    outcomes = decode(Silent(), tiny_run.test_dir, tmp_path)
    assert read(tmp_path / "text") == {"test-00": "", "test-01": "", "test-02": ""}
    assert read(tmp_path / "score")["test-00"] == "-inf" and outcomes[0].score == -math.inf
    assert "(0 failed, 3 empty)" in capsys.readouterr().out and outcomes[0].failure is None


def test_when_nothing_can_be_decoded_there_is_no_text(tiny_run, tmp_path):
    (tmp_path / "text").write_text("of an earlier run")
    message = r"none of 3 utterances could be decoded; first test-00: MemoryError: no room"
    with pytest.raises(DataError, match=message):
        decode(Broken(), tiny_run.test_dir, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["failures.json"]


def test_weights_are_checked(tiny_run, tmp_path):
    state = checkpoint.load(tiny_run.model_dir / "valid.acc.ave.pth")
    del state["ctc.ctc_lo.bias"]
    torch.save(state, tmp_path / "bad.pth")
    with pytest.raises(ModelError, match=r"bad\.pth does not fit .* 1 missing: ctc\.ctc_lo\.bias"):
        load_search(tiny_run.model_dir, tmp_path / "bad.pth")


class Listening(Silent):
    """ESPnet's `Speech2Text` in a scope: notes the tasks that are open."""

    def __init__(self):
        self.heard = []

    def __call__(self, speech):
        assert not current().collect
        self.heard.append({axis: ids.tolist() for axis, ids in current().tasks.items()})
        return []


def test_each_utterance_is_decoded_for_its_own_tasks(tiny_run, tmp_path):
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    shutil.copy(tiny_run.test_dir / "wav.scp", data_dir)
    (data_dir / "utt2lang").write_text("test-00 de\ntest-01 ar\ntest-02 de\n")
    search = Search(Listening(), KnownTasks({"lang": ["ar", "de"], "tgtlang": ["ar", "de"]}))
    decode(search, data_dir, tmp_path / "out")
    assert search.speech2text.heard == [{"lang": [i], "tgtlang": [i]} for i in (1, 0, 1)]
    search.speech2text.heard.clear()
    decode(search, data_dir, tmp_path / "out", tasks={"tgtlang": "ar"})
    assert search.speech2text.heard == [{"lang": [i], "tgtlang": [0]} for i in (1, 0, 1)]
    assert current().tasks == {}


def test_an_unknown_task_is_refused_before_anything_is_decoded(tiny_run, tmp_path):
    search = Search(Listening(), KnownTasks({"lang": ["ar", "de"]}))
    with pytest.raises(DataError, match="utterance 'test-00' has no language; .* this model knows: ar de"):
        decode(search, tiny_run.test_dir, tmp_path / "out")
    assert search.speech2text.heard == [] and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("changed", "error", "said"),
    [
        ({"model_conf": {"ctc_weight": 0.0}}, ConfigError, "ctc_weight 0.4 is not possible: .* set ctc_weight=0"),
        ({"task": "st", "model_conf": {}}, ConfigError, "0.4 is not possible: the model was trained without CTC"),
        ({"task": "mt"}, ModelError, "config.yaml: a model of task mt does not read speech; known: asr st"),
    ],
)
def test_a_model_that_cannot_be_searched_so_is_refused(tiny_run, tmp_path, changed, error, said):
    for name in ("valid.acc.ave.pth", "feats_stats.npz"):
        shutil.copy(tiny_run.model_dir / name, tmp_path)
    config = yaml.safe_load((tiny_run.model_dir / "config.yaml").read_text()) | changed
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    with pytest.raises(error, match=said):
        load_search(tmp_path, options=OPTIONS)
