"""Features computed while a recording is read equal those of the whole recording."""

import numpy as np
import pytest
import torch

from espnet_diverse.decoding.encoder import long_audio
from espnet_diverse.decoding.encoder.encoding import Encoding
from espnet_diverse.decoding.encoder.long_audio import check_long_audio, features_of_blocks
from espnet_diverse.errors import ModelError
from espnet_diverse.runs.config import merge
from espnet_diverse.runs.tasks import ASRTask

SMALL = ["encoder_conf.output_size=16", "encoder_conf.num_blocks=1", "frontend_conf.n_mels=20"]


def build(*changes):
    parser = ASRTask.get_parser()
    parser.set_defaults(**merge(["model/tiny"], [*SMALL, "normalize=utterance_mvn", *changes]))
    args = parser.parse_args([])
    args.token_list = ["<blank>", "<unk>", "a", "<sos/eos>"]
    return ASRTask.build_model(args).eval()


@pytest.fixture(scope="module")
def stats(tmp_path_factory):
    random, path = np.random.default_rng(0), tmp_path_factory.mktemp("stats") / "feats_stats.npz"
    np.savez(path, count=10, sum=random.standard_normal(20), sum_square=random.uniform(20, 30, 20))
    return path


CHANGES = {
    "default": [],
    "variance": ["normalize_conf.norm_vars=true"],
    "variance alone": ["normalize_conf.norm_means=false", "normalize_conf.norm_vars=true"],
    "none": ["normalize=null"],
    "not centred": ["frontend_conf.center=false"],
    "espnet's hop": ["frontend_conf.hop_length=128", "frontend_conf.win_length=null"],
    "wide hop": ["frontend_conf.hop_length=400"],
}


@pytest.mark.parametrize("changes", [*CHANGES, "global"])
def test_features_of_blocks_match_the_whole(changes, stats, monkeypatch):
    monkeypatch.setattr(long_audio, "_SAMPLES", 5000)
    model = build(*CHANGES.get(changes, ["normalize=global_mvn", f"normalize_conf.stats_file={stats}"]))
    for samples in (4500, 5000, 5120, 6001, 20319):
        audio = np.random.default_rng(samples).standard_normal(samples).astype(np.float32)
        whole = Encoding(model, "cpu").features(audio)
        for block in (999, 7000):
            with torch.inference_mode():
                found = features_of_blocks(model, (audio[t : t + block] for t in range(0, samples, block)), "cpu")
            assert found.shape == whole.shape
            np.testing.assert_allclose(found, whole, rtol=0, atol=1e-5)


def test_features_of_a_long_array_are_computed_in_parts(monkeypatch):
    model, seen = build(), []
    audio = np.random.default_rng(0).standard_normal(20319).astype(np.float32)
    whole = Encoding(model, "cpu").features(audio)
    model.frontend.register_forward_hook(lambda _, given, __: seen.append(given[0].size(1)))
    monkeypatch.setattr(long_audio, "_SAMPLES", 5000)
    found = Encoding(model, "cpu").features(audio)
    assert found.shape == whole.shape and max(seen) < 11000
    np.testing.assert_allclose(found, whole, rtol=0, atol=1e-5)


def test_a_model_that_needs_the_whole_gets_it(monkeypatch):
    model = build()
    model.normalize = torch.nn.Identity()
    monkeypatch.setattr(long_audio, "_SAMPLES", 5000)
    assert not long_audio.is_long(model, np.zeros(9000, np.float32))
    model.normalize = None
    assert long_audio.is_long(model, np.zeros(9000, np.float32))
    assert not long_audio.is_long(model, np.zeros(5000, np.float32))
    assert not long_audio.is_long(model, np.zeros((9000, 20), np.float32))


def test_a_part_at_a_time_is_computed(monkeypatch):
    model, seen = build(), []
    model.frontend.register_forward_hook(lambda _, given, __: seen.append(given[0].size(1)))
    monkeypatch.setattr(long_audio, "_SAMPLES", 5000)
    with torch.inference_mode():
        features_of_blocks(model, np.ones((100, 1000), np.float32), "cpu")
    assert len(seen) > 20 and max(seen) < 6000


@pytest.mark.parametrize(
    ("part", "module", "said"),
    [
        ("frontend", torch.nn.Identity(), "frontend Identity needs a recording at once, .*; use segmentation"),
        ("normalize", torch.nn.LayerNorm(3), "normalize LayerNorm needs a recording at once"),
        ("preencoder", torch.nn.Linear(3, 3), "preencoder Linear needs a recording at once"),
    ],
)
def test_parts_that_need_the_whole_are_named(part, module, said):
    model = build()
    check_long_audio(model)
    setattr(model, part, module)
    with pytest.raises(ModelError, match=said):
        check_long_audio(model)


def test_enhancement_needs_the_whole():
    model = build()
    model.frontend.frontend.use_wpe = True
    with pytest.raises(ModelError, match="frontend DefaultFrontend needs a recording at once"):
        check_long_audio(model)
