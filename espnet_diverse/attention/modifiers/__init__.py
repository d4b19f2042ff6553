"""Parts of an attention that no core has to itself.

`head_patterns` gives heads keys of their own, `position` the attention a position, `query_key_norm` normalises queries
and keys, `regularisers`, `head_routing` and `differential_extension` change the outputs of heads, and `disagreement`
is a loss of heads that are alike.
"""
