"""Text embedded by a pretrained encoder, one with random weights that is made on the spot; nothing is downloaded."""

import shutil

import pytest
import torch
import transformers
import yaml
from references.small_model import SMALL

from espnet_diverse.bin.main import main
from espnet_diverse.data.tables import read_table
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.nets.frontends.bert import BertFrontend
from espnet_diverse.runs import checkpoint
from espnet_diverse.runs.tasks import MTTask, load_model
from espnet_diverse.text.vocabulary import Vocabulary

FUSION = ["--config", "model/mt_tiny,attention/sdma,model/bert_fusion,SMALL", "--task", "mt"]


@pytest.fixture
def frontend(tiny_bert):
    made = BertFrontend(len(Vocabulary.of_bert(tiny_bert)), embed_dim=6, bert=str(tiny_bert))
    made.load_pretrained()
    return made.eval()


def indices(tiny_bert, *texts):
    """Token indices (B, T) with <sos/eos> before each text, as the model gives them, and lengths (B,)."""
    vocabulary = Vocabulary.of_bert(tiny_bert)
    end = len(vocabulary) - 1
    rows = [[end, *vocabulary.encode(text)] for text in texts]
    longest = max(map(len, rows))
    return torch.tensor([row + [end] * (longest - len(row)) for row in rows]), torch.tensor([len(row) for row in rows])


def test_embeddings_match_the_library(frontend, tiny_bert):
    bert = transformers.AutoModel.from_pretrained(tiny_bert).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_bert)
    texts = ["abcd abx", "d", "cab dac a"]
    with torch.no_grad():
        found, lengths = frontend(*indices(tiny_bert, *texts))
        for text, row, length in zip(texts, found, lengths, strict=True):
            expected = bert(**tokenizer(text, return_tensors="pt")).last_hidden_state[0, :-1]
            assert len(expected) == length
            torch.testing.assert_close(row[:length], frontend.project(expected))
    assert frontend.output_size() == 6


def test_a_frozen_encoder_is_not_trained_and_draws_no_dropout(frontend, tiny_bert):
    frontend.train()
    frontend.dropout.eval()
    torch.testing.assert_close(frontend(*indices(tiny_bert, "abcd"))[0], frontend(*indices(tiny_bert, "abcd"))[0])
    frontend(*indices(tiny_bert, "abcd"))[0].sum().backward()
    assert frontend.project.weight.grad is not None
    assert all(parameter.grad is None and not parameter.requires_grad for parameter in frontend.bert.parameters())


def test_a_trainable_encoder_is_trained(tiny_bert):
    frontend = BertFrontend(len(Vocabulary.of_bert(tiny_bert)), 6, bert=str(tiny_bert), trainable=True).train()
    frontend.load_pretrained()
    frontend(*indices(tiny_bert, "abcd"))[0].sum().backward()
    assert frontend.bert.training
    assert all(parameter.grad is not None for parameter in frontend.bert.parameters())  # no pooler is among them
    frontend.eval()
    with torch.no_grad():
        assert not frontend(*indices(tiny_bert, "a"))[0].requires_grad


def test_a_text_longer_than_the_encoder_reads_is_refused(frontend, tiny_bert):
    assert frontend(*indices(tiny_bert, "a" * 18))[0].shape == (1, 19, 6)
    with pytest.raises(DataError, match="a text has 19 tokens and the pretrained encoder reads 18; leave longer texts"):
        frontend(*indices(tiny_bert, "a" * 19))


