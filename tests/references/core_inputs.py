"""Inputs of cores in double precision, comparison with loops sequence by sequence, and their gradients."""

import torch

from espnet_diverse.attention import Heads, Inputs
from espnet_diverse.attention.relative_position import PositionTerm
from references import sdma as oracle

B, H, D = 2, 2, 3
SIZE = H * D


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


def padding(*lengths):
    """Mask (B, 1, 1, T) of sequences of these lengths, of which the first is the longest."""
    return (torch.arange(lengths[0]) < torch.tensor(lengths).unsqueeze(1)).view(len(lengths), 1, 1, lengths[0])


PADDED = padding(6, 4)
CAUSAL = PADDED & torch.ones(6, 6, dtype=torch.bool).tril()
CASES = {"none": (None, False), "padding": (PADDED, False), "causal": (CAUSAL, True), "blocks": (CAUSAL, False)}
"""Mask of sequences of 6 and 4 positions, and whether the core is causal."""
BY_HEAD = PADDED & ((draw(B, H, 6, 6, seed=6) > 0) | torch.eye(6, dtype=torch.bool))
"""Masks that differ between heads; each query sees itself."""
MASKS = {"none": None, "padding": PADDED, "causal": CAUSAL, "heads": BY_HEAD}


def heads(mask, time=6, relative=False, **given):
    """Inputs of self-attention over `time` positions."""
    x = draw(B, time, SIZE)
    q, k, v = (draw(B, H, time, D, seed=seed) for seed in (1, 2, 3))
    term = PositionTerm(draw(B, H, time, D, seed=4), draw(1, H, 2 * time - 1, D, seed=5)) if relative else None
    return Heads(q, k, v, x, x, q, Inputs(x, x, x), mask, position_term=term, **given)


def assert_equals_loops(core, given, lengths, seen):
    """A core of softmax weights over the pairs (T, T) that `seen` gives for a number of positions."""
    context, weights = core(given)
    for b, n in enumerate(lengths):
        for h in range(H):
            q, k = given.q[b, h, :n].numpy(), given.k[b, h, :n].numpy()
            term = given.position_term
            bias = None if term is None else term.matrix()[b, h, :n, :n].numpy() / D**0.5
            expected = torch.tensor(oracle.attention(q, k, seen(n), bias=bias))
            torch.testing.assert_close(context[b, h, :n], expected @ given.v[b, h, :n])
            if given.need_weights:
                torch.testing.assert_close(weights[b, h, :n, :n], expected)


def gradcheck(core, given):
    """Check the gradients of the last sequence's first head with respect to q, k, v and the relative positions."""
    mask, term = None if given.mask is None else given.mask[1:], given.position_term

    def context(q, k, v, *position):
        one = Heads(q, k, v, given.query, given.query, q, given.perturbed, mask)
        one.position_term = PositionTerm(*position) if position else None
        return core(one)[0]

    tensors = [x[1:, :1] for x in (given.q, given.k, given.v)]
    tensors += [] if term is None else [term.q[1:, :1], term.p[:, :1]]
    return torch.autograd.gradcheck(context, [x.clone().requires_grad_() for x in tensors])


def sequences(given, lengths=(6, 4)):
    """For each sample its number, its q, k, v (H, T, D), what is seen (H, T, T) and the position term (H, T, T).

    They are NumPy arrays without padding.
    """
    seen = torch.ones(B, H, 6, 6, dtype=torch.bool) if given.mask is None else given.mask.expand(B, H, 6, 6)
    term = torch.zeros(B, H, 6, 6, dtype=torch.double) if given.position is None else given.position
    for b, n in enumerate(lengths if given.mask is not None else [6] * B):
        tokens = (x[b, :, :n].numpy() for x in (given.q, given.k, given.v))
        yield b, *tokens, seen[b, :, :n, :n].numpy(), term[b, :, :n, :n].numpy()


def whole_position(given):
    """The same inputs with the position term as a matrix, which most cores are given."""
    if given.position_term is not None:
        given.position, given.position_term = given.position_term.matrix(), None
    return given


def attention_gradcheck(module, mask, *position):
    """Check the gradients of an attention with respect to its input (1, 5, SIZE) and the parameters of its parts."""
    module = module.double()
    names = [name for name, _ in module.named_parameters() if not name.startswith("linear_")]

    def attend(x, *values):
        torch.manual_seed(0)
        return torch.func.functional_call(module, dict(zip(names, values, strict=True)), (x, x, x, *position, mask))

    given = [draw(1, 5, SIZE), *(module.get_parameter(name).detach().clone() for name in names)]
    return torch.autograd.gradcheck(attend, [x.requires_grad_() for x in given])
