"""The simulator: an API made of what a connector asks for, with records that fit the schemas of its streams."""
