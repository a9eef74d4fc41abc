"""How far a pipeline is behind its topic: in records, in time, and where it is going."""
