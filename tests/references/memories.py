"""Options of small memories of every kind, for self-attention."""

MEMORIES = {
    "cdt": {"kind": "cdt", "slots": 3},
    "cdt_mask": {"kind": "cdt", "slots": 3, "update": "mask"},
    "cdt_shared": {"kind": "cdt", "slots": 3, "scope": "shared"},
    "xl": {"kind": "xl", "slots": 5},
    "xl_shared": {"kind": "xl", "slots": 3, "scope": "shared"},
    "compressive": {"kind": "compressive", "slots": 2, "compressed_slots": 3, "ratio": 2},
}
