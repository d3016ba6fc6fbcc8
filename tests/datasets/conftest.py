from .server import pauses, server

__all__ = ["pauses", "server"]
