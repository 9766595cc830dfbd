"""What both reflectors are made of: the copy, its snapshots and what is told of its changes."""
