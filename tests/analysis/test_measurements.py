from collections import Counter

import pytest
import soundfile

from espnet_diverse.analysis import measurements as surveying
from espnet_diverse.analysis.measurements import choose_utterances, observe_utterance, survey
from espnet_diverse.data.kaldi import DataDir, read_data_dir
from espnet_diverse.errors import ConfigError, DataError, ModelError
from espnet_diverse.runs.tasks import load_model
from espnet_diverse.text.vocabulary import Vocabulary


@pytest.fixture(scope="module")
def model(tiny_run):
    return load_model(tiny_run.model_dir)[0].eval()


@pytest.fixture(scope="module")
def vocabulary(tiny_run):
    return Vocabulary.load(tiny_run.model_dir)


def test_utterances_are_spread_over_the_set():
    data = DataDir(text={f"u{n}": "a" for n in range(9)})
    assert choose_utterances(data, 3) == ["u0", "u4", "u8"]
    assert choose_utterances(data, None) == choose_utterances(data, 20) == sorted(data.text)
    with pytest.raises(ConfigError, match="--utterances 0 is not allowed; give at least 1"):
        choose_utterances(data, 0)


def test_all_utterances_count(model, vocabulary, tiny_run):
    data = read_data_dir(tiny_run.test_dir)
    result = survey(model, vocabulary, data, dict.fromkeys(data.text, {}))
    assert len(result.utterances) == 3 and len(result.redundancy["encoder"].heads) == 3
    assert result.clusters["decoder", "queries"].positions == 3 * 4
    matrices = [(kind, name) for kind in ("encoder", "decoder") for name in ("attention", "semantic")]
    assert list(result.distances) == matrices
    assert all(each.by_head().shape == result.redundancy[kind].shape for (kind, _), each in result.distances.items())
    assert result.queries["cross"].queries().shape == (2, 12, 8)


def test_attention_without_weights_for_some_utterances_is_left_out(model, vocabulary, tiny_run, monkeypatch, caplog):
    """An encoder that attends in blocks keeps the weights of utterances of one block."""

    def observed(model, vocabulary, data, utterance, *rest):
        seen = observe_utterance(model, vocabulary, data, utterance, *rest)
        return {kind: each for kind, each in seen.items() if kind != "encoder" or utterance != "test-01"}

    monkeypatch.setattr(surveying, "observe_utterance", observed)
    data = read_data_dir(tiny_run.test_dir)
    result = survey(model, vocabulary, data, dict.fromkeys(data.text, {}))
    assert set(result.redundancy) == set(result.queries) == {"decoder", "cross"}
    assert {kind for kind, _ in result.distances} == {"decoder"}
    assert "encoder" not in {kind for kind, _ in result.clusters}
    assert "encoder attention is left out: some utterances have no weights for it" in caplog.text


def test_no_attention_has_weights_for_all_utterances(model, vocabulary, tiny_run, monkeypatch):
    def observed(model, vocabulary, data, utterance, *rest):
        seen = observe_utterance(model, vocabulary, data, utterance, *rest)
        return {kind: each for kind, each in seen.items() if (kind == "encoder") == (utterance == "test-01")}

    monkeypatch.setattr(surveying, "observe_utterance", observed)
    data = read_data_dir(tiny_run.test_dir)
    with pytest.raises(ModelError, match="no attention keeps its weights for all utterances; give utterances of simil"):
        survey(model, vocabulary, data, dict.fromkeys(data.text, {}))


def test_sentences_are_measured_as_utterances_are(tiny_translation):
    model = load_model(tiny_translation.model_dir, task="mt")[0].eval()
    data, source = read_data_dir(tiny_translation.test_dir), Vocabulary.load(tiny_translation.model_dir / "src_tokens")
    target = Vocabulary.load(tiny_translation.model_dir)
    result = survey(model, target, data, dict.fromkeys(data.text, {}), source)
    assert len(result.utterances) == 5 and set(result.redundancy) == {"encoder", "decoder", "cross"}
    positions = {clustered: use.positions for (kind, clustered), use in result.clusters.items() if kind == "encoder"}
    assert positions["source tokens"] == sum(len(text) + 1 for text in data.src_text.values())
    counts = result.clusters["encoder", "source tokens"].token_counts
    assert counts == Counter(token for text in data.src_text.values() for token in ("<sos>", *source.tokenise(text)))
    assert result.clusters["decoder", "tokens"].token_counts["<sos>"] == 5


def test_an_utterance_too_short_for_the_model(model, vocabulary, tmp_path):
    soundfile.write(tmp_path / "short.wav", [0.1] * 800, 16_000)
    data = DataDir(wav_scp={"short": str(tmp_path / "short.wav")}, text={"short": "a"})
    with pytest.raises(DataError, match="utterance 'short': has .* frames and is too short"):
        observe_utterance(model, vocabulary, data, "short")
    with pytest.raises(DataError, match="none of 1 utterances could be analysed; first short: utterance 'short'"):
        survey(model, vocabulary, data, {"short": {}})


def test_a_model_without_attention_to_look_at(model, vocabulary, tiny_run, monkeypatch):
    monkeypatch.setattr(surveying, "observe", lambda *_: {})
    with pytest.raises(ModelError, match="neither encoder nor decoder has an attention that keeps one matrix"):
        observe_utterance(model, vocabulary, read_data_dir(tiny_run.test_dir), "test-00")
