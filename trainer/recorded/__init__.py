"""What people do with recorded trees: find, show, execute again, continue, compare, and credit by other methods."""
