"""From result.json files to tables and to what people look at."""
