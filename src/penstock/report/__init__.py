"""A run on one page, for a ticket, a phone or paper: what happened, what was wrong, what to do next."""
