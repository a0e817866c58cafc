"""Data to fit: tables, their splits and their scales."""
