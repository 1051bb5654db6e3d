"""Compute kernels behind the accelerated path, each beside its float64 reference.

Not the Hugging Face package of the same name: never install that one beside tailbreak.
"""

__version__ = "0.1.0"
