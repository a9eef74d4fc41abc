"""What happened: receipts, lag and latency as records that other packages judge."""
