"""What a deployment of several networks consists of, for whoever plans, writes and verifies it."""

from nnkit.deployed.face_match import FaceMatchStages
from nnkit.deployed.parts import Deployed, NetworkPart

__all__ = ["Deployed", "FaceMatchStages", "NetworkPart"]
