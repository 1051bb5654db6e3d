"""What holds for every test: no example of Hypothesis is judged by how long this machine took."""

from hypothesis import settings

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
