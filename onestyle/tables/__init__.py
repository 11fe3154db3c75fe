"""The paper's tables, cell by cell: which runs they need, what those cost, what came of them."""
