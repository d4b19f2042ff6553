"""ESPnet's block-wise search: its latency, its block sizes, and cases that must not stop it."""

import json
import logging
from dataclasses import replace

import pytest
import torch
import yaml
from references.streaming import heard, of_espnet, tones, write_run

from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.streaming.block_search import load_block_search
from espnet_diverse.decoding.streaming.espnet_streaming import SIZES

OPTIONS = SearchOptions(beam_size=3, ctc_weight=0.3)
ESPNET = SearchOptions(beam_size=3, ctc_weight=0.3, search="espnet")


@pytest.fixture(scope="module")
def search(streaming_run):
    return load_block_search(streaming_run, options=OPTIONS)


def test_block_sizes_of_espnet_need_no_change_of_its_search(tmp_path):
    run = write_run(tmp_path / "run", block_size=40, hop_size=16, look_ahead=16)
    search, samples = load_block_search(run, options=ESPNET), tones(2.9, 1)
    texts = [each.text for each in heard(search, samples, 2560)]
    assert texts[-1] == of_espnet(run, sizes=False)(samples)[0][0]
    # The first block has 40 frames of 40 ms and the frames that the subsampling needs; ESPnet waits for the second.
    assert not texts[9] and texts[11]


def test_text_appears_a_hop_earlier_than_in_espnet(streaming_run, search):
    theirs, samples = of_espnet(streaming_run), tones(1.0, 3)
    ours = next(i for i, each in enumerate(heard(search, samples, 640)) if each.text)
    for start in range(0, len(samples), 640):
        theirs(samples[start : start + 640], is_final=False)
        if theirs.beam_search.process_idx:
            break
    assert start // 640 - ours in (3, 4, 5)  # a hop of 4 frames of 40 ms


def test_hypotheses_as_long_as_the_audio_do_not_stop_the_stream(tmp_path):
    """ESPnet ends all hypotheses at a block where they have as many tokens as there are frames, and has none left."""
    run = write_run(tmp_path / "run")
    weights = torch.load(run / "valid.acc.ave.pth", weights_only=True)
    weights["decoder.output_layer.bias"][-1] = -100  # <sos/eos>
    torch.save(weights, run / "valid.acc.ave.pth")
    search = load_block_search(run, options=SearchOptions(beam_size=2, ctc_weight=0.0, search="espnet"))
    found = heard(search, tones(1.0, 0), 1600)
    lengths = [len(each.tokens) for each in found]
    assert lengths == sorted(lengths) and lengths[-1] == 24


def test_a_beam_may_be_larger_than_the_vocabulary(streaming_run):
    """ESPnet stops a block where a hypothesis ends, so that a beam of all tokens finds little; it must not fail."""
    wide, all_of_them = (
        heard(load_block_search(streaming_run, options=replace(ESPNET, beam_size=size)), tones(1.0, 0), 1600)
        for size in (100, 29)
    )
    assert wide == all_of_them


def test_nothing_is_logged_for_a_block(search, caplog):
    with caplog.at_level(logging.WARNING):
        heard(search, tones(1.0, 2), 1600)
    assert caplog.messages == []


def test_sizes_that_the_configuration_leaves_to_espnet_are_known(tmp_path):
    run = write_run(tmp_path / "run", block_size=40, hop_size=16, look_ahead=16)
    config = yaml.safe_load((run / "config.yaml").read_text())
    for name in SIZES:
        del config["encoder_conf"][name]
    (run / "config.yaml").write_text(json.dumps(config))
    with pytest.raises(AssertionError):
        of_espnet(run)
    online = load_block_search(run, options=OPTIONS).speech2text.beam_search
    assert (online.block_size, online.hop_size, online.look_ahead) == (40, 16, 16)
