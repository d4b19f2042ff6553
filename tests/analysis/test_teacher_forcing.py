import shutil

import numpy as np
import pytest
import soundfile
import torch
import yaml

from espnet_diverse.analysis.collect import attentions
from espnet_diverse.analysis.teacher_forcing import load, run_teacher_forced, source_vocabulary
from espnet_diverse.errors import ModelError
from espnet_diverse.runs.tasks import TASKS
from espnet_diverse.scope import current, scope

TEXT = [2, 3, 4]


def test_weights_match_the_models_own_forward_pass(tiny_run):
    model, rate = load(tiny_run.model_dir)
    speech, own_rate = soundfile.read(tiny_run.test_dir / "test-00.wav", dtype="float32")
    assert rate == own_rate
    run_teacher_forced(model, speech, TEXT)
    modules = [module for found in attentions(model).values() for module in found]
    forced = [module.attn for module in modules]
    with scope(keep_attention=True), torch.no_grad():
        samples, text = torch.from_numpy(speech)[None], torch.tensor([TEXT])
        model(samples, torch.tensor([len(speech)]), text, torch.tensor([len(TEXT)]))
    assert len(modules) == 3
    for module, weights in zip(modules, forced, strict=True):
        assert module.attn is not weights  # but of the second pass
        torch.testing.assert_close(module.attn, weights, rtol=0, atol=0)


def test_inputs_are_on_the_device_of_the_model():
    devices = []

    class Recording(torch.nn.Linear):
        sos = 1

        def encode(self, samples, lengths):
            devices.extend(tensor.device.type for tensor in (samples, lengths, current().conditions["lang"]))
            return samples, lengths

        def decoder(self, frames, lengths, tokens, token_lengths):
            devices.extend(tensor.device.type for tensor in (tokens, token_lengths))

    run_teacher_forced(Recording(1, 1, device="meta"), np.zeros(8, np.float32), TEXT, {"lang": 0})
    assert devices == ["meta"] * 5


def test_only_text_translation_has_a_source_vocabulary(tiny_run, tiny_translation):
    assert source_vocabulary(tiny_run.model_dir) is None
    assert source_vocabulary(tiny_translation.model_dir).encode("ab") == load_source(tiny_translation, "ab")


def load_source(run, text):
    """Token indices of a source text as training and search make them."""
    config = TASKS["mt"].build_model_from_file(run.model_dir / "config.yaml")[1]
    return TASKS["mt"].build_preprocess_fn(config, train=False)("", {"src_text": text})["src_text"].tolist()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"task": "lm"}, "a model of task lm cannot be analysed; known: asr st mt s2t_ctc"),
        ({"task": "mt", "model": "flow"}, "a non-autoregressive model reads no tokens; analyse another"),
    ],
)
def test_a_model_that_cannot_be_run_so(tiny_run, tmp_path, changed, said):
    shutil.copy(tiny_run.model_dir / "feats_stats.npz", tmp_path)
    config = yaml.safe_load((tiny_run.model_dir / "config.yaml").read_text()) | changed
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    with pytest.raises(ModelError, match=said):
        load(tmp_path)
