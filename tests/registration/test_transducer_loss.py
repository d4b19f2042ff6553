import sys
from types import ModuleType

import pytest
import torch
from references.espnet_models import write_model

from espnet_diverse.registration.transducer_loss import RNNTLoss, transducer_loss
from espnet_diverse.runs.tasks import load_model


def by_hand(log_probs, labels, blank):
    """-log of the sum over all alignments of one utterance, equation (16) of Graves 2012, log_probs (T, U + 1, V)."""
    frames, steps, _ = log_probs.shape
    alpha = torch.full((frames, steps), -torch.inf, dtype=torch.float64)
    alpha[0, 0] = 0
    for t in range(frames):
        for u in range(steps):
            if t:
                alpha[t, u] = torch.logaddexp(alpha[t, u], alpha[t - 1, u] + log_probs[t - 1, u, blank])
            if u:
                alpha[t, u] = torch.logaddexp(alpha[t, u], alpha[t, u - 1] + log_probs[t, u - 1, labels[u - 1]])
    return -(alpha[-1, -1] + log_probs[-1, -1, blank])


@pytest.mark.parametrize("blank", [0, 3])
def test_the_loss_is_the_mean_over_utterances_of_the_sum_over_alignments(blank):
    torch.manual_seed(0)
    logits = torch.randn(2, 5, 4, 6, requires_grad=True)
    labels = torch.tensor([[1, 2, 5], [4, 1, 0]], dtype=torch.int32)
    frames, lengths = torch.tensor([5, 4], dtype=torch.int32), torch.tensor([3, 2], dtype=torch.int32)
    loss = RNNTLoss(blank)(logits, labels, frames, lengths)
    exact = [
        by_hand(logits.detach()[b, :t, : u + 1].double().log_softmax(-1), labels[b].tolist(), blank)
        for b, (t, u) in enumerate(zip(frames.tolist(), lengths.tolist(), strict=True))
    ]
    assert loss.item() == pytest.approx(float(sum(exact)) / 2, rel=1e-5)
    loss.backward()
    assert logits.grad.abs().sum() > 0 and not logits.grad[1, 4].any()  # padding


def test_fast_emit_is_refused():
    with pytest.raises(NotImplementedError, match=r"fastemit_lambda 0\.1 needs warprnnt_pytorch"):
        RNNTLoss(0, fastemit_lambda=0.1)


def test_the_package_is_preferred_where_it_is_installed(monkeypatch):
    with transducer_loss():
        assert sys.modules["warprnnt_pytorch"].RNNTLoss is RNNTLoss
    assert "warprnnt_pytorch" not in sys.modules
    installed = ModuleType("warprnnt_pytorch")
    installed.__spec__ = object()
    monkeypatch.setitem(sys.modules, "warprnnt_pytorch", installed)
    with transducer_loss():
        assert sys.modules["warprnnt_pytorch"] is installed


def test_a_transducer_is_trained_by_it(tmp_path):
    model, _ = load_model(write_model(tmp_path / "model", "transducer", factor=1.0))
    model.train()
    torch.manual_seed(0)
    speech, text = 0.1 * torch.randn(2, 8000), torch.tensor([[3, 4], [5, -1]])
    batch = {"speech": speech, "speech_lengths": torch.tensor([8000, 8000])}
    losses = []
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(4):
        loss, stats, _ = model(**batch, text=text, text_lengths=torch.tensor([2, 1]))
        optimizer.zero_grad()
        loss.sum().backward()
        optimizer.step()
        losses.append(float(stats["loss_transducer"]))
    assert losses[-1] < losses[0]
