"""Small untrained language models."""

import torch

from espnet_diverse.training import checkpoint
from espnet_diverse.training.config import save
from espnet_diverse.training.tasks import LMTask

TRANSFORMER = {"embed_unit": 8, "att_unit": 16, "head": 2, "unit": 16, "layer": 1, "pos_enc": "sinusoidal"}
RNN = {"unit": 8, "nlayers": 1}


def write_lm(folder, tokens, lm="transformer", conf=TRANSFORMER):
    """A directory with an untrained language model whose scores differ much."""
    parser = LMTask.get_parser()
    parser.set_defaults(lm=lm, lm_conf=dict(conf), token_list=list(tokens), init=None, task="lm")
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
