"""All that a page, a report or a scrape shows of a pipeline, folded from what it left behind."""
