"""The truth server: plants a known latency law over real HTTP and records what it really did.

A process of its own, without a model and without torch. `tailbreak truth LAW.toml` starts it.
"""
