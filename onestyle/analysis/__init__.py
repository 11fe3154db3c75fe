"""What features know of domains and classes: pure functions of (features, label, domain)."""
