import pytest
import soundfile
import torch

from espnet_diverse.analysis.samples import batches
from espnet_diverse.analysis.token_predictions import encode, joined, predict_tokens
from espnet_diverse.scope import scope


@pytest.fixture(params=["recognition", "translated"])
def loaded(request):
    return request.getfixturevalue(request.param)


def test_predictions_match_the_models_own_pass(loaded, tiny_run):
    """One sentence at a time through ESPnet's `encode` and decoder, token by token."""
    predictor, samples = loaded
    model = predictor.encoding.model
    for sample in samples[:2]:
        found = predict_tokens(predictor, [sample], encode(predictor, [sample]))
        read = torch.tensor([[model.sos, *sample.tokens]])
        with torch.no_grad(), scope(collect=False):
            is_text, wav = sample.source.ndim == 1, tiny_run.test_dir / f"{sample.utterance}.wav"
            source = torch.from_numpy(sample.source if is_text else soundfile.read(wav, dtype="float32")[0])[None]
            output, lengths = model.encode(source, torch.tensor([source.size(1)]))
            scores = model.decoder(output, lengths, read, torch.tensor([read.size(1)]))[0][0]
        p = scores.softmax(-1)
        for place, token in enumerate([*sample.tokens, model.eos]):
            assert found.loss[place].item() == pytest.approx(-p[place, token].log().item(), abs=1e-5)
            assert found.confidence[place].item() == pytest.approx(p[place].max().item(), abs=1e-5)
            assert found.correct[place].item() == (p[place].argmax().item() == token)
            entropy = -(p[place] * p[place].log()).sum().item()
            assert found.entropy[place].item() == pytest.approx(entropy, abs=1e-5)
        assert len(found.loss) == len(sample.tokens) + 1


def test_a_batch_equals_its_samples(loaded):
    predictor, samples = loaded
    (batch,) = batches(predictor, samples)
    together = predict_tokens(predictor, batch, encode(predictor, batch))
    alone = joined([predict_tokens(predictor, [one], encode(predictor, [one])) for one in batch])
    for one, other in zip(together, alone, strict=True):
        torch.testing.assert_close(one.double(), other.double(), rtol=0, atol=1e-4)
