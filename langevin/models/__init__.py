"""Networks (Equinox) and what is made of them."""
