package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// A plugin serves the devices of one resource name, and answers each allocation with what a file says.
type plugin struct {
	api.UnimplementedDevicePluginServer
	resource string
	devices  []*api.Device
	answer   string
	record   *os.File
	lock     sync.Mutex
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

// Allocate writes down which devices a container gets, and gives it the environment and mounts of the answer file,
// which is read anew each time.
func (p *plugin) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	p.lock.Lock()
	defer p.lock.Unlock()
	response := &api.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		line, err := json.Marshal(map[string]any{"resource": p.resource, "devices": container.DevicesIds})
		if err != nil {
			return nil, err
		}
		if _, err := fmt.Fprintf(p.record, "%s\n", line); err != nil {
			return nil, err
		}
		answer := &api.ContainerAllocateResponse{}
		text, err := os.ReadFile(p.answer)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, answer); err != nil {
			return nil, err
		}
		response.ContainerResponses = append(response.ContainerResponses, answer)
	}
	return response, nil
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

// servePlugin is the command: FOLDER of the kubelet's sockets, RESOURCE, COUNT, ANSWER file, RECORD file.
func servePlugin() int {
	if len(os.Args) != 6 {
		fmt.Fprintln(os.Stderr, "usage: device-plugin FOLDER RESOURCE COUNT ANSWER RECORD")
		return 2
	}
	folder, resource, answer := os.Args[1], os.Args[2], os.Args[4]
	count, err := strconv.Atoi(os.Args[3])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	record, err := os.OpenFile(os.Args[5], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	p := &plugin{resource: resource, answer: answer, record: record}
	for number := range count {
		p.devices = append(p.devices, &api.Device{ID: fmt.Sprintf("device-%d", number), Health: api.Healthy})
	}
	endpoint := fmt.Sprintf("test-%x.sock", resource)
	for {
		if err := p.serve(folder, endpoint); err != nil {
			fmt.Fprintln(os.Stderr, resource, err)
			time.Sleep(time.Second)
		}
	}
}
