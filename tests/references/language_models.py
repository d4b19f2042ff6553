"""Small language models."""

import torch

from espnet_diverse.runs import checkpoint
from espnet_diverse.runs.config import save
from espnet_diverse.runs.tasks import LMTask

TRANSFORMER = {"embed_unit": 8, "att_unit": 16, "head": 2, "unit": 16, "layer": 1, "pos_enc": "sinusoidal"}
RNN = {"unit": 8, "nlayers": 1}
TRAINED = """
lm: diverse_transformer
lm_conf: {pos_enc: sinusoidal, embed_unit: 8, att_unit: 16, head: 2, unit: 16, layer: 1, attention: {core: sma}}
batch_type: tokens
batch_bins: 60
max_epoch: 2
num_workers: 0
optim: adam
optim_conf: {lr: 1.0e-3}
best_model_criterion: [[valid, loss, min], [valid, epoch, max]]
"""
"""The configuration of one that tests train."""


def write_lm(folder, tokens, lm="transformer", conf=TRANSFORMER):
    """A directory with an untrained language model whose scores differ much."""
    parser = LMTask.get_parser()
    parser.set_defaults(lm=lm, lm_conf=dict(conf), token_list=list(tokens), token_type="char", init=None, task="lm")
    args = parser.parse_args([])
    torch.manual_seed(0)
    model = LMTask.build_model(args)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
    folder.mkdir(parents=True)
    checkpoint.save(model.state_dict(), folder / "valid.loss.ave.pth")
    save(vars(args), folder / "config.yaml")
    return folder
