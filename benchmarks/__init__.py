"""What we promise about speed, measured. ``make bench`` runs it all; see ``__main__``."""
