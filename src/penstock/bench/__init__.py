"""Experiments on real parts: what a stage costs, how cost grows, what skew and real time do."""
