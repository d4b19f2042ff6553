import pytest

from espnet_diverse.errors import ConfigError
from espnet_diverse.runs.config import merge
from espnet_diverse.training.config.settings import check_settings


@pytest.mark.parametrize("key", ["dist_rank", "dry_run", "multi_task_dataset", "write_collected_feats"])
def test_keys_that_would_be_ignored_are_refused_with_their_origin(key):
    with pytest.raises(ConfigError, match=rf"^--set {key}=1: key '{key}' is not supported; \w"):
        check_settings(merge([], [f"{key}=1"]))
