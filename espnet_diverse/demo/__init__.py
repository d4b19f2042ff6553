"""A page on this machine: recognise a recording or translate a text, and look at what the attention heads did."""
