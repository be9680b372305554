"""Parts of ``kv_serving.py``: a language model's prompts, and workers that share their work."""

from importlib.util import find_spec

if find_spec("transformers") is None:
    raise ModuleNotFoundError(
        "this app needs the library transformers for its models, which is not installed. Install "
        "it: pip install 'innet[serving]'",
        name="transformers",
    )
