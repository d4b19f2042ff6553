from references.packed_models import cache, packed

__all__ = ["cache", "packed"]
