"""Teacher forcing: one batch gives what the decoder gives token by token."""

import pytest
import torch

from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.predictor import load_predictor
from espnet_diverse.decoding.teacher_forcing import token_log_probs
from espnet_diverse.scope import scope

TEXTS = [[2, 3, 4], [], [4, 2]]


@pytest.mark.parametrize(("name", "entries"), [("tiny_run", "wav.scp"), ("tiny_translation", "src_text")])
def test_log_probabilities_of_texts_of_several_lengths(request, name, entries):
    run = request.getfixturevalue(name)
    predictor = load_predictor(run.model_dir, options=SearchOptions(beam_size=1))
    lines = (run.test_dir / entries).read_text().splitlines()[:3]
    sources = [predictor.read(line.split(" ", 1)[1])[0] for line in lines]
    log_probs, targets = token_log_probs(predictor.encoding.model, predictor.encode(sources, [{}] * 3), TEXTS)
    model, place = predictor.encoding.model, 0
    for source, text in zip(sources, TEXTS, strict=True):
        output, lengths, _ = predictor.encode([source], [{}])
        for step, token in enumerate([*text, model.eos]):
            read = torch.tensor([[model.sos, *text[:step]]])
            with torch.inference_mode(), scope(collect=False):
                scores, _ = model.decoder(output, lengths, read, torch.tensor([step + 1]))
            torch.testing.assert_close(log_probs[place], scores[0, -1].log_softmax(-1), rtol=0, atol=1e-4)
            assert targets[place] == token
            place += 1
    assert place == len(targets)
