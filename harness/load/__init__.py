"""Plan to records: paces, sends, stamps. The only package that talks to the target."""
