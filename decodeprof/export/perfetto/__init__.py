"""A timeline for ui.perfetto.dev and Perfetto's trace processor, as native protobuf."""
