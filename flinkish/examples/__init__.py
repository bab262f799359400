"""Small real programs used by the README, the tests and the benchmarks."""
