"""Text translation is decoded by ESPnet's search, bounded by twice the source and not by the source."""

import json

import pytest
import torch
import yaml
from espnet2.bin import mt_inference

from espnet_diverse.bin.main import main
from espnet_diverse.data.tables import read_table
from espnet_diverse.decoding.directory.decode_dir import decode
from espnet_diverse.decoding.espnet.espnet_search import load_search
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.registration import constructed
from espnet_diverse.runs.tasks import MTTask


@pytest.fixture(scope="module")
def wordy(tiny_translation):
    """A search whose model never ends a sentence by itself."""
    search = load_search(tiny_translation.model_dir, options=SearchOptions(beam_size=2))
    search.speech2text.mt_model.decoder.output_layer.bias.data[-1] = -100.0
    return search


def test_a_data_directory_is_decoded(tiny_translation, tmp_path, capsys):
    run = tiny_translation
    paths = ["--data_dir", str(run.test_dir), "--output_dir", str(tmp_path)]
    assert main(["decode", str(run.model_dir), *paths, "--set", "beam_size=3"]) == 0
    assert "decoded 5 of 5 utterances (0 failed" in (said := capsys.readouterr().out) and "audio" not in said
    numbers = json.loads((tmp_path / "decode.json").read_text())
    assert numbers["utterances"] == 5 and "real_time_factor" not in numbers
    search = load_search(run.model_dir, options=SearchOptions(beam_size=3))  # and the command searches in batches
    texts, scores = read_table(tmp_path / "text", "hypothesis"), read_table(tmp_path / "score")
    for utterance, source in read_table(run.test_dir / "src_text").items():
        tokens, seconds = search.read(source)
        assert seconds == 0 and len(tokens) == len(source)
        text, _, _, hypothesis = search(tokens, {})[0]
        assert texts.get(utterance, "") == text
        assert float(scores[utterance]) == pytest.approx(float(hypothesis.score), rel=1e-4)


def test_a_translation_may_be_twice_as_long_as_its_source_and_ten(wordy):
    tokens, _ = wordy.read("abc")
    assert len(wordy(tokens, {})[0][2]) == 2 * 3 + 10
    assert wordy.speech2text.maxlenratio == 0  # the length of one text is not left to the next


def test_a_given_bound_is_espnets(tiny_translation):
    run = tiny_translation
    options = {"beam_size": 3, "maxlenratio": 1.5, "penalty": 0.3, "minlenratio": 0.0}
    search = load_search(run.model_dir, options=SearchOptions(**options))
    files = (run.model_dir / "config.yaml", run.model_dir / "valid.acc.ave.pth")
    how = {"ctc_weight": 0.0, "lm_weight": 0.0, **options}
    theirs = constructed(mt_inference.Text2Text, {"MTTask": MTTask}, *files, **how)
    for source in read_table(run.test_dir / "src_text").values():
        tokens, _ = search.read(source)
        with torch.no_grad():
            ours, expected = search(tokens, {}), theirs(tokens)
        assert ours[0][:3] == expected[0][:3]
        assert float(ours[0][3].score) == pytest.approx(float(expected[0][3].score), rel=0, abs=1e-5)


def test_the_search_ends_when_hypotheses_no_longer_improve(tiny_translation):
    search = load_search(tiny_translation.model_dir, options=SearchOptions(beam_size=2))
    search.speech2text.mt_model.decoder.output_layer.bias.data[-1] = 20.0  # every hypothesis ends at once
    calls = []
    score = search.speech2text.beam_search.scorers["decoder"].batch_score
    search.speech2text.beam_search.full_scorers["decoder"].batch_score = lambda *a: calls.append(1) or score(*a)
    assert search(search.read("abcdabcd")[0], {})[0][2] == []
    assert len(calls) < 8 < 2 * 8 + 10


def test_text_translation_has_no_ctc(tiny_translation):
    with pytest.raises(ConfigError, match="ctc_weight 0.3 is not possible: the model was trained without CTC"):
        load_search(tiny_translation.model_dir, options=SearchOptions(ctc_weight=0.3))


def test_a_directory_without_a_source_is_refused(tiny_translation, tmp_path):
    (tmp_path / "text").write_text("a b\n")
    search = load_search(tiny_translation.model_dir)
    with pytest.raises(DataError, match="src_text"):
        decode(search, tmp_path, tmp_path / "out")


def test_a_moved_run_finds_its_vocabularies(tiny_translation):
    config = yaml.safe_load((tiny_translation.model_dir / "config.yaml").read_text())
    assert config["src_token_list"][2:-1] == ["a", "b", "c", "d"] and config["src_token_type"] == "char"
