"""What `tidegate sql` and `tidegate shell` do: find the tables of a deployment, or of this machine, and ask them."""
