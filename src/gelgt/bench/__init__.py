"""Benchmarks that `gelgt bench NAME` runs, one module each, and the machine they ran on."""
