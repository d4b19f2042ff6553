"""Parts of an attention that do not depend on the core.

`head_patterns` gives heads keys of their own, `position` the attention a position, `query_key_norm` normalises queries
and keys, `regularisers`, `head_routing` and `differential_extension` change the outputs of heads, and `disagreement` is
a loss for heads that are alike.
"""
