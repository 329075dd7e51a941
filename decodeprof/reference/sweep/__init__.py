"""What changes along one axis: batch, context, prompt length, layers or width?

`spec` says what is swept; `memory` refuses a point that cannot fit; `subjects` builds one; `clock`
times it without a profiler and `counts` profiles it, in this order; `points` goes from point to
point.
"""
