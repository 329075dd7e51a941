"""What was read and found, in formats that other programs open."""
