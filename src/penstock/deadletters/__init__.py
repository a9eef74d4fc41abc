"""Records that were set aside: read, looked into, and put back where they came from."""
