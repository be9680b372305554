"""Parts of ``train_async.py``: asynchronous training beside synchronous, with a slow worker."""
