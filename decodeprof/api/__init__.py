"""decodeprof for Python programs and notebooks: what the package's root offers under its names."""
