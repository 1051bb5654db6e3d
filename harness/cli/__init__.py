"""The command line: one verb a file. The outer ring: clocks, sockets and processes start here."""
