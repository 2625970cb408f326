"""The benchmarks run, at a size where figures mean nothing."""
