"""A configuration of nets that train in a second, for models around pretrained encoders."""

SMALL = """
encoder_conf: {output_size: 16, attention_heads: 2, linear_units: 32, num_blocks: 1}
decoder_conf: {attention_heads: 2, linear_units: 32, num_blocks: 1}
max_epoch: 2
num_workers: 0
optim: adam
optim_conf: {lr: 1.0e-2}
best_model_criterion: [[valid, acc, max]]
"""
