"""The node's agent: pods of one label are bound to the node and run. Run as a module, in the enclave."""

import sys
import threading
from pathlib import Path

from tests.controlplane.client import Client, Object

from .pods import Node, Running

INTERVAL = 0.1
LOOPBACK = "127.0.0.1"


def bind(client: Client, pod: Object, node: str) -> None:
    """Put a pod on the node, as the scheduler would."""
    metadata = pod["metadata"]
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": metadata["name"]}, "target": target}
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/binding"
    answer = client.call("POST", path, body)
    if answer.status not in {404, 409}:
        answer.accepted()


def run(node: Node, selector: str) -> None:
    """Look after the pods of a label forever."""
    here: dict[str, Running] = {}
    # Unlike those before: a node that comes back must not be taken for its own past.
    began = sum(1 for _ in node.folder.parent.iterdir())
    addresses = (LOOPBACK if node.pid == 0 else f"10.244.{began}.{number}" for number in range(1, 255))
    while True:
        found = {pod["metadata"]["uid"]: pod for pod in node.client.list("v1", "pods", selector=selector)}
        for uid, pod in found.items():
            if uid in here:
                here[uid].pod = pod
            elif "nodeName" not in pod["spec"] and "deletionTimestamp" not in pod["metadata"]:
                bind(node.client, pod, node.name)
            elif pod["spec"].get("nodeName") == node.name:
                here[uid] = Running(node, pod, next(addresses))
                threading.Thread(target=here[uid].live, name=pod["metadata"]["name"], daemon=True).start()
        for uid in here.keys() - found.keys():
            # Deleted by force: it has to end all the same.
            here[uid].pod["metadata"].setdefault("deletionTimestamp", "now")
        threading.Event().wait(INTERVAL)


def main() -> None:
    """Run the node.

    Arguments: URL, token and CA of the API server; name, pid (0 if there is no enclave) and folder of the node;
    selector of pods.
    """
    url, token, authority, name, pid, folder, selector = sys.argv[1:]
    node = Node(Client(url, token, authority), name, int(pid), Path(folder))
    run(node, selector)


if __name__ == "__main__":
    main()
