"""Parts of an attention that do not depend on the core.

`position` gives the attention a position, `query_key_norm` normalises queries
and keys, `regularisers`, `head_routing` and `differential_extension` change the outputs of heads, and `disagreement` is
a loss for heads that are alike.
"""
