"""What two methods need."""
