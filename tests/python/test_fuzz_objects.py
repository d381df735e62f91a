"""A short run of the fuzzer of objects; a long one is `python tests/python/fuzz_objects.py --seconds 600`."""

import fuzz_objects


def test_a_short_run_finds_nothing():
    counts, faults = fuzz_objects.rounds(5, 1)
    assert not faults, "\n".join(faults)
    for what in ("decode_attention", "run", "live", "interrupt"):
        assert counts[what], counts
