"""Where rows go. See protocol.py for how each of them goes there once."""
