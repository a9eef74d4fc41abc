"""Places for the tests of sinks: a table or topic of a test's own in each real store."""
