"""--allow_changed: its names are checked in a new run too."""

import pytest

from espnet_diverse.errors import ConfigError
from espnet_diverse.training.checkpoints.resumption import check_allowed


def test_what_may_change_is_known_in_a_new_run_too():
    check_allowed(["data", "kernels", "optim_conf.lr"], {"optim_conf": {}})
    with pytest.raises(ConfigError, match="^--allow_changed inf: unknown; known: data statistics kernels"):
        check_allowed(["inf"], {"optim_conf": {}})
