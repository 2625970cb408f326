"""Getting everything out of a queue, also what others hold and will never settle."""

from __future__ import annotations

from rowq import Broker, Delivery, Outcome
from tests.support.patience import eventually


def drain_all(broker: Broker, queue: str = "q", within: float = 60) -> list[Delivery]:
    """Receives and acks until nothing is to be done, waiting for leases that are still out."""
    drained: list[Delivery] = []

    def is_empty() -> bool:
        deliveries = broker.receive(queue, max=1000, wait=0.2)
        assert set(broker.ack_many(deliveries)) <= {Outcome.DONE}, "a message that was received just now could not be acked"
        drained.extend(deliveries)
        return broker.stats(queue).depth == 0

    eventually(is_empty, within)
    return drained
