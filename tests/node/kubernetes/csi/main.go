// Command csi is the part of a CSI driver that a node runs: inline volumes that show one folder of the node, read-only.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

type driver struct {
	csi.UnimplementedNodeServer
	registration.UnimplementedRegistrationServer
	name     string
	endpoint string
	folder   string
	node     string
}

// GetInfo tells the kubelet, which has found the socket, what this is.
func (d *driver) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	versions := []string{"1.0.0"}
	info := &registration.PluginInfo{Type: registration.CSIPlugin, Name: d.name, Endpoint: d.endpoint, SupportedVersions: versions}
	return info, nil
}

// NotifyRegistrationStatus writes down why the kubelet does not take it.
func (d *driver) NotifyRegistrationStatus(
	_ context.Context, status *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	fmt.Fprintln(os.Stderr, "registered:", status.PluginRegistered, status.Error)
	return &registration.RegistrationStatusResponse{}, nil
}

// NodeGetInfo names the node.
func (d *driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: d.node}, nil
}

// NodeGetCapabilities has nothing that is optional.
func (d *driver) NodeGetCapabilities(
	context.Context, *csi.NodeGetCapabilitiesRequest,
) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{}, nil
}

// NodePublishVolume shows the folder where the kubelet says, once.
func (d *driver) NodePublishVolume(
	_ context.Context, request *csi.NodePublishVolumeRequest,
) (*csi.NodePublishVolumeResponse, error) {
	target := request.TargetPath
	if err := os.Mkdir(target, 0o755); errors.Is(err, fs.ErrExist) {
		return &csi.NodePublishVolumeResponse{}, nil
	} else if err != nil {
		return nil, err
	}
	if err := unix.Mount(d.folder, target, "", unix.MS_BIND, ""); err != nil {
		return nil, err
	}
	return &csi.NodePublishVolumeResponse{}, unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
}

// NodeUnpublishVolume takes it away again.
func (d *driver) NodeUnpublishVolume(
	_ context.Context, request *csi.NodeUnpublishVolumeRequest,
) (*csi.NodeUnpublishVolumeResponse, error) {
	if err := unix.Unmount(request.TargetPath, 0); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return nil, err
	}
	return &csi.NodeUnpublishVolumeResponse{}, os.RemoveAll(request.TargetPath)
}

func run(kubelet, name, node, folder string) error {
	d := &driver{name: name, node: node, folder: folder, endpoint: filepath.Join(kubelet, "plugins", name+".sock")}
	if err := os.MkdirAll(filepath.Dir(d.endpoint), 0o755); err != nil {
		return err
	}
	server := grpc.NewServer()
	csi.RegisterNodeServer(server, d)
	registration.RegisterRegistrationServer(server, d)
	ended := make(chan error)
	for _, socket := range []string{d.endpoint, filepath.Join(kubelet, "plugins_registry", name+"-reg.sock")} {
		listener, err := net.Listen("unix", socket)
		if err != nil {
			return err
		}
		go func() { ended <- server.Serve(listener) }()
	}
	return <-ended
}

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: csi KUBELET-FOLDER DRIVER NODE FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
