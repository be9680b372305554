"""Networks whose machines Ray starts."""
