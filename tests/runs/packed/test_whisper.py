"""Whisper models of Hugging Face's layout as runs: outputs and greedy texts of transformers."""

import json

import numpy as np
import pytest
import torch
import transformers
import yaml
from references.whisper import LANGUAGES, LAYOUTS, write_whisper
from tokenizers import Tokenizer

from espnet_diverse.decoding.espnet.espnet_beam import ESPnetBeamSearch
from espnet_diverse.decoding.options import SearchOptions
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


def of_layout(folder, layout, seed=0):
    """A model with a layout, its prompt in German without times, and the indices of German's conditions."""
    options = LAYOUTS[layout]
    write_whisper(folder, seed=seed, **options)
    languages, start = options.get("languages", LANGUAGES), theirs(folder).config.decoder_start_token_id
    task = start + len(languages)
    if not options.get("multilingual", True):
        return [start, task + 6], {}
    german = languages.index("de")
    return [start, start + 1 + german, task + 2, task + 6], dict.fromkeys(("lang", "tgtlang"), german)


@torch.no_grad()
@pytest.mark.parametrize("layout", LAYOUTS)
def test_outputs_equal_transformers(tmp_path, monkeypatch, layout):
    monkeypatch.setenv("ESPNET_DIVERSE_CACHE", str(tmp_path / "cache"))
    prompt, german = of_layout(folder := tmp_path / "whisper", layout)
    model, _ = load_model(unpacked(folder))
    model, expected, features = model.eval(), theirs(folder), their_features(folder, samples())
    output, lengths, _ = model.encoder(features.transpose(1, 2), torch.tensor([3000]))
    source = expected.model.encoder(features).last_hidden_state
    torch.testing.assert_close(output, source, atol=1e-5, rtol=0)
    tokens = [5, 300 - 40, 17, 42]
    scores = expected(encoder_outputs=(source,), decoder_input_ids=torch.tensor([prompt + tokens])).logits[0]
    given = torch.tensor([[model.sos, *(token + SPECIAL for token in tokens)]])
    with scope({name: torch.tensor([index]) for name, index in german.items()}, collect=False):
        found, _ = model.decoder(source, lengths, given, torch.tensor([5]))
    end = expected.config.eos_token_id
    ours = found[0, :, SPECIAL:-1].clone()
    ours[:, end] = found[0, :, -1]
    torch.testing.assert_close(ours, scores[len(prompt) - 1 :], atol=1e-5, rtol=0)


def generated(folder, prompt, count, times):
    """Tokens of transformers' own search after the prompt."""
    model, config = theirs(folder), json.loads((folder / "generation_config.json").read_text())
    made, (start, *_, last) = model.generation_config, prompt
    vars(made).update(config, decoder_start_token_id=start, no_timestamps_token_id=last, max_initial_timestamp_index=50)
    vars(made).update(task_to_id={"transcribe": last - 4}, lang_to_id={"<|de|>": prompt[1]})
    never = range(start, last + 1 if times else model.config.vocab_size)
    made.suppress_tokens = [*config["suppress_tokens"], *(token for token in never if times or token != last)]
    named = {"language": "de", "task": "transcribe"} if config["is_multilingual"] else {}
    tokens = model.generate(
        their_features(folder, samples()),
        return_timestamps=times,
        force_unique_generate_call=True,
        max_new_tokens=count,
        **named,
    )[0].tolist()
    return [token for token in tokens if token not in (*prompt, config["eos_token_id"])]


@torch.no_grad()
@pytest.mark.parametrize("times", [False, True])
@pytest.mark.parametrize(("layout", "seed"), [*((name, 0) for name in LAYOUTS), ("base", 1), ("base", 2), ("base", 3)])
def test_greedy_texts_equal_transformers(tmp_path, monkeypatch, layout, seed, times):
    monkeypatch.setenv("ESPNET_DIVERSE_CACHE", str(tmp_path / "cache"))
    prompt, german = of_layout(folder := tmp_path / "whisper", layout, seed)
    expected, options = generated(folder, prompt, 24, times), SearchOptions(beam_size=1, maxlenratio=-24)
    predictor = load_predictor(padded(unpacked(folder)), options=options)
    features = predictor.features(samples())
    (found,) = predictor.find([features], [german], timed=times)
    tokens = predictor.tokens.indices(found.texts[0].tokens)
    assert tokens == [each + SPECIAL for each in expected]
    if times:
        are_times = [token in predictor.times for token in tokens]
        assert are_times[0] and 2 < sum(are_times) < len(tokens) - 2
        return
    decoded = Tokenizer.from_file(str(folder / "tokenizer.json")).decode(expected)
    assert found.texts[0].text == decoded.removeprefix(" ")
    encoded = predictor.encode([features], [german])
    with scope(encoded.conditions, collect=False):
        (slow,) = ESPnetBeamSearch(predictor.encoding.model, None, None)(*encoded[:2], predictor.options)
    assert slow[0].tokens == tokens and slow[0].score == pytest.approx(found.texts[0].score, abs=1e-4)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_conditions_are_the_languages_of_the_model(tmp_path, monkeypatch, layout):
    monkeypatch.setenv("ESPNET_DIVERSE_CACHE", str(tmp_path / "cache"))
    prompt, german = of_layout(tmp_path / "whisper", layout)
    model, args = load_model(unpacked(tmp_path / "whisper"))
    languages = LAYOUTS[layout].get("languages", LANGUAGES)
    assert model.conditions == (dict.fromkeys(("lang", "tgtlang"), languages) if german else {})
    assert len(model.decoder.prompt) == len(prompt) and args.frontend_conf["n_mels"] == model.frontend.output_size()
    assert len(model.decoder.times) == 1501 and args.token_list[model.decoder.times[-1]] == "<|30.00|>"


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
        *(("config.json", {"decoder_layers": number}, "decoder_layers") for number in (10**9, 10**400)),
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
