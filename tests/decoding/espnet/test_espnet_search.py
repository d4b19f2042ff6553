import json
import shutil

import numpy as np
import pytest
import soundfile
import torch
import yaml
from espnet2.bin.asr_inference import Speech2Text
from references.numbered import read

from espnet_diverse.decoding.condition_ids import KnownConditions
from espnet_diverse.decoding.directory.decode_dir import decode
from espnet_diverse.decoding.espnet.espnet_search import Search, load_search
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.errors import ConfigError, DataError, ModelError
from espnet_diverse.runs import checkpoint
from espnet_diverse.scope import current
from espnet_diverse.upstream.layers import TooShortUttError

OPTIONS = SearchOptions(beam_size=3, ctc_weight=0.4, penalty=0.1)


@pytest.fixture(scope="module")
def search(tiny_run):
    return load_search(tiny_run.model_dir, options=OPTIONS)


def test_text_and_scores_match_espnet(tiny_run, search, tmp_path, capsys):
    results = decode(search, tiny_run.test_dir, tmp_path)
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
    for result in results:
        expected, _, _, hypothesis = theirs(
            soundfile.read(tiny_run.test_dir / f"{result.utterance}.wav", dtype="float32")[0]
        )[0]
        assert text[result.utterance] == result.text == expected
        assert float(score[result.utterance]) == pytest.approx(float(hypothesis.score), abs=1e-3)
    assert json.loads((tmp_path / "failures.json").read_text()) == {}
    assert "decoded 3 of 3 utterances (0 failed, 0 empty), 2 s of audio in" in capsys.readouterr().out
    numbers = json.loads((tmp_path / "decode.json").read_text())
    assert numbers["tokens"] == sum(map(len, text.values()))  # its tokens are characters
    assert numbers["utterances"] == 3 and numbers["audio_seconds"] == pytest.approx(2.25)
    assert numbers["tokens_per_second"] == pytest.approx(numbers["tokens"] / numbers["wall_seconds"])


def test_weights_are_checked(tiny_run, tmp_path):
    state = checkpoint.load(tiny_run.model_dir / "valid.acc.ave.pth")
    del state["ctc.ctc_lo.bias"]
    torch.save(state, tmp_path / "bad.pth")
    with pytest.raises(ModelError, match=r"bad\.pth does not fit .* 1 missing: ctc\.ctc_lo\.bias"):
        load_search(tiny_run.model_dir, tmp_path / "bad.pth")


def test_a_beam_may_be_larger_than_the_vocabulary(tiny_run):
    search = load_search(tiny_run.model_dir, options=SearchOptions(beam_size=100, maxlenratio=-3))
    assert search.batch([search.read(str(tiny_run.test_dir / "test-00.wav"))[0]], [{}])[0]


@pytest.mark.parametrize("count", [1, 10])
def test_audio_that_is_too_short_for_the_frontend_is_refused(search, tmp_path, count):
    soundfile.write(tmp_path / "short.wav", np.zeros(count), 16_000)
    with pytest.raises(TooShortUttError, match=f"{count} samples are too short; the frontend needs "):
        search.read(str(tmp_path / "short.wav"))


class Listening:
    """ESPnet's `Speech2Text` in a scope: notes the conditions that are open."""

    device, nbest = "cpu", 1

    def __init__(self):
        self.heard = []

    def __call__(self, speech):
        assert not current().collect
        self.heard.append({condition: ids.tolist() for condition, ids in current().conditions.items()})
        return []


def test_each_utterance_is_decoded_for_its_own_tasks(tiny_run, tmp_path):
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    shutil.copy(tiny_run.test_dir / "wav.scp", data_dir)
    (data_dir / "utt2lang").write_text("test-00 de\ntest-01 ar\ntest-02 de\n")
    search = Search(Listening(), KnownConditions({"lang": ["ar", "de"], "tgtlang": ["ar", "de"]}), 16_000)
    decode(search, data_dir, tmp_path / "out")
    assert search.speech2text.heard == [{"lang": [i], "tgtlang": [i]} for i in (1, 0, 1)]
    search.speech2text.heard.clear()
    decode(search, data_dir, tmp_path / "out", conditions={"tgtlang": "ar"})
    assert search.speech2text.heard == [{"lang": [i], "tgtlang": [0]} for i in (1, 0, 1)]
    assert current().conditions == {}


def test_an_unknown_task_is_refused_before_anything_is_decoded(tiny_run, tmp_path):
    search = Search(Listening(), KnownConditions({"lang": ["ar", "de"]}), 16_000)
    with pytest.raises(DataError, match="utterance 'test-00' has no language; .* this model knows: ar de"):
        decode(search, tiny_run.test_dir, tmp_path / "out")
    assert search.speech2text.heard == [] and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("changed", "error", "said"),
    [
        ({"model_conf": {"ctc_weight": 0.0}}, ConfigError, "ctc_weight 0.4 is not possible: .* set ctc_weight=0"),
        ({"task": "st", "model_conf": {}}, ConfigError, "0.4 is not possible: the model was trained without CTC"),
        ({"task": "lm"}, ModelError, "config.yaml: a model of task lm writes no text; known: asr st mt"),
    ],
)
def test_a_model_that_cannot_be_searched_so_is_refused(tiny_run, tmp_path, changed, error, said):
    for name in ("valid.acc.ave.pth", "feats_stats.npz"):
        shutil.copy(tiny_run.model_dir / name, tmp_path)
    config = yaml.safe_load((tiny_run.model_dir / "config.yaml").read_text()) | changed
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    with pytest.raises(error, match=said):
        load_search(tmp_path, options=OPTIONS)
