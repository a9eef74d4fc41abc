"""Before a start: what the services, the checkpoints and the machine are, and what that means.

`look` reads facts and changes nothing; `judge` turns them into findings and does no I/O.
"""

from penstock.preflight.facts import Facts, KafkaFacts, Start, queries
from penstock.preflight.finding import Finding
from penstock.preflight.judge import could_look, judge
from penstock.preflight.look import look

__all__ = ["Facts", "Finding", "KafkaFacts", "Start", "could_look", "judge", "look", "queries"]
