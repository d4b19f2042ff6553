"""Small models of every task with attention decoders and CTC, with consistency of two passes, and a batch for each."""

import torch

from espnet_diverse.runs.tasks import TASKS

TOKENS = ["<blank>", "<unk>", "a", "b", "<sos>", "<eos>", "<sop>", "<na>", "<sos/eos>"]
LENGTHS = torch.tensor([5, 2, 3])
TEXT = torch.tensor([[2, 3, 2, 2, 3], [3, 2, -1, -1, -1], [2, 2, 3, -1, -1]])
SMALL = {"attention_heads": 2, "linear_units": 8, "num_blocks": 1, "positional_dropout_rate": 0.0}


def build(task, consistency=None, dropout=0.1, model_conf=None, **options):
    """A model with fixed weights, in training."""
    conf = {"ctc_weight": 0.3, "lsm_weight": 0.1, "consistency": consistency} | (model_conf or {})
    nets = {"encoder": "diverse_transformer", "decoder": "diverse_transformer", "model": "diverse", "specaug": None}
    nets["encoder_conf"] = {"output_size": 8, "dropout_rate": dropout, **SMALL}
    nets["decoder_conf"] = {"dropout_rate": dropout, **SMALL}
    if task == "mt":
        del conf["ctc_weight"], nets["specaug"]
        nets |= {"frontend": "embed", "frontend_conf": {"embed_dim": 8, "positional_dropout_rate": 0.0}}
        nets["encoder_conf"] |= {"input_layer": None}
    else:
        nets |= {"frontend_conf": {"n_mels": 16}, "ctc_conf": {"dropout_rate": dropout}}
    if task in ("st", "mt"):
        nets["src_token_list"] = TOKENS
    if task == "st":
        del nets["model"]  # the only one
        conf = {"asr_weight": 0.0, "mt_weight": 0.0, "report_bleu": False} | conf
    for part in ("encoder_conf", "decoder_conf"):
        nets[part] |= options.pop(part, {})
    torch.manual_seed(0)
    parser = TASKS[task].get_parser()
    parser.set_defaults(**{"token_list": TOKENS, "model_conf": conf} | nets | options)
    return TASKS[task].build_model(parser.parse_args([])).train()


def batch(task, samples=slice(None)):
    """Three sentences of 5, 2 and 3 tokens, or some of them, as training gives them."""
    random = torch.Generator().manual_seed(1)
    names = {"mt": ["src_text"], "st": ["src_text"], "s2t": ["text_prev", "text_ctc"]}.get(task, [])
    given = {name: TEXT.clone() for name in ["text", *names]}
    given |= {f"{name}_lengths": LENGTHS.clone() for name in list(given)}
    if task != "mt":
        given |= {"speech": torch.randn(3, 8000, generator=random), "speech_lengths": torch.tensor([8000, 6000, 7000])}
    return {name: value[samples] for name, value in given.items()} | {"utt_id": ["u1", "u2", "u3"][samples]}
