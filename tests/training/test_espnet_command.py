import pytest
import torch

from espnet_diverse.errors import ConfigError
from espnet_diverse.training import espnet_command


def test_gpus_that_are_not_there():
    there = torch.cuda.device_count()
    espnet_command.check_gpus(there)
    with pytest.raises(ConfigError, match=f"--ngpu 99 is not possible; this machine has {there} usable GPUs"):
        espnet_command.check_gpus(99)
