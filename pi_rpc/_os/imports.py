"""Imports in several threads at once.

Two threads that enter a circle of modules from two sides can each wait for the other; Python then
raises an error in one of them. Owns the lock below which a library with such circles is loaded.
Does not own what is loaded when.
"""

import threading

__all__ = ["one_at_a_time"]

one_at_a_time = threading.RLock()
"""Held while a module is imported that loads pydantic."""
