"""What a node's programs read: the files of containerd, of the network plugins, of kubelet and kube-proxy."""

import json
from pathlib import Path
from typing import Any

PAUSE = "localhost/pause:test"


def containerd(folder: Path, runtime: Path) -> str:
    """Return its configuration; what it keeps is below the folder, what it starts in `runtime`."""
    cri = "io.containerd.cri.v1"
    return f"""
version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "{socket(folder)}"
[ttrpc]
  address = "{socket(folder)}.ttrpc"
[plugins."{cri}.images"]
  snapshotter = "overlayfs"
  [plugins."{cri}.images".pinned_images]
    sandbox = "{PAUSE}"
[plugins."{cri}.runtime"]
  # Who may not raise it, in a container or a virtual machine, may not set it either.
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."{cri}.runtime".cni]
    bin_dirs = ["{runtime}"]
    conf_dir = "{folder}/network"
  [plugins."{cri}.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    runtime_path = "{runtime}/containerd-shim-runc-v2"
    [plugins."{cri}.runtime".containerd.runtimes.runc.options]
      SystemdCgroup = false
"""


def socket(folder: Path) -> Path:
    """Where containerd listens; both sides of the mount namespace see it."""
    return folder / "containerd.sock"


def network(pods: str) -> str:
    """Return how pods get an address of a range, and a way to it and from it: each a link of its own."""
    ranges = {"type": "host-local", "ranges": [[{"subnet": pods}]], "routes": [{"dst": "0.0.0.0/0"}]}
    plugins = [{"type": "ptp", "ipMasq": False, "ipam": ranges}]
    return json.dumps({"cniVersion": "1.0.0", "name": "pods", "plugins": plugins})


def kubelet(folder: Path, group: str) -> str:
    """Return its configuration; containers are below a control group of the run. JSON is YAML too."""
    full = {"memory.available": "1Mi", "nodefs.available": "0%", "imagefs.available": "0%", "nodefs.inodesFree": "0%"}
    configuration: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        # Nobody else is in the network namespace, but the pods of the tests.
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{group}",
        "containerRuntimeEndpoint": f"unix://{socket(folder)}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": [],
        # A full disk of this machine is no matter of the tests.
        "evictionHard": full,
        "imageGCHighThresholdPercent": 100,
        "resolvConf": "",
        "maxPods": 500,
        "nodeStatusUpdateFrequency": "2s",
        "syncFrequency": "10s",
        "volumeStatsAggPeriod": "0s",
    }
    return json.dumps(configuration)


def proxy(kubeconfig: Path, pods: str, name: str) -> str:
    """Return the configuration of kube-proxy."""
    configuration = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clusterCIDR": pods,
        "hostnameOverride": name,
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "iptables": {"minSyncPeriod": "0s", "syncPeriod": "30s"},
    }
    return json.dumps(configuration)
