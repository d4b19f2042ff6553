"""Whisper models of Hugging Face's layout as runs: outputs and greedy texts of transformers."""

import json

import numpy as np
import pytest
import torch
import transformers
import yaml
from references.whisper import LANGUAGES, write_whisper
from tokenizers import Tokenizer

from espnet_diverse.decoding.espnet.espnet_beam import ESPnetBeamSearch
from espnet_diverse.decoding.options import Options
from espnet_diverse.decoding.predictor import load_predictor
from espnet_diverse.errors import ModelError
from espnet_diverse.runs.packed import whisper
from espnet_diverse.runs.packed.archive import unpacked
from espnet_diverse.runs.tasks import load_model
from espnet_diverse.scope import scope

SPECIAL = 2  # <blank> and <unk> come before Whisper's tokens


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ESPNET_DIVERSE_CACHE", str(tmp_path / "cache"))
    return write_whisper(tmp_path / "whisper")


def theirs(folder):
    return transformers.WhisperForConditionalGeneration.from_pretrained(folder).eval()


def samples(seconds=3):
    return np.random.default_rng(0).normal(size=16_000 * seconds).astype(np.float32) * 0.1


def their_features(folder, given):
    prepare = transformers.WhisperFeatureExtractor.from_pretrained(folder)
    return prepare(given, sampling_rate=16_000, return_tensors="pt").input_features


def padded(run):
    """A run that pads its audio to 30 seconds, as transformers does."""
    config = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(config.replace("pad: 5.0", "pad: full"))
    return run


@torch.no_grad()
def test_outputs_equal_transformers(folder):
    model, _ = load_model(unpacked(folder))
    model, expected, features = model.eval(), theirs(folder), their_features(folder, samples())
    output, lengths, _ = model.encoder(features.transpose(1, 2), torch.tensor([3000]))
    source = expected.model.encoder(features).last_hidden_state
    torch.testing.assert_close(output, source, atol=1e-5, rtol=0)
    start = expected.config.decoder_start_token_id
    language = start + 1 + LANGUAGES.index("de")
    task, times = start + len(LANGUAGES) + 2, start + len(LANGUAGES) + 6
    tokens = [5, 300 - 40, 17, 42]
    scores = expected(
        encoder_outputs=(source,), decoder_input_ids=torch.tensor([[start, language, task, times, *tokens]])
    ).logits[0, 3:]
    ids = {name: torch.tensor([LANGUAGES.index("de")]) for name in ("lang", "tgtlang")}
    given = torch.tensor([[model.sos, *(token + SPECIAL for token in tokens)]])
    with scope(ids, collect=False):
        found, _ = model.decoder(source, lengths, given, torch.tensor([5]))
    end = expected.config.eos_token_id
    ours = found[0, :, SPECIAL:-1].clone()
    ours[:, end] = found[0, :, -1]
    torch.testing.assert_close(ours, scores, atol=1e-5, rtol=0)


@torch.no_grad()
@pytest.mark.parametrize("seed", range(3))
def test_greedy_texts_equal_transformers(tmp_path, monkeypatch, seed):
    monkeypatch.setenv("ESPNET_DIVERSE_CACHE", str(tmp_path / "cache"))
    folder = write_whisper(tmp_path / "whisper", seed=seed)
    expected, features = theirs(folder), their_features(folder, samples())
    start = expected.config.decoder_start_token_id
    prompt = [start, start + 1, start + len(LANGUAGES) + 2, start + len(LANGUAGES) + 6]
    count, suppress = 20, json.loads((folder / "generation_config.json").read_text())
    tokens = list(prompt)
    for step in range(count):
        scores = expected(features, decoder_input_ids=torch.tensor([tokens])).logits[0, -1]
        scores[suppress["suppress_tokens"] + [*range(start, len(scores))]] = -torch.inf
        if not step:
            scores[suppress["begin_suppress_tokens"]] = -torch.inf
        tokens.append(int(scores.argmax()))
        if tokens[-1] == expected.config.eos_token_id:
            tokens.pop()
            break
    run = unpacked(folder)
    options = Options(beam_size=1, maxlenratio=-count)
    predictor, ids = load_predictor(padded(run), options=options), {"lang": 0, "tgtlang": 0}
    (best,) = predictor.batch([predictor.features(samples())], [ids])
    assert predictor.tokens.indices(best[0].tokens) == [each + SPECIAL for each in tokens[4:]]
    decoded = Tokenizer.from_file(str(folder / "tokenizer.json")).decode(tokens[4:])
    assert best[0].text == decoded.removeprefix(" ")
    encoded = predictor.encode([predictor.features(samples())], [ids])
    with scope(encoded.conditions, collect=False):
        (slow,) = ESPnetBeamSearch(predictor.encoding.model, None, None)(*encoded[:2], predictor.options)
    assert slow[0].tokens == [each + SPECIAL for each in tokens[4:]]
    assert slow[0].score == pytest.approx(best[0].score, abs=1e-4)


