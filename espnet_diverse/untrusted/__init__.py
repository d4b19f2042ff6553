"""Safe reading of what other people wrote: YAML, configurations of models, models by name."""
