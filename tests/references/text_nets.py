"""Configuration of a small model of text translation; a decoder of its own is added."""

TOKENS = ["<blank>", "<unk>", *"abcdefgh", "<sos/eos>"]
PLAIN = {"dropout_rate": 0.0, "positional_dropout_rate": 0.0, "attention_heads": 2, "num_blocks": 1}
CONFIG = {
    "token_list": TOKENS,
    "src_token_list": TOKENS,
    "frontend": "embed",
    "frontend_conf": {"embed_dim": 32, "positional_dropout_rate": 0.0},
    "encoder": "diverse_transformer",
    "encoder_conf": PLAIN | {"output_size": 32, "linear_units": 64, "input_layer": None, "attention_dropout_rate": 0.0},
}
