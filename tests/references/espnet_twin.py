"""The same net from ESPnet and from us, and small encoders of every kind."""

import torch

SMALL = {"output_size": 16, "attention_heads": 2, "linear_units": 24, "num_blocks": 2}
BLOCKS = {"block_size": 8, "hop_size": 4, "look_ahead": 2}
OPTIONS = {
    "diverse_transformer": SMALL,
    "diverse_conformer": {**SMALL, "cnn_module_kernel": 3, "rel_pos_type": "latest"},
    "diverse_e_branchformer": {
        **{k: v for k, v in SMALL.items() if k != "linear_units"},
        "cgmlp_linear_units": 24,
        "cgmlp_conv_kernel": 3,
        "rel_pos_type": "latest",
    },
    "diverse_contextual_block_transformer": {**SMALL, **BLOCKS},
    "diverse_contextual_block_conformer": {**SMALL, **BLOCKS, "cnn_module_kernel": 3, "macaron_style": True},
}
OPTIONS["diverse_branchformer"] = OPTIONS["diverse_e_branchformer"]
PROMPTED = {
    **OPTIONS["diverse_e_branchformer"],
    **{"use_ffn": True, "macaron_ffn": True, "linear_units": 24, "num_blocks": 3},
    **{"interctc_layer_idx": [1, 2], "interctc_use_conditioning": True, "use_cross_attention": [False, True, True]},
}
"""Options of `diverse_e_branchformer_ctc`."""
LEGACY = {**OPTIONS["diverse_conformer"], "rel_pos_type": "legacy"}
ENCODER_CASES = [*OPTIONS.items(), ("diverse_conformer", LEGACY)]
ABSOLUTE = ("diverse_transformer", "diverse_contextual_block_transformer", "diverse_contextual_block_conformer")
"""The encoders with absolute position; the others need cores that support relative position."""


def cases_of_cores(cores, cases=ENCODER_CASES):
    """(core, name of an encoder, its options) for each core in each encoder whose position it supports."""
    return [
        (name, *case)
        for name, core in cores.items()
        for case in cases
        if core.supports.relative_position or case[0] in ABSOLUTE
    ]


def pair(ours, *args, **options):
    """Build the same net from ESPnet and from us, with ESPnet's weights loaded strictly into ours."""
    theirs = next(c for c in ours.__mro__[1:] if c.__module__.startswith("espnet2"))
    torch.manual_seed(1)
    reference = theirs(*args, **options).eval()
    net = ours(*args, **options).eval()
    net.load_state_dict(reference.state_dict(), strict=True)
    return reference, net
