"""Images on disk: packed stores, sources, datasets and the protocol's splits."""
