"""Methods that are not attentions, and stand on their own."""
