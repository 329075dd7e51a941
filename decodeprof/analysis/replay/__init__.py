"""What would the step take if one thing were different?

`delays` learns from the recording how the device and its runtime lag behind; `program` turns host
segments, launches, waits and activities into a program that holds no recorded device start; `run`
computes when everything starts; `errors` and `scale` say how far to trust it; `changes` and
`fusion` alter a program, and `what_if` and `exposed` replay the altered ones.
"""
