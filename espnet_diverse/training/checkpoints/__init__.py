"""States of a training: saved, restored, compared, averaged, and the start from another model."""
