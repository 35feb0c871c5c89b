"""Weft's order of training samples, and its synthetic tokens, in plain Python: the second implementation of src/data/permutation.hpp
and src/data/batch_source.hpp. docs/data.md states the same in words. Run it to print the values that
tests/unit/data/sampler_test.cpp holds.

    sequence(seed, n, sample)   the sequence that a sample of the run reads, where the file has n = (tokens - 1) // seq sequences
    synthetic(seed, vocab, seq, sample)   the seq + 1 tokens of a sample of data.synthetic
"""

M32, M64 = (1 << 32) - 1, (1 << 64) - 1
DATA_SHUFFLE = 0x5A1EB137138C8E37  # XXH3-64 of "data.shuffle"
DATA_SYNTHETIC = 0x03B9C97FC3EE9D9E  # XXH3-64 of "data.synthetic"


def philox(key, low, high):
    """Philox4x32-10 (Salmon et al., SC 2011) of a 64-bit key and a 128-bit counter: four 32-bit words."""
    c = [low & M32, low >> 32, high & M32, high >> 32]
    k0, k1 = key & M32, key >> 32
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k0, p1 & M32, (p0 >> 32) ^ c[3] ^ k1, p0 & M32]
        k0, k1 = (k0 + 0x9E3779B9) & M32, (k1 + 0xBB67AE85) & M32
    return c


def bits(seed, name_hash, i):
    """RandomStream(seed, name).bits(i)."""
    r = philox(seed & M64, i, name_hash)
    return r[0] << 32 | r[1]


def permute(seed, n, epoch, i):
    half = max(1, ((n - 1).bit_length() + 1) // 2)
    mask = (1 << half) - 1
    while True:
        left, right = i >> half, i & mask
        for rnd in range(6):
            f = bits(seed, DATA_SHUFFLE, epoch << 36 | rnd << 32 | right) & mask
            left, right = right, left ^ f
        i = left << half | right
        if i < n:
            return i


def sequence(seed, n, sample):
    return permute(seed, n, sample // n, sample % n)


def synthetic(seed, vocab, seq, sample):
    words = (philox(seed & M64, sample * (seq + 1) + p, DATA_SYNTHETIC)[0] for p in range(seq + 1))
    return [word * vocab >> 32 for word in words]


if __name__ == "__main__":
    for seed, n in [(1, 1), (1, 2), (7, 10), (1234567890123456789, 1000), (42, 65537), (3, 10**12)]:
        samples = [0, 1, 2, n - 1, n, n + 1, 5 * n + n // 2]
        print("{%d, %d, {%s}, {%s}}," % (seed, n, ", ".join(map(str, samples)), ", ".join(str(sequence(seed, n, s)) for s in samples)))
    for seed, vocab, seq, sample in [(1, 10, 7, 0), (7, 300, 3, 5), (1234567890123456789, 128256, 4, 10**12 + 3), (42, 2**31 - 1, 1, 1)]:
        print("{%d, %d, %d, %d, {%s}}," % (seed, vocab, seq, sample, ", ".join(map(str, synthetic(seed, vocab, seq, sample)))))
