"""Recognisers, translators and language models with a memory train from their fragments, and a trained one decodes."""

import pytest
import torch
import yaml

from espnet_diverse.bin.main import main
from espnet_diverse.nets.memory import MEMORIES
from espnet_diverse.runs.config import merge
from espnet_diverse.runs.tasks import TASKS
from espnet_diverse.scope import Step, scope

TOKENS = ["<blank>", "<unk>", "a", "b", "c", "d", "<sos/eos>"]
TEXT, LENGTHS = torch.tensor([[2, 3, 4, 5, 2, 3, 4, 5], [5, 4, 3, 0, 0, 0, 0, 0]]), torch.tensor([8, 3])
LOSSES = {"cdt": {"memory_nce", "memory_constraint"}, "xl": set(), "compressive": {"memory_reconstruction"}}


def build(task, *fragments, overrides=()):
    parser = TASKS[task].get_parser()
    parser.set_defaults(**merge(fragments, overrides), token_list=TOKENS)
    if task == "mt":
        parser.set_defaults(src_token_list=TOKENS)
    torch.manual_seed(0)
    return TASKS[task].build_model(parser.parse_args([]))


def learn(model, batch, steps=10):
    """The task's loss and the statistics of each step of Adam on one batch."""
    optimizer, seen = torch.optim.Adam(model.parameters(), lr=5e-3), []
    for number in range(steps):
        with scope(step=Step(number, number)):
            loss, stats, _ = model.train()(**batch)
        optimizer.zero_grad()
        loss.sum().backward()
        optimizer.step()
        seen.append({name: float(value) for name, value in stats.items() if value is not None})
    return [each["loss_task"] for each in seen], seen


def check(kind, losses, seen):
    assert sum(losses[-3:]) < 0.9 * sum(losses[:3])
    for name in LOSSES[kind]:
        assert all(torch.isfinite(torch.tensor(each[f"aux_{name}"])) for each in seen)
        gradient = seen[0][f"gradient_{name}"]
        assert gradient > 0 if kind == "cdt" else gradient == 0  # a compressive memory trains its compression alone
    assert {name.removeprefix("aux_") for name in seen[0] if name.startswith("aux_")} == LOSSES[kind]
    assert seen[0]["memory_slots"] > 0 and seen[0]["memory_diversity"] > 0  # of every tenth batch


@pytest.mark.parametrize("kind", MEMORIES)
def test_a_recogniser_learns(kind):
    model = build("asr", "model/tiny", f"memory/{kind}", overrides=["encoder_conf.memory.segment=12"])
    torch.manual_seed(0)
    batch = {"speech": torch.randn(2, 24000), "speech_lengths": torch.tensor([24000, 12000])}
    check(kind, *learn(model, batch | {"text": TEXT, "text_lengths": LENGTHS}))


@pytest.mark.parametrize("kind", MEMORIES)
def test_a_translator_with_memories_on_both_sides_learns(kind):
    sides = {"encoder_conf.memory": 4, "decoder_conf.memory": 4, "decoder_conf.cross_memory": 4}
    overrides = [f"{side}.segment={segment}" for side, segment in sides.items()]
    fragments = [f"memory/{kind}", f"memory/decoder_{kind}", f"memory/cross_{kind}"]
    model = build("mt", "model/mt_mini", "attention/softmax", *fragments, overrides=overrides)
    batch = {"src_text": TEXT.flip(1).clamp(min=2), "src_text_lengths": torch.tensor([8, 8])}
    check(kind, *learn(model, batch | {"text": TEXT, "text_lengths": LENGTHS}, steps=20))


@pytest.mark.parametrize("overrides", [[], ["lm_conf.attention.position=transformer_xl"]], ids=["added", "distances"])
@pytest.mark.parametrize("kind", MEMORIES)
def test_a_language_model_learns(kind, overrides):
    model = build("lm", "model/lm_tiny", f"memory/lm_{kind}", overrides=overrides)
    text = TEXT.repeat(1, 6)  # longer than a segment
    lengths = torch.tensor([48, 40])
    check(kind, *learn(model, {"text": text.clamp(min=2), "text_lengths": lengths}))


def test_a_run_with_memory_trains_and_decodes(tiny_run, tmp_path):
    config = ["--config", "model/tiny,memory/cdt", *tiny_run.config[2:]]
    config += ["--set", "encoder_conf.memory.segment=8", "--set", "max_epoch=1"]
    paths = ["--stats_dir", str(tiny_run.stats_dir), "--output_dir", str(tmp_path)]
    assert main(["train", *config, *tiny_run.data(), *paths]) == 0
    assert yaml.safe_load((tmp_path / "config.yaml").read_text())["encoder_conf"]["memory"]["kind"] == "cdt"
    assert "memory_diversity" in (tmp_path / "train.log").read_text()
    decoded = [str(tmp_path), "--model_file", "1epoch.pth", "--data_dir", str(tiny_run.test_dir)]
    assert main(["decode", *decoded, "--output_dir", str(tmp_path / "decode")]) == 0
    assert len((tmp_path / "decode" / "text").read_text().splitlines()) == 3
