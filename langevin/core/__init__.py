"""Records, protocols and the one loop. No method is named here."""
