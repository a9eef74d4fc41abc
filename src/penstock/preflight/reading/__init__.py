"""The readers of facts: one for each service, one for what is on disk. None of them writes."""
