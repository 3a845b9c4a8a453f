"""What several suites build their worlds from. Nothing here is a stub of the product: only of the world around it."""
