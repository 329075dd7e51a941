"""What can a device do by its datasheet? Peaks and typical latencies, each with its source."""
