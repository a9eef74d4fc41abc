"""The rules: each a generator of findings from facts, without I/O; the time is one of the facts."""
