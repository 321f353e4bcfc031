// Command node is what a node runs of Kubernetes, kubelet and kube-proxy, in one binary, and a device plugin for tests.
//
// It is what it was called as (a link named kubelet is the kubelet), else what its first argument names.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/restclient"
	_ "k8s.io/component-base/metrics/prometheus/version"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

var components = map[string]func() int{
	"kubelet":       func() int { return cli.Run(kubelet.NewKubeletCommand(context.Background())) },
	"kube-proxy":    func() int { return cli.Run(proxy.NewProxyCommand()) },
	"device-plugin": servePlugin,
}

func main() {
	run, known := components[filepath.Base(os.Args[0])]
	if !known && len(os.Args) > 1 {
		if run, known = components[os.Args[1]]; known {
			os.Args = os.Args[1:]
		}
	}
	if !known {
		fmt.Fprintf(os.Stderr, "usage: %s {kubelet|kube-proxy|device-plugin} [ARGUMENT...]\n", filepath.Base(os.Args[0]))
		os.Exit(2)
	}
	os.Exit(run())
}
