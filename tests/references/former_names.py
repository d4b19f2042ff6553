"""A tiny model whose parts depend on the language, and its configuration with the names of earlier versions."""

import torch

from espnet_diverse import option_checks
from espnet_diverse.training.config import merge
from espnet_diverse.training.tasks import ASRTask

FORMER = {present: former for former, present in option_checks.RENAMED.items()}
NAMES = {"lang": ["ar", "de", "el"]}
BY_LANGUAGE = {"by": "lang", "conditions": NAMES}
SELECTION = {"strategy": "group", "pool": 4, **BY_LANGUAGE, "default_condition": {"lang": "el"}}


def with_former_names(value):
    """A configuration as an earlier version wrote it."""
    if not isinstance(value, dict):
        return value
    return {FORMER.get(key, key): with_former_names(each) for key, each in value.items()}


def build(names=NAMES):
    """A model with a part of each kind that depends on the language, and its arguments."""
    config = merge(["model/tiny"])
    config["encoder_conf"] |= {"attention": {"core": "softmax", "selection": SELECTION | {"conditions": names}}}
    part = BY_LANGUAGE | {"conditions": names}
    config["decoder_conf"] |= {"adapter": part | {"bottleneck": 4}, "start_tag": part}
    config["model_conf"] |= {"conditions": names}
    parser = ASRTask.get_parser()
    parser.set_defaults(**config)
    args = parser.parse_args([])
    args.token_list, args.init = ["<blank>", "<unk>", "a", "b", "c", "<sos/eos>"], None
    args.frontend_conf = {"fs": "16k", "n_fft": 512, "win_length": 400, "hop_length": 160, "n_mels": 20}
    torch.manual_seed(0)
    return ASRTask.build_model(args), args
