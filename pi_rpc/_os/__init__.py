"""What differs by operating system: spawning, ending process trees, locks, atomic writes."""
