"""Ray Train over innet: ``TorchTrainer(..., torch_config=InnetConfig(network="lab"))``."""

from innet.extras import require

require("ray", "innet.ray")

from innet.torch_backend.ray_train import InnetConfig  # noqa: E402  # once Ray is known to be there

__all__ = ["InnetConfig"]
