"""Pruning of attention; tests/attention/selection/test_head_selection.py compares each core with the masked one."""

import torch

from espnet_diverse.attention import build_attention
from espnet_diverse.attention.pruning import pruned
from espnet_diverse.scope import scope

SIZE, HEADS, TIME = 8, 2, 5


def test_a_pruned_copy_leaves_the_module_as_it_is():
    names = {"conditions": {"lang": ["de", "en"]}}
    module = build_attention("softmax", SIZE, HEADS, selection={"strategy": "static", **names}).eval()
    x = torch.randn(2, TIME, SIZE)
    with scope({"lang": torch.tensor([1])}):
        expected, plain = module(x, x, x, None), pruned(module)
        assert plain.selection is None and plain.linear_q.weight.shape == (SIZE, SIZE)
        assert module.selection is not None and module.linear_q.weight.shape == (2 * SIZE, SIZE)
        torch.testing.assert_close(module(x, x, x, None), expected)
    torch.testing.assert_close(plain(x, x, x, None), expected)


def test_a_masked_head_of_a_pool_is_masked_in_its_language():
    names = {"conditions": {"lang": ["de", "en"]}}  # static: de has the heads 0 and 1, en has 2 and 3
    module = build_attention("softmax", SIZE, HEADS, selection={"strategy": "static", **names}).double().eval()
    x, module.head_mask = torch.randn(2, TIME, SIZE).double(), torch.tensor([True, True, True, False])
    with scope({"lang": torch.tensor([0, 1])}):
        masked = module(x, x, x, None)
        q, cache = module.project_qkv(x)
        torch.testing.assert_close(module.attend_cached(q, x, cache, None), masked)
    for language, head_mask in enumerate([[True, True], [True, False]]):
        with scope({"lang": torch.tensor([language])}):
            plain = pruned(module)
        assert plain.head_mask.tolist() == head_mask
        torch.testing.assert_close(plain(x, x, x, None)[language], masked[language])
    assert len(module.head_mask) == 4
