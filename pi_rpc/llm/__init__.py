"""Models and providers: one streaming interface over many wire dialects. Knows no agents."""
