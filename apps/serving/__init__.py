"""Parts of ``kv_serving.py``: a language model's prompts, and workers that share their work."""
