"""What is seen of pipelines, as Prometheus reads it: made when it is asked for, nothing in between."""
