import pytest
import torch

from espnet_diverse.errors import ConfigError
from espnet_diverse.nets.decoder import DiverseTransformerDecoder
from espnet_diverse.nets.encoder import DiverseTransformerEncoder
from espnet_diverse.runs.compilation import compile_layers, uncompiled
from espnet_diverse.scope import scope


def test_compiling_keeps_losses_and_gradients():
    torch.manual_seed(0)
    options = {"attention_heads": 2, "linear_units": 16, "num_blocks": 1, "dropout_rate": 0.0, "input_layer": None}
    encoder = DiverseTransformerEncoder(8, 8, attention={"core": "sdma"}, **options)

    def gradients():
        torch.manual_seed(1)  # of the noise of the queries
        encoder.zero_grad()
        with scope() as shared:
            x, _, _ = encoder(torch.linspace(-1, 1, 96).sin().view(2, 6, 8), torch.tensor([6, 4]))
            (x.square().sum() + shared.total_loss()).backward()
        return {name: parameter.grad for name, parameter in encoder.named_parameters()}

    plain = gradients()
    compile_layers(encoder, "eager")
    assert all(layer._compiled_call_impl is not None for layer in encoder.encoders)
    torch.testing.assert_close(gradients(), plain, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_batches_compile_nothing_again():
    torch.manual_seed(0)
    options = {"attention_heads": 2, "linear_units": 16, "num_blocks": 2}
    encoder = DiverseTransformerEncoder(8, 8, input_layer=None, attention={"core": "sdma"}, **options)
    decoder = DiverseTransformerDecoder(9, 8, **options)
    for net in (encoder, decoder):
        compile_layers(net, "eager")
    compiled = []
    torch._dynamo.reset()
    for batch, time, tokens in [(3, 40, 7), (5, 31, 4), (2, 90, 12), (8, 17, 3), (1, 64, 9), (2, 23, 2), (6, 55, 20)]:
        lengths, token_lengths = torch.tensor([time] + [time - 9] * (batch - 1)), torch.tensor([tokens, 1] * batch)
        before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
        with scope() as shared, uncompiled(batch == 1):
            output, lengths, _ = encoder(torch.randn(batch, time, 8), lengths)
            scores, _ = decoder(output, lengths, torch.ones(batch, tokens, dtype=torch.long), token_lengths[:batch])
            (scores.square().sum() + shared.total_loss()).backward()
        compiled.append(torch._dynamo.utils.counters["stats"]["unique_graphs"] - before)
    assert compiled[0] > 2 and sum(compiled[1:]) == 0


def test_unsupported_compilation_is_refused(monkeypatch):
    with pytest.raises(ConfigError, match="compile 'fast' is unknown; give true, false or a backend: .*aot_eager"):
        compile_layers(torch.nn.Linear(1, 1), "fast")
    with pytest.raises(ConfigError, match="compile is not possible: Linear has no layers of a transformer; set false"):
        compile_layers(torch.nn.Linear(1, 1), "eager")
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(ConfigError, match="there is no C\\+\\+ compiler no-such-compiler; install it, or set false"):
        compile_layers(torch.nn.Linear(1, 1), True)
