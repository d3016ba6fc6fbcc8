"""Compiled code for links and losses: by Numba on the CPU, by Triton on CUDA."""
