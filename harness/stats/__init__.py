"""Arrays in, results out: intervals, effective sample size, breakpoints, attribution."""
