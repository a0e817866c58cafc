"""One self-contained page about a fitted posterior."""
