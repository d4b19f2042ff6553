"""CTC over bytes against torch's loss on bytes that Python makes."""

import pytest
import torch
from espnet2.asr.ctc import CTC
from tokenizers import pre_tokenizers

from espnet_diverse.errors import ConfigError
from espnet_diverse.nets.whisper.byte_ctc import BYTES, ByteCTC

TOKENS = ["<blank>", "<unk>", "a", "Ġb", "Ã¼b", "Ġä½ł", "<", "<|de|>", "Ã", "¼", "<sos/eos>"]
TEXTS = {2: b"a", 3: b" b", 4: "üb".encode(), 5: " 你".encode(), 6: b"<", 8: b"\xc3", 9: b"\xbc"}


@pytest.fixture
def ctc():
    torch.manual_seed(0)
    return ByteCTC(CTC(len(TOKENS), 8), TOKENS)


def test_characters_of_byte_level_tokenizers_have_their_bytes():
    assert set(BYTES) == set(pre_tokenizers.ByteLevel.alphabet()) and sorted(BYTES.values()) == list(range(256))
    for text in ("Ähm, 你好\n\x07", "".join(map(chr, range(0x250)))):
        ((written, _),) = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(text)
        assert bytes(BYTES[each] for each in written) == text.encode()


def test_tokens_are_spelled_as_the_bytes_of_their_text(ctc):
    labels, counts = ctc.spelled(torch.arange(len(TOKENS)))
    for token, (row, count) in enumerate(zip(labels.tolist(), counts.tolist(), strict=True)):
        expected = TEXTS.get(token, b"")
        assert bytes(label - 1 for label in row[:count]) == expected and not any(row[count:])
    assert ctc.spelled(torch.tensor([0, 7]))[0].shape == (2, 1)


def test_the_loss_is_that_of_the_bytes(ctc):
    source, frames = torch.randn(2, 12, 8), torch.tensor([12, 9])
    loss = ctc(source, frames, torch.tensor([[4, 3, 2], [5, 2, -1]]), torch.tensor([3, 2]))
    log_probs = ctc.ctc_lo(source).log_softmax(-1).transpose(0, 1)
    for text, row in (("üb ba", 0), (" 你a", 1)):
        target = torch.tensor([[1 + byte for byte in text.encode()]])
        one = torch.nn.functional.ctc_loss(
            log_probs[: frames[row], row : row + 1],
            target,
            frames[row : row + 1],
            torch.tensor([target.size(1)]),
            reduction="sum",
        )
        loss = loss - one / 2
    assert abs(loss.item()) < 1e-4


def test_the_best_path_is_written_in_tokens_of_one_byte(ctc):
    weight = torch.zeros(257, 8)
    for column, label in enumerate((0, 1 + ord("a"), 1 + 0xC3, 1 + 0xBC, 1 + ord("z"))):
        weight[label, column] = 5.0
    ctc.ctc_lo.weight.data, ctc.ctc_lo.bias.data = weight, torch.zeros(257)
    assert ctc.argmax(torch.eye(8)[None, :5]).tolist() == [[0, 2, 8, 9, 1]]


def test_options_are_those_of_the_ctc_that_it_replaces():
    plain = CTC(5, 8, dropout_rate=0.25, zero_infinity=False, reduce=False)
    ctc = ByteCTC(plain, TOKENS)
    assert ctc.dropout_rate == 0.25 and ctc.ctc_loss is plain.ctc_loss and not ctc.reduce


def test_tokens_of_other_tokenizers_are_refused():
    with pytest.raises(ConfigError, match="'▁a'"):
        ByteCTC(CTC(4, 8), ["<blank>", "<unk>", "▁a", "<sos/eos>"])
