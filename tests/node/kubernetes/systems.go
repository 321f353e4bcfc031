package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// locks is where containers of a node share the library's locks; theirs is in /tmp, which here is the machine's.
const locks = "/usr/local/vgpu/locks"

// split is by how many containers a device can be shared where nobody says otherwise: HAMi 2.10.0 and Volcano's plugin agree.
const split = 10

// A system whose scheduler chooses devices, and writes on the pod what its device plugin gives to each container.
//
// Both schedulers leave out containers that request nothing, and both plugins take the number of a part for that of a
// container: its environment and its name may be another's. Devices and limits are not, for the kubelet asks in the same order.
type system struct {
	count    string // the resource whose allocation gives devices
	chosen   string // annotation: what is still to be given, a part for each container, each `UUID,TYPE,MIB,CORES:`
	phase    string // annotation: how far that is
	assigned string // annotation: the node
	when     string // annotation: since when the pod waits
	lock     string // annotation of the node while a pod is bound
	sized    bool   // its plugin offers memory and cores to the kubelet, too, one device for each MiB and for each percent
	inits    bool   // the parts of init containers are there, before the others
	anyText  bool   // CUDA_DISABLE_CONTROL switches the library off with any value, not only with one that means true
	cache    string // where the library keeps its accounts in a container
}

// From HAMi 4707fb02, pkg/device-plugin/nvidiadevice/nvinternal/{plugin,rm} and pkg/util, and from volcano-vgpu-device-plugin
// 4fb76ba, pkg/{plugin,rm,util}: what they register, look for, and answer.
var systems = map[string]system{
	"hami": {
		count: "nvidia.com/gpu", chosen: "hami.io/vgpu-devices-to-allocate", phase: "hami.io/bind-phase",
		assigned: "hami.io/vgpu-node", when: "hami.io/bind-time", lock: "hami.io/mutex.lock", inits: true, cache: "/usr/local/vgpu",
	},
	"volcano": {
		count: "volcano.sh/vgpu-number", chosen: "volcano.sh/devices-to-allocate", phase: "volcano.sh/bind-phase",
		assigned: "volcano.sh/vgpu-node", when: "volcano.sh/vgpu-time", sized: true, anyText: true, cache: "/tmp/vgpu",
	},
}

// plugins are what a system offers for devices of one size: `UUID,UUID=MIB`.
func (s system) plugins(client kubernetes.Interface, node, devices string) ([]*plugin, error) {
	names, size, _ := strings.Cut(devices, "=")
	mib, err := strconv.Atoi(size)
	if err != nil {
		return nil, err
	}
	count := &plugin{resource: s.count, giver: &choosing{s, node, client}}
	memory := &plugin{resource: "volcano.sh/vgpu-memory", giver: nothing{}}
	cores := &plugin{resource: "volcano.sh/vgpu-cores", giver: nothing{}}
	for _, uuid := range strings.Split(names, ",") {
		count.devices = append(count.devices, numbered(uuid+"::%d", split)...)
		memory.devices = append(memory.devices, numbered(uuid+"-memory-%d", mib)...)
		cores.devices = append(cores.devices, numbered(uuid+"-core-%d", 100)...)
	}
	if s.sized {
		return []*plugin{count, memory, cores}, nil
	}
	return []*plugin{count}, nil
}

// nothing is what a container gets for memory and cores: they only have to be counted.
type nothing struct{}

func (nothing) give(context.Context, []string) (given, error) {
	return given{answer: &api.ContainerAllocateResponse{}}, nil
}

// choosing gives what the scheduler has chosen, whatever the kubelet has.
type choosing struct {
	system system
	node   string
	client kubernetes.Interface
}

// share is what the scheduler has chosen of one device.
type share struct{ uuid, mib, cores string }

// give takes the next part off the annotation of the pod that waits; after the last, the pod counts as served.
func (c *choosing) give(ctx context.Context, devices []string) (given, error) {
	pod, err := c.waiting(ctx)
	if err != nil {
		return given{}, err
	}
	container, shares, rest, err := c.next(pod)
	if err != nil {
		return given{}, err
	}
	if len(shares) != len(devices) {
		return given{}, fmt.Errorf("the scheduler has chosen %d devices for %s, the kubelet %d", len(shares), container.Name, len(devices))
	}
	answer, err := c.answer(pod, container, shares)
	if err != nil {
		return given{}, err
	}
	annotations := map[string]any{c.system.chosen: rest}
	if !strings.Contains(rest, ",") {
		annotations[c.system.phase] = "success"
	}
	if err := c.annotate(ctx, "pod", pod, annotations); err != nil {
		return given{}, err
	}
	if c.system.lock != "" && !strings.Contains(rest, ",") {
		err = c.annotate(ctx, "node", pod, map[string]any{c.system.lock: nil})
	}
	return given{string(pod.UID), container.Name, answer}, err
}

