"""What holds for every test.

No example of Hypothesis is judged by how long this machine took. Ctrl-C reaches the tests and what
they start even where the suite itself was started in the background, which ignores it.
"""

import signal

from hypothesis import settings

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