def generated(folder, features, count, **options):
    """Tokens of transformers' own search, with times, after the prompt."""
    model, config = theirs(folder), json.loads((folder / "generation_config.json").read_text())
    made, start = model.generation_config, model.config.decoder_start_token_id
    languages = {f"<|{name}|>": start + 1 + index for index, name in enumerate(LANGUAGES)}
    task = start + len(LANGUAGES)
    vars(made).update(config, decoder_start_token_id=start, lang_to_id=languages, no_timestamps_token_id=task + 6)
    vars(made).update(task_to_id={"translate": task + 1, "transcribe": task + 2}, max_initial_timestamp_index=50)
    made.suppress_tokens = [*config["suppress_tokens"], *range(start, task + 7)]
    named = {"language": "de", "task": "transcribe"} if config["is_multilingual"] else {}
    tokens = model.generate(
        features, return_timestamps=True, force_unique_generate_call=True, max_new_tokens=count, **named, **options
    )[0].tolist()
    return [token for token in tokens if token < start and token != config["eos_token_id"] or token > task + 6]


@torch.no_grad()
@pytest.mark.parametrize("seed", range(4))
def test_greedy_texts_with_times_equal_transformers(tmp_path, monkeypatch, seed):
    monkeypatch.setenv("ESPNET_DIVERSE_CACHE", str(tmp_path / "cache"))
    folder, count = write_whisper(tmp_path / "whisper", seed=seed), 24
    expected = generated(folder, their_features(folder, samples()), count)
    predictor = load_predictor(padded(unpacked(folder)), options=Options(beam_size=1, maxlenratio=-count))
    (found,) = predictor.find([predictor.features(samples())], [{"lang": 2, "tgtlang": 2}], timed=True)
    tokens = [index - SPECIAL for index in predictor.tokens.indices(found.texts[0].tokens)]
    assert tokens == expected
    times = [token + SPECIAL in predictor.times for token in tokens]
    assert times[0] and 2 < sum(times) < len(times) - 2


def test_a_model_of_english_alone_has_no_conditions(tmp_path, monkeypatch):
    monkeypatch.setenv("ESPNET_DIVERSE_CACHE", str(tmp_path / "cache"))
    run = unpacked(write_whisper(tmp_path / "english", multilingual=False))
    model, _ = load_model(run)
    assert model.conditions == {} and len(model.decoder.prompt) == 2


def test_signs_of_sounds_are_suppressed_where_no_list_is_given(folder, tmp_path):
    file, config = folder / "generation_config.json", folder / "config.json"
    file.unlink()
    content = json.loads(config.read_text())
    config.write_text(json.dumps({key: value for key, value in content.items() if "suppress" not in key}))
    (tmp_path / "run").mkdir()
    whisper.write_run(folder, tmp_path / "run")
    options = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    suppressed = {options["token_list"][index] for index in options["decoder_conf"]["suppress"]}
    assert {"(", "[", "*", "<blank>", "<|endoftext|>", "<|nospeech|>"} <= suppressed
    assert not {"a", "!", ",", "<sos/eos>"} & suppressed


def test_a_folder_is_converted_once_and_again_when_it_changes(folder):
    run = unpacked(folder)
    assert unpacked(folder) == run and (run / "tokens.yaml").is_file()
    (folder / "README.md").write_text("changed")
    assert unpacked(folder) != run
    (folder / "config.yaml").write_text("task: asr\n")  # a run that was written there
    assert unpacked(folder) == folder


@pytest.mark.parametrize(
    ("file", "change", "named"),
    [
        ("config.json", {"d_model": None}, "d_model"),
        ("config.json", {"activation_function": "relu"}, "activation_function"),
        ("tokenizer.json", {"model": None}, "tokenizer.json"),
        ("tokenizer.json", {"added_tokens": [{"id": 3}]}, "tokenizer.json"),
        ("tokenizer.json", {"pre_tokenizer": None}, "tokenizer.json"),
        ("generation_config.json", {"suppress_tokens": [10**9]}, "token 1000000000"),
        ("generation_config.json", {"begin_suppress_tokens": ["x"]}, "TypeError"),
    ],
)
def test_files_with_faults(folder, tmp_path, file, change, named):
    content = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps(content | change))
    (tmp_path / "run").mkdir()
    with pytest.raises(ModelError, match=named):
        whisper.write_run(folder, tmp_path / "run")


@pytest.mark.parametrize("file", ["model.safetensors", "tokenizer.json"])
def test_missing_and_damaged_files(folder, tmp_path, file):
    (tmp_path / "run").mkdir()
    (folder / file).write_bytes(b"damaged")
    with pytest.raises(ModelError, match=file):
        whisper.write_run(folder, tmp_path / "run")
    (folder / file).unlink()
    with pytest.raises(ModelError, match=file):
        whisper.write_run(folder, tmp_path / "run")
