"""Where things live on disk, and the layered configuration."""
