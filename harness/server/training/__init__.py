"""How the bundled model came to be: the public-domain corpus and the training run.

Not needed to serve: the weights are in `harness/server/weights/tiny`.
"""
