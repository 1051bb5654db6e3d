"""What the kernels cost: timed against honest peers and against the memory's measured bandwidth."""
