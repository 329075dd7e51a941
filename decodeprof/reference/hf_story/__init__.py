"""The same story on `transformers`' own GPT-2: what its caches, its checks and streams cost."""