// waiting is the pod that is being bound to this node: of several, that which waits longest.
func (c *choosing) waiting(ctx context.Context) (core.Pod, error) {
	pods, err := c.client.CoreV1().Pods("").List(ctx, meta.ListOptions{FieldSelector: "spec.nodeName=" + c.node})
	if err != nil {
		return core.Pod{}, err
	}
	found := slices.DeleteFunc(pods.Items, func(pod core.Pod) bool {
		phase := pod.Annotations[c.system.phase]
		chosen := strings.Contains(pod.Annotations[c.system.chosen], ",")
		return pod.Status.Phase != core.PodPending || pod.Annotations[c.system.assigned] != c.node || phase != "allocating" || !chosen
	})
	if len(found) == 0 {
		return core.Pod{}, errors.New("no pod is being bound to this node")
	}
	return slices.MinFunc(found, func(one, other core.Pod) int {
		return strings.Compare(one.Annotations[c.system.when], other.Annotations[c.system.when])
	}), nil
}

// next is the first container to which something is still to be given, and what is left afterwards.
func (c *choosing) next(pod core.Pod) (core.Container, []share, string, error) {
	containers := pod.Spec.Containers
	if c.system.inits {
		containers = slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
	}
	parts := strings.Split(pod.Annotations[c.system.chosen], ";")
	for number, part := range parts {
		if part == "" || number >= len(containers) {
			continue
		}
		var shares []share
		for _, device := range strings.Split(strings.TrimSuffix(part, ":"), ":") {
			fields := strings.Split(device, ",")
			if len(fields) != 4 {
				return core.Container{}, nil, "", fmt.Errorf("not UUID,TYPE,MIB,CORES: %q", device)
			}
			shares = append(shares, share{fields[0], fields[2], fields[3]})
		}
		parts[number] = ""
		return containers[number], shares, strings.Join(parts, ";"), nil
	}
	return core.Container{}, nil, "", fmt.Errorf("nothing is chosen for %s", pod.Name)
}

// answer is the environment and the mounts that the library needs.
func (c *choosing) answer(pod core.Pod, container core.Container, shares []share) (*api.ContainerAllocateResponse, error) {
	answer := &api.ContainerAllocateResponse{Envs: map[string]string{"CUDA_DEVICE_SM_LIMIT": shares[0].cores}}
	var uuids []string
	for number, each := range shares {
		uuids = append(uuids, each.uuid)
		answer.Envs[fmt.Sprintf("CUDA_DEVICE_MEMORY_LIMIT_%d", number)] = each.mib + "m"
	}
	answer.Envs["NVIDIA_VISIBLE_DEVICES"] = strings.Join(uuids, ",")
	answer.Envs["CUDA_DEVICE_MEMORY_SHARED_CACHE"] = fmt.Sprintf("%s/%s.cache", c.system.cache, pod.UID)
	accounts := fmt.Sprintf("/usr/local/vgpu/containers/%s_%s", pod.UID, container.Name)
	for _, folder := range []string{accounts, locks} {
		if err := os.MkdirAll(folder, 0o777); err != nil {
			return nil, err
		}
	}
	answer.Mounts = append([]*api.Mount{
		{ContainerPath: c.system.cache, HostPath: accounts},
		{ContainerPath: "/tmp/vgpulock", HostPath: locks},
	}, loaded()...)
	if slices.ContainsFunc(container.Env, c.disables) {
		answer.Mounts = answer.Mounts[:len(answer.Mounts)-1]
	}
	return answer, nil
}

// disables says whether a variable of a container keeps the loader from finding the library.
func (c *choosing) disables(variable core.EnvVar) bool {
	on, _ := strconv.ParseBool(variable.Value)
	return variable.Name == "CUDA_DISABLE_CONTROL" && (on || c.system.anyText)
}

// annotate changes annotations of the pod, or of the node.
func (c *choosing) annotate(ctx context.Context, kind string, pod core.Pod, annotations map[string]any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return err
	}
	if kind == "node" {
		_, err = c.client.CoreV1().Nodes().Patch(ctx, c.node, types.MergePatchType, patch, meta.PatchOptions{})
	} else {
		_, err = c.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, meta.PatchOptions{})
	}
	return err
}
