"""Parts of `app`, for it alone: what a start opens and chooses, what follows the image, the gauges."""
