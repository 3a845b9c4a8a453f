"""What `tidegate sql` and `tidegate shell` do: find the catalog of a deployment, or of this machine, and ask its tables."""
