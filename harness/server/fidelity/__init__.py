"""Whether an accelerated path answers as the baseline does: both run on one engine, compared.

`work` says what is asked and `settings` how it is sampled, `listener` and `trace` run it, `close`
tells rounding from difference, `draws` tests what is drawn, `limits` and `compare` judge. The
result is `harness.records.fidelity`; the verb is `tailbreak fidelity`.
"""
