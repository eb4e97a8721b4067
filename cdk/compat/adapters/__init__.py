"""What this kit sees of custom code: its objects behind the kit's own interfaces."""
