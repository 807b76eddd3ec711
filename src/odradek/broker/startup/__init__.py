"""What a start chooses, and the gauges that it sets up: for `app` alone."""
