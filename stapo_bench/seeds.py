"""Seeds by name: every random draw of a run is named, and its seed is a hash of the name.

A seed that depends on a name and not on an order makes shards, worker counts and resumed runs agree:
sample 7 of problem ``aime24-I-1`` has the same seed whichever process samples it, and whenever.
"""

import hashlib


def derive_seed(run_seed: int, *name: str | int) -> int:
    """Hash a run seed and the name of a draw to a seed in [0, 2**63).

    The parts are joined with their lengths, so ``("a", "bc")`` and ``("ab", "c")`` differ. 63 bits, because some
    engines hold seeds in a signed 64-bit integer.

    >>> derive_seed(0, "aime24", "aime24-I-1", 7)
    5990749877416335543
    >>> derive_seed(0, "aime24", "aime24-I-1", 8) == derive_seed(0, "aime24", "aime24-I-1", 7)
    False
    """
    digest = hashlib.sha256()
    for part in (run_seed, *name):
        text = f"{type(part).__name__}:{part}".encode()
        digest.update(len(text).to_bytes(4, "big") + text)
    return int.from_bytes(digest.digest()[:8], "big") >> 1
