"""What doctor tries, one module per thing that decodeprof leans on."""