def test_positions_of_roberta_begin_after_padding(tmp_path):
    config = {"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "pad_token_id": 1}
    config |= {"model_type": "roberta", "max_position_embeddings": 20, "intermediate_size": 8}
    frontend = BertFrontend(9, 4, bert_config=config)
    frontend(torch.zeros(1, 17, dtype=torch.long), torch.tensor([17]))
    with pytest.raises(DataError, match="a text has 17 tokens and the pretrained encoder reads 16"):
        frontend(torch.zeros(1, 18, dtype=torch.long), torch.tensor([18]))


def test_an_encoder_that_is_not_there_is_refused():
    with pytest.raises(ConfigError, match="^/nowhere/bert: no such folder; .* hf:owner/name"):
        BertFrontend(9, bert="/nowhere/bert")
    with pytest.raises(ConfigError, match="frontend_conf.bert is not given; name the encoder, --set frontend_conf.ber"):
        BertFrontend(9)


def test_another_vocabulary_is_refused(tiny_bert):
    frontend = BertFrontend(7, bert=str(tiny_bert))
    with pytest.raises(
        ConfigError, match=r"source vocabulary has 7 tokens and the vocabulary of .* has 15; make it with espnet-diver"
    ):
        frontend.load_pretrained()


@pytest.fixture(scope="module")
def fused(tiny_translation, tiny_bert, tmp_path_factory):
    """A translation run of two epochs, averaged, whose source is embedded by the tiny encoder."""
    root = tmp_path_factory.mktemp("fused")
    (root / "small.yaml").write_text(f"{SMALL}frontend_conf: {{embed_dim: 16}}\nbatch_type: tokens\nbatch_bins: 60\n")
    copied = shutil.copytree(tiny_bert, root / "bert")
    words = ["--text", str(tiny_translation.train_dir / "src_text"), "--output_dir", str(root / "src_tokens")]
    assert main(["tokens", "--type", "bert", "--bert", str(copied), *words]) == 0
    arguments = [word.replace("SMALL", str(root / "small.yaml")) for word in FUSION]
    arguments += [*tiny_translation.data(), "--src_tokens_dir", str(root / "src_tokens")]
    arguments += ["--set", f"frontend_conf.bert={copied}"]
    assert main(["stats", *arguments, "--output_dir", str(root / "stats")]) == 0
    paths = ["--stats_dir", str(root / "stats"), "--output_dir", str(root / "exp")]
    assert main(["train", *arguments, *paths, "--set", "max_epoch=1"]) == 0
    assert main(["train", *arguments, *paths, "--allow_changed", "max_epoch"]) == 0  # continues after the first
    assert main(["average", str(root / "exp"), "--number", "2"]) == 0
    shutil.rmtree(copied)  # a trained model stands alone
    return root / "exp"


def test_a_fused_model_trains_without_changing_frozen_parameters(fused, tiny_bert):
    first, second = (checkpoint.load_weights(fused / f"{epoch}epoch.pth") for epoch in (1, 2))
    theirs = transformers.AutoModel.from_pretrained(tiny_bert).state_dict()
    names = [name for name in theirs if not name.startswith("pooler")]
    assert all(torch.equal(second[f"frontend.bert.{name}"], theirs[name]) for name in names)
    changed = {name for name in first if not torch.equal(first[name], second[name])}
    assert "frontend.project.weight" in changed and not any(name.startswith("frontend.bert") for name in changed)
    assert not any("frontend.embed" in name for name in first)


def test_lengths_in_the_statistics_match_preprocessed_texts(fused, tiny_translation, tiny_bert):
    _, args = load_model(fused, task="mt")
    preprocess = MTTask.build_preprocess_fn(args, train=False)
    texts = read_table(tiny_translation.train_dir / "src_text")
    size = len(Vocabulary.of_bert(tiny_bert))
    expected = [f"{name} {len(preprocess('', {'src_text': text})['src_text'])},{size}" for name, text in texts.items()]
    shapes = fused.parent / "stats" / "train" / "src_text_shape.hugging_face"
    assert shapes.read_text().splitlines() == expected


@pytest.mark.parametrize("search", ["batched", "espnet"])
def test_a_fused_model_decodes_without_the_encoder_it_came_from(fused, tiny_translation, tmp_path, search):
    paths = ["--data_dir", str(tiny_translation.test_dir), "--output_dir", str(tmp_path / "out")]
    moved = shutil.copytree(fused, tmp_path / "moved")
    options = ["--set", "beam_size=3", "--set", "minlenratio=0.5", "--set", f"search={search}"]
    assert main(["decode", str(moved), *paths, *options]) == 0
    texts = read_table(tmp_path / "out" / "text")
    assert len(texts) == 5 and all(texts.values())


def test_the_architecture_is_kept_as_plain_data(fused):
    config = yaml.safe_load((fused / "config.yaml").read_text())["frontend_conf"]["bert_config"]
    assert config["model_type"] == "bert" and config["num_hidden_layers"] == 2 and "auto_map" not in config


@pytest.mark.parametrize(
    ("name", "value"),
    [("backbone", "evil/backbone"), ("attn_implementation", "evil/kernel"), ("model_type", "table-transformer")],
)
def test_an_architecture_that_could_ask_the_hub_is_refused(fused, tmp_path, name, value):
    moved = shutil.copytree(fused, tmp_path / "moved")
    config = yaml.safe_load((moved / "config.yaml").read_text())
    config["frontend_conf"]["bert_config"][name] = value
    (moved / "config.yaml").write_text(yaml.safe_dump(config))
    with pytest.raises(ConfigError, match=f"bert_config: .*{name}.*'{value}'.* is not allowed"):
        load_model(moved, task="mt")


def test_a_text_that_is_too_long_costs_no_other(fused, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "src_text").write_text(f"a {'a' * 30}\nb abc\n")
    paths = ["--data_dir", str(tmp_path / "data"), "--output_dir", str(tmp_path / "out"), "--set", "minlenratio=1"]
    assert main(["decode", str(fused), *paths]) == 2
    failures = yaml.safe_load((tmp_path / "out" / "failures.json").read_text())
    assert list(failures) == ["a"] and "a text has 30 tokens and the pretrained encoder reads 18" in failures["a"]
    assert list(read_table(tmp_path / "out" / "text")) == ["b"]


def test_embeddings_are_not_shared_with_a_pretrained_encoder(fused, tiny_bert):
    _, args = load_model(fused, task="mt")
    args.src_token_list = args.token_list
    args.model_conf["share_encoder_decoder_input_embed"] = True
    with pytest.raises(
        ConfigError, match="share_encoder_decoder_input_embed: the frontend has no embeddings; set false"
    ):
        MTTask.build_model(args)
