"""What does an SQLite export of Nsight Systems hold, whichever version wrote it?"""
