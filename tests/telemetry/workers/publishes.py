"""Publishes as a node does, until it is killed: publishes.py BROKER_SOCKET, URL in $BROKER."""

import os
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from innet.telemetry.broker_url import BrokerUrl
from innet.telemetry.publisher import Publisher
from tests.telemetry.sources import FakeNode

Publisher(FakeNode(), Path(sys.argv[1]), BrokerUrl.parse(os.environ["BROKER"])).start()
threading.Event().wait()
