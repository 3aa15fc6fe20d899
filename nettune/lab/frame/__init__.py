"""The processes that keep a lab alive and act inside it; standard library only (started without site-packages)."""
