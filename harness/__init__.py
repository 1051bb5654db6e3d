"""tailbreak: finds where an LLM server's P99 breaks, and says why with intervals that hold.

Read the packages in the order of the data flow: scenario, plan, load, records, metrics, stats,
findings, report. `docs/architecture.md` has the map.
"""

__version__ = "0.1.0"
