"""What do thousands of traces say together? One table, made on a Dask cluster, read by anything.

Needs the extra `fleet`. Nothing here is imported before it is asked for, and its packages are
imported inside the functions that use them.
"""
