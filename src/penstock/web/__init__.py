"""The page: pipelines in a browser. It reads journals, samples and dead letters, and changes nothing."""
