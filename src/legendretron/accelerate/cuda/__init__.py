"""Kernels for CUDA in Triton, and the functions that launch them."""
