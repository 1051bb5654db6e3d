"""`tailbreak probe`: what a server is, and how well it can be measured.

`kind`, `parameters`, `figures` and `advice` are pure: they judge what was heard. `listen` holds
the sockets and the order of questions; `result` is what comes out. No numpy, no pandas, no Locust:
a probe starts within a second.
"""
