"""The commands: each a module with add_arguments and run, light to import."""
