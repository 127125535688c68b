"""Equal seeds of requests give equal numbers, and different ones unrelated numbers, whatever their length."""

import hashlib
from collections.abc import Sequence


def seed_number(seed: Sequence[int], bits: int = 128) -> int:
    """A whole number below 2 ** `bits` from a request's seed.

    The seed is hashed: numpy's own mixing of integer sequences takes (1,) and (1, 0) for the same seed.
    """
    digest = hashlib.blake2b(repr(tuple(int(part) for part in seed)).encode(), digest_size=16).digest()
    return int.from_bytes(digest, "little") % 2**bits
