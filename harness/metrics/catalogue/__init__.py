"""The catalogue of metrics: every name once, with type, unit, help, labels and buckets.

Exporters build their series from it; dashboards, rules and docs may name nothing else. One file an
exporter: server, load (and what is left of a finished run), process, gpu.
"""
