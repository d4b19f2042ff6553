"""Runs of ESPnet with Whisper's encoder and decoder, built by ESPnet's own classes, as runs of this package."""

import pytest
import torch
import yaml
from references.openai_whisper import listed, write_espnets
from references.whisper import LANGUAGES, tokenizer
from tokenizers import Tokenizer

from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.predictor import load_predictor
from espnet_diverse.errors import ConfigError, ModelError
from espnet_diverse.packing.adoption import adopt
from espnet_diverse.runs.config import merge
from espnet_diverse.runs.packed.espnet_whisper import read_whisper, write_run
from espnet_diverse.runs.packed.whisper import SHIFT
from espnet_diverse.runs.tasks import load_model
from espnet_diverse.scope import scope


@torch.no_grad()
@pytest.mark.parametrize(
    ("mels", "trimmed", "ctc"), [(80, False, 0.0), (128, False, 0.3), (80, True, 0.0)], ids=["plain", "ctc", "padded"]
)
def test_outputs_equal_espnets(tmp_path, mels, trimmed, ctc):
    conf = {"encoder_conf": {"do_pad_trim": trimmed}, "model_conf": {"ctc_weight": ctc}}
    folder, theirs = write_espnets(tmp_path / "exp", mels, **conf)
    assert adopt(folder, tmp_path / "new", merge([])).difference == 0.0
    ours, _ = load_model(tmp_path / "new")
    ours, end = ours.eval(), theirs.eos
    for count in (17_000, 16_085):
        samples = torch.randn(1, count, generator=torch.Generator().manual_seed(count)) * 0.1
        given = samples, torch.tensor([count])
        (expected, lengths), (found, counts) = theirs.encode(*given), ours.encode(*given)
        if trimmed:  # ESPnet counts the frames before it pads
            lengths = torch.tensor([1500])
        assert lengths.tolist() == counts.tolist()
        torch.testing.assert_close(found, expected[:, : int(lengths)], atol=1e-4, rtol=0)
        start = theirs.sos
        prompt = [start, start + 1 + LANGUAGES.index("de"), start + len(LANGUAGES) + 2, start + len(LANGUAGES) + 6]
        text = [5, 17, 42, 220, 256]
        scores, _ = theirs.decoder(expected, lengths, torch.tensor([prompt + text]), torch.tensor([9]))
        tokens = torch.tensor([[ours.sos, *(token + SHIFT for token in text)]])
        with scope({name: torch.tensor([0]) for name in ("lang", "tgtlang")}, collect=False):
            ours_scores, _ = ours.decoder(found, counts, tokens, torch.tensor([6]))
        kept = [SHIFT + token if token != end else -1 for token in range(len(listed()))]
        torch.testing.assert_close(ours_scores[0][:, kept], scores[0, 3:], atol=1e-3, rtol=1e-4)
        if ctc:
            kept[0] = 0  # its blank
            log_probs = theirs.ctc.log_softmax(expected)
            torch.testing.assert_close(ours.ctc.log_softmax(found)[..., kept], log_probs, atol=1e-3, rtol=1e-4)


def test_a_run_decodes_in_its_language_and_writes_text(tmp_path):
    folder, _ = write_espnets(tmp_path / "exp")
    with pytest.raises(ModelError, match="adopt makes a run of it that downloads nothing"):
        load_predictor(folder)
    adopt(folder, tmp_path / "new", merge([]))
    predictor = load_predictor(tmp_path / "new", options=SearchOptions(beam_size=2, maxlenratio=-6))
    assert predictor.conditions.names == {"lang": ["de"], "tgtlang": ["de"]} and len(predictor.times) == 1501
    samples = torch.randn(16_000, generator=torch.Generator().manual_seed(1)).numpy() * 0.1
    ((best, *_),) = predictor.batch([predictor.features(samples)], [{"lang": 0, "tgtlang": 0}])
    assert len(best.tokens) == 6
    text = "hello gut tag und Wörter"
    given = tokenizer()
    expected = [index + SHIFT for index in given.encode(f" {text}").ids]
    assert predictor.tokens.encode(text) == expected
    assert predictor.tokens.decode(expected, 0.0).text == text


def test_the_tokenizer_of_the_list_merges_as_whispers(tmp_path):
    folder, _ = write_espnets(tmp_path / "exp")
    (tmp_path / "run").mkdir()
    write_run(yaml.safe_load((folder / "config.yaml").read_text()), folder / "valid.acc.ave.pth", tmp_path / "run")
    made, given = Tokenizer.from_file(str(tmp_path / "run" / "tokenizer.json")), tokenizer()
    for text in ("hello tag", "gutes  Essen", "你好", "tagtag gut"):
        assert made.encode(text, add_special_tokens=False).ids == given.encode(f" {text}").ids


def test_training_goes_on_as_the_configuration_says(tmp_path):
    specaug = {"apply_time_mask": False, "num_freq_mask": 1}
    conf = {"use_specaug": True, "specaug_conf": specaug}
    folder, _ = write_espnets(
        tmp_path / "exp",
        encoder_conf=conf,
        model_conf={"lsm_weight": 0.1},
        preprocessor_conf={"whisper_language": "zh-CN", "whisper_task": "translate"},
    )
    adopt(folder, tmp_path / "new", merge(["attention/sdma"]))
    config = yaml.safe_load((tmp_path / "new" / "config.yaml").read_text())
    assert (config["specaug"], config["specaug_conf"]) == ("specaug", specaug)
    assert config["model_conf"]["lsm_weight"] == 0.1 and config["frontend_conf"]["pad"] == 0
    assert config["model_conf"]["conditions"] == {"lang": ["zh"], "tgtlang": ["en"]}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"decoder": "transformer"}, "encoder whisper with decoder transformer cannot be adopted"),
        ({"encoder": "conformer"}, "encoder conformer with decoder whisper cannot be adopted"),
        ({"token_type": "bpe"}, "token_type bpe with decoder whisper cannot be adopted"),
        ({"preprocessor_conf": {"whisper_language": "xx"}}, "whisper_language 'xx' is none of Whisper's languages"),
    ],
)
def test_what_cannot_be_adopted_is_said_in_one_line(tmp_path, changed, said):
    folder, _ = write_espnets(tmp_path / "exp")
    config = yaml.safe_load((folder / "config.yaml").read_text())
    (folder / "config.yaml").write_text(yaml.safe_dump(config | changed))
    with pytest.raises(ConfigError, match=said):
        adopt(folder, tmp_path / "new", merge([]))
    (folder / "config.yaml").write_text(yaml.safe_dump(config | {"encoder": "conformer", "decoder": "transformer"}))
    assert read_whisper(folder / "config.yaml") is None


def test_weights_with_other_tokens_are_refused(tmp_path):
    folder, model = write_espnets(tmp_path / "exp")
    state = model.state_dict()
    state["decoder.decoders.token_embedding.ori_emb.weight"] = state.pop("decoder.decoders.token_embedding.weight")
    torch.save(state, folder / "valid.acc.ave.pth")
    with pytest.raises(ModelError, match="tokens that were added, or LoRA, cannot be adopted"):
        adopt(folder, tmp_path / "new", merge([]))
