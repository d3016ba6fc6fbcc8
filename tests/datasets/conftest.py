from .server import server

__all__ = ["server"]
