// Does what `helm template` does without a cluster, again and again: for each line of standard input, the arguments behind the
// command and what its standard input would be, it prints a line. The schema of values, which takes most of Helm's time, is
// compiled once.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/spf13/pflag"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/cli/values"
)

type request struct {
	Arguments []string
	Text      string
}

type answer struct {
	Printed string `json:"printed"`
	Notes   string `json:"notes"`
	Error   string `json:"error"`
}

var schemas = map[string]*jsonschema.Schema{}

func compiled(text []byte) (*jsonschema.Schema, error) {
	if found := schemas[string(text)]; found != nil {
		return found, nil
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("file:///values.schema.json", document); err != nil {
		return nil, err
	}
	made, err := compiler.Compile("file:///values.schema.json")
	if err == nil {
		schemas[string(text)] = made
	}
	return made, err
}

func validate(chart *chart.Chart, given map[string]any) error {
	schema, err := compiled(chart.Schema)
	if err != nil {
		return err
	}
	all, err := chartutil.CoalesceValues(chart, given)
	if err != nil {
		return err
	}
	if err := schema.Validate(all.AsMap()); err != nil {
		_, problems, _ := strings.Cut(err.Error(), "\n")
		what := "values don't meet the specifications of the schema(s) in the following chart(s):"
		return fmt.Errorf("%s\n%s:\n%s\n", what, chart.Name(), problems)
	}
	return nil
}

// The standard input of one request: Helm reads values from there.
func given(text string) (*os.File, error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	go func() {
		_, _ = io.WriteString(writer, text)
		_ = writer.Close()
	}()
	return reader, nil
}

func render(asked request) (found answer, err error) {
	client := action.NewInstall(&action.Configuration{})
	client.ClientOnly, client.DryRun, client.Replace, client.SkipSchemaValidation = true, true, true, true
	var options values.Options
	flags := pflag.NewFlagSet("template", pflag.ContinueOnError)
	flags.StringVar(&client.Namespace, "namespace", "default", "")
	flags.BoolVar(&client.DisableHooks, "no-hooks", false, "")
	kubernetes := flags.String("kube-version", "", "")
	flags.StringArrayVar(&options.ValueFiles, "values", nil, "")
	flags.StringArrayVar(&options.Values, "set", nil, "")
	flags.StringArrayVar(&options.StringValues, "set-string", nil, "")
	flags.StringArrayVar(&options.FileValues, "set-file", nil, "")
	if err := flags.Parse(asked.Arguments); err != nil {
		return found, err
	}
	client.ReleaseName = flags.Arg(0)
	if client.KubeVersion, err = chartutil.ParseKubeVersion(*kubernetes); err != nil {
		return found, err
	}
	if os.Stdin, err = given(asked.Text); err != nil {
		return found, err
	}
	defer os.Stdin.Close()
	merged, err := options.MergeValues(nil)
	if err != nil {
		return found, err
	}
	loaded, err := loader.Load(flags.Arg(1))
	if err != nil {
		return found, err
	}
	if err := validate(loaded, merged); err != nil {
		return found, err
	}
	release, err := client.Run(loaded, merged)
	if err != nil {
		return found, err
	}
	var printed strings.Builder
	fmt.Fprintln(&printed, strings.TrimSpace(release.Manifest))
	if !client.DisableHooks {
		for _, hook := range release.Hooks {
			fmt.Fprintf(&printed, "---\n# Source: %s\n%s\n", hook.Path, hook.Manifest)
		}
	}
	return answer{Printed: printed.String(), Notes: release.Info.Notes}, nil
}

func main() {
	requests, answers := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var asked request
		if err := requests.Decode(&asked); err == io.EOF {
			return
		} else if err != nil {
			panic(err)
		}
		found, err := render(asked)
		if err != nil {
			found.Error = "Error: " + err.Error() + "\n"
		}
		if err := answers.Encode(found); err != nil {
			panic(err)
		}
	}
}
