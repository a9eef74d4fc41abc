"""Nothing lost, nothing doubled: receipts against the topic, the sinks and what producers sent."""
