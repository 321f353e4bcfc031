// Command expansion expands references in values as the kubelet does. Each line of its input is a case in JSON: a value, and
// the variables before it; each line of its output is the result.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/kubernetes/third_party/forked/golang/expansion"
)

type reference struct {
	Value     string            `json:"value"`
	Variables map[string]string `json:"variables"`
}

func main() {
	input, output := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var one reference
		if err := input.Decode(&one); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		_ = output.Encode(expansion.Expand(one.Value, expansion.MappingFuncFor(one.Variables)))
	}
}
