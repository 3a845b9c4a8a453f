"""What `tidegate sql` does: find the tables of a deployment, or of this machine, and ask them."""
