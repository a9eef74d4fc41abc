"""A store that cannot be looked at."""

from __future__ import annotations

from penstock.preflight.finding import Finding, error, warning


def away(about: str, store: str, where: str, why: str, *, refused: bool) -> Finding:
    """An error only if it refuses us: a pipeline waits for a store that is away, as it does while it runs."""
    if refused:
        return error(
            about,
            f"{where} refuses us: {why}",
            why=f"No batch can be written to {store}.",
            fix=f"Correct the address in [services] {about}: user, password, database.",
        )
    return warning(
        about,
        f"{where} does not answer: {why}",
        why="A pipeline waits for it, and writes nothing meanwhile; nothing is known of its tables.",
        fix=f"Start the embedded one with: penstock up; or name another in [services] {about}.",
    )
