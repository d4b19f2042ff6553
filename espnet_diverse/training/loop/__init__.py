"""The training loop: updates, epochs, and what may go wrong in them."""
