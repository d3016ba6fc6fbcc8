"""One model trained by many processes, on this machine or a cluster: by Ray, or by torchrun."""
