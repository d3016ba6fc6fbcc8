"""Training steps for the CPU, compiled by Numba, and the functions that call them."""
