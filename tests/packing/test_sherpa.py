"""sherpa-onnx decodes an exported graph by its metadata and tokens."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from conftest import train_tiny
from espnet2.asr.frontend.default import DefaultFrontend
from references.tones import RATE
from torch import nn

from espnet_diverse.inference import Recognizer
from espnet_diverse.nets import ENCODERS
from espnet_diverse.packing.onnx_export import export
from espnet_diverse.packing.sherpa import metadata, tokens_text
from espnet_diverse.runs.tasks import load_model

TONES = dict(zip("abcd", (300, 600, 1200, 2400), strict=True))


def spoken(letters, random):
    """Samples (T,) of a tone of random length and loudness for each letter, in noise."""
    parts = []
    for letter in letters:
        time = np.arange(random.integers(3000, 5000)) / RATE
        parts.append(random.uniform(0.1, 0.4) * np.sin(2 * np.pi * TONES[letter] * time))
    signal = np.concatenate(parts)
    return (signal + 0.03 * random.standard_normal(signal.size)).astype(np.float32)


def drawn(random, count):
    """Letters of which no two neighbours are the same."""
    letters = [str(random.choice(list("abcd")))]
    while len(letters) < count:
        letters.append(str(random.choice([each for each in "abcd" if each != letters[-1]])))
    return "".join(letters)


def teach(model, args, steps):
    """Train CTC until the model knows the tones."""
    random, optimizer = np.random.default_rng(0), torch.optim.Adam(model.parameters(), lr=3e-3)
    torch.manual_seed(0)
    for _ in range(steps):
        texts = [drawn(random, 4) for _ in range(8)]
        samples = [torch.from_numpy(spoken(text, random)) for text in texts]
        labels = torch.tensor([[args.token_list.index(letter) for letter in text] for text in texts])
        lengths = torch.tensor([len(one) for one in samples])
        padded = nn.utils.rnn.pad_sequence(samples, batch_first=True)
        loss, *_ = model(padded, lengths, labels, torch.full((8,), 4))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@pytest.mark.slow
@pytest.mark.parametrize(("window", "int8"), [(400, False), (512, True)])
def test_its_wheel_gives_the_same_texts(tmp_path, window, int8):
    sherpa_onnx = pytest.importorskip("sherpa_onnx", reason="sherpa-onnx, the extra `sherpa`, is not installed")
    features = {"frontend_conf.n_mels": 80, "frontend_conf.win_length": window}
    net = {"output_size": 32, "dropout_rate": 0.0, "positional_dropout_rate": 0.0}
    settings = {"model_conf.ctc_weight": 1.0, **{f"encoder_conf.{name}": value for name, value in net.items()}}
    run = train_tiny(tmp_path / "run", RATE, **features, **settings)
    model, args = load_model(run.model_dir)
    teach(model.train(), args, 300)
    torch.save(model.state_dict(), run.model_dir / "learned.pth")
    path = export(model, args, tmp_path / "model.onnx", {}, int8)
    greedy = {"options": {"search": "greedy"}, "segmentation": {"whole": True}}
    ours = Recognizer(run.model_dir, "learned.pth", **greedy)
    random = np.random.default_rng(1)
    letters = [drawn(random, count) for count in (1, 2, 3, 5, 8, 8, 12, 20)]
    recordings = [spoken(each, random) for each in letters]
    texts = [ours.transcribe(samples, RATE).text for samples in recordings]
    assert texts == letters
    tokens = tmp_path / "model.tokens.txt"
    assert decoded(sherpa_onnx, path, tokens, recordings) == texts
    tokens.write_text(tokens_text(["<space>" if token == "d" else token for token in args.token_list]))
    assert decoded(sherpa_onnx, path, tokens, recordings) == [text.replace("d", " ").lstrip() for text in texts]


def decoded(sherpa_onnx, path, tokens, recordings):
    """Texts of sherpa-onnx."""
    recognizer = sherpa_onnx.OfflineRecognizer.from_dolphin_ctc(str(path), str(tokens))
    streams = [recognizer.create_stream() for _ in recordings]
    for stream, samples in zip(streams, recordings, strict=True):
        stream.accept_waveform(RATE, samples)
    recognizer.decode_streams(streams)
    return [stream.result.text for stream in streams]


def test_a_space_is_a_line_without_a_token():
    assert tokens_text(["<blank>", "<space>", "\u2581a", "7"]) == "<blank> 0\n 1\n\u2581a 2\n7 3\n"


def read(model):
    found = metadata(model, "abc")
    return found, [np.array([float(value) for value in found[name].split(",")]) for name in ("mean", "invstd")]


def model_with(input_layer="conv2d", **options):
    """The parts of a model that tell its features and the step of its frames."""
    frontend = DefaultFrontend(**{"n_fft": 512, "hop_length": 160, "n_mels": 80} | options)
    encoder = ENCODERS["diverse_transformer"](80, 16, 2, 32, 1, input_layer=input_layer)
    return SimpleNamespace(frontend=frontend, encoder=encoder)


@pytest.mark.parametrize("window", [400, 512])
def test_the_mean_is_what_a_filter_and_longer_windows_add_to_noise(window):
    noise = torch.from_numpy(np.random.default_rng(0).standard_normal((1, 30 * RATE))).float()
    filtered = noise.clone()
    filtered[:, 1:] -= 0.97 * noise[:, :-1]
    length = torch.tensor([noise.shape[1]])
    theirs, ours = (  # logarithms of mean powers
        model_with(win_length=size).frontend(samples, length)[0].exp().mean((0, 1)).log()
        for size, samples in ((512, filtered), (window, noise))
    )
    found, (mean, scale) = read(model_with(win_length=window))
    assert found["vocab_size"] == "3" and found["subsampling_factor"] == "4" and set(scale) == {1.0}
    assert np.allclose(mean, (theirs - ours).numpy(), atol=0.06)
    assert metadata(model_with("conv2d6", win_length=window), "abc")["subsampling_factor"] == "6"


@pytest.mark.parametrize(
    "other",
    [
        *({"fs": "8k"}, {"hop_length": 128}, {"n_mels": 40}, {"win_length": 320}, {"window": "hamming"}),
        *({"fmin": 80}, {"htk": True}, {"n_fft": 1024}, {"center": False}),
    ],
    ids=str,
)
def test_a_model_with_other_features_has_no_metadata(other):
    assert metadata(model_with(**other), "abc") == {}
    assert metadata(SimpleNamespace(frontend=None), "abc") == {}
