"""The append-only session tree on disk. Knows no models."""
