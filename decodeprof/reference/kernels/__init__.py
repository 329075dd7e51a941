"""Triton kernels, each a job of one decode layer; imported only where Triton can run them."""
