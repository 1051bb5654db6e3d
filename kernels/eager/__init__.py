"""The torch backend: every op as a careful engineer writes it with eager torch, on any device."""
