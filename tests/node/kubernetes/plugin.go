package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// What HAMi's device plugin calls them, and where it has its library on a node.
const (
	memory  = "nvidia.com/gpumem"
	cores   = "nvidia.com/gpucores"
	library = "/usr/local/vgpu/libvgpu.so"
	preload = "/usr/local/vgpu/ld.so.preload"
)

// A plugin serves the devices of one resource name.
type plugin struct {
	api.UnimplementedDevicePluginServer
	resource string
	devices  []*api.Device
	giver    giver
	record   *os.File
	lock     *sync.Mutex
}

// A giver knows the container that asks for devices, and what it gets.
type giver interface {
	give(ctx context.Context, devices []string) (given, error)
}

// What a container gets, and whose it is.
type given struct {
	uid       string
	container string
	answer    *api.ContainerAllocateResponse
}

// counting gives to whoever waits: as HAMi's plugin does on a node that has its library, else as the stock one. No scheduler
// has to have chosen devices.
type counting struct {
	resource string
	node     string
	client   kubernetes.Interface
	served   map[string]bool
}

// ListAndWatch tells the kubelet the devices once: they neither come nor go.
func (p *plugin) ListAndWatch(_ *api.Empty, stream api.DevicePlugin_ListAndWatchServer) error {
	if err := stream.Send(&api.ListAndWatchResponse{Devices: p.devices}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// GetDevicePluginOptions asks for no further calls.
func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

// Allocate gives a container its devices, and writes down what it was asked, for whom, and what it answered.
func (p *plugin) Allocate(ctx context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	p.lock.Lock()
	defer p.lock.Unlock()
	response := &api.AllocateResponse{}
	for _, asked := range request.ContainerRequests {
		got, err := p.giver.give(ctx, asked.DevicesIds)
		if err != nil {
			return nil, err
		}
		line, err := json.Marshal(map[string]any{
			"resource": p.resource, "devices": asked.DevicesIds, "uid": got.uid, "container": got.container, "envs": got.answer.Envs,
		})
		if err != nil {
			return nil, err
		}
		if _, err := fmt.Fprintf(p.record, "%s\n", line); err != nil {
			return nil, err
		}
		response.ContainerResponses = append(response.ContainerResponses, got.answer)
	}
	return response, nil
}

// give hands out what the kubelet has chosen.
func (c *counting) give(ctx context.Context, devices []string) (given, error) {
	uid, container, err := c.waiting(ctx, len(devices))
	if err != nil {
		return given{}, err
	}
	answer := &api.ContainerAllocateResponse{Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(devices, ",")}}
	if _, err := os.Stat(library); err == nil {
		enforce(answer, container, len(devices))
	}
	return given{uid, container.Name, answer}, nil
}

// enforce adds what HAMi's plugin adds: a limit for each device, the library, and the file by which the loader finds it.
func enforce(answer *api.ContainerAllocateResponse, container core.Container, devices int) {
	if amount, present := container.Resources.Limits[memory]; present {
		for number := range devices {
			answer.Envs[fmt.Sprintf("CUDA_DEVICE_MEMORY_LIMIT_%d", number)] = fmt.Sprintf("%dm", amount.Value())
		}
	}
	if amount, present := container.Resources.Limits[cores]; present {
		answer.Envs["CUDA_DEVICE_SM_LIMIT"] = strconv.FormatInt(amount.Value(), 10)
	}
	answer.Mounts = loaded()
}

// loaded is the library, and the file by which the loader finds it.
func loaded() []*api.Mount {
	return []*api.Mount{
		{ContainerPath: library, HostPath: library, ReadOnly: true},
		{ContainerPath: "/etc/ld.so.preload", HostPath: preload, ReadOnly: true},
	}
}

// waiting finds the container that a call is for, which the kubelet does not say: the first of a pod of this node that
// waits for as many devices and was not served before, init containers first.
func (c *counting) waiting(ctx context.Context, devices int) (string, core.Container, error) {
	pods, err := c.client.CoreV1().Pods("").List(ctx, meta.ListOptions{FieldSelector: "spec.nodeName=" + c.node})
	if err != nil {
		return "", core.Container{}, err
	}
	for _, pod := range pods.Items {
		if pod.Status.Phase != core.PodPending {
			continue
		}
		for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			amount, present := container.Resources.Limits[core.ResourceName(c.resource)]
			key := string(pod.UID) + "/" + container.Name
			if !present || amount.Value() != int64(devices) || c.served[key] {
				continue
			}
			c.served[key] = true
			return string(pod.UID), container, nil
		}
	}
	return "", core.Container{}, errors.New("no pod of this node waits for devices")
}

// register offers the plugin to the kubelet that listens in the folder.
func (p *plugin) register(folder, endpoint string) error {
	target := "unix://" + filepath.Join(folder, "kubelet.sock")
	connection, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	within, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	request := &api.RegisterRequest{Version: api.Version, Endpoint: endpoint, ResourceName: p.resource}
	_, err = api.NewRegistrationClient(connection).Register(within, request, grpc.WaitForReady(true))
	return err
}

// serve answers the kubelet until its socket is removed, which is how a kubelet that starts says that it knows no plugin.
func (p *plugin) serve(folder, endpoint string) error {
	path := filepath.Join(folder, endpoint)
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return err
	}
	socket, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	defer server.Stop()
	api.RegisterDevicePluginServer(server, p)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(socket) }()
	if err := p.register(folder, endpoint); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "registered", p.resource)
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-look.C:
			if _, err := os.Lstat(path); os.IsNotExist(err) {
				return nil
			}
		}
	}
}

// servePlugin is the command.
func servePlugin() int {
	if len(os.Args) != 7 {
		fmt.Fprintln(os.Stderr, "usage: device-plugin FOLDER KUBECONFIG NODE RECORD {RESOURCE|SYSTEM} {COUNT|UUID,...=MIB}")
		return 2
	}
	plugins, err := plugins(os.Args[2], os.Args[3], os.Args[4], os.Args[5], os.Args[6])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for _, p := range plugins {
		go p.keepServing(os.Args[1])
	}
	select {}
}

// plugins are those of a system where its name is given, else the one of a resource.
func plugins(kubeconfig, node, recordPath, name, devices string) ([]*plugin, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	record, err := os.OpenFile(recordPath, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	var found []*plugin
	if system, known := systems[name]; known {
		found, err = system.plugins(client, node, devices)
	} else {
		var count int
		count, err = strconv.Atoi(devices)
		giver := &counting{resource: name, node: node, client: client, served: map[string]bool{}}
		found = []*plugin{{resource: name, devices: numbered("device-%d", count), giver: giver}}
	}
	lock := &sync.Mutex{}
	for _, p := range found {
		p.record, p.lock = record, lock
	}
	return found, err
}

// numbered are healthy devices whose names differ by a number.
func numbered(format string, count int) []*api.Device {
	devices := make([]*api.Device, count)
	for number := range count {
		devices[number] = &api.Device{ID: fmt.Sprintf(format, number), Health: api.Healthy}
	}
	return devices
}

// keepServing offers the plugin anew whenever a kubelet starts: its sockets are in the folder.
func (p *plugin) keepServing(folder string) {
	for {
		if err := p.serve(folder, fmt.Sprintf("test-%x.sock", p.resource)); err != nil {
			fmt.Fprintln(os.Stderr, p.resource, err)
			time.Sleep(time.Second)
		}
	}
}
