"""Turn what hosts and routers say of themselves into a `Fabric`, a `Routing` and findings about the structure."""
