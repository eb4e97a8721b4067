"""The foundation of components: their fields, plug points, and the context in which they are built."""
