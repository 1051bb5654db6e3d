"""What every other package may use: errors, clocks, seeds. Imports nothing of ours."""
