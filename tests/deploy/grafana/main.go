// Reads a dashboard from standard input as Grafana's own schema has it, with the panels and queries in it, and prints what does
// not fit: a field that there is none of, one that is missing, another type, a value out of its bounds.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// Those of the dashboard: all that there are would be most of the build.
func register() {
	runtime := cog.NewRuntime()
	runtime.RegisterPanelcfgVariant(stat.VariantConfig())
	runtime.RegisterPanelcfgVariant(table.VariantConfig())
	runtime.RegisterPanelcfgVariant(timeseries.VariantConfig())
	runtime.RegisterDataqueryVariant(prometheus.VariantConfig())
}

// The problems of an error, of which the schema's reader returns an empty one if there is none.
func lines(err error) []string {
	if err == nil || err.Error() == "" {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}

// What the schema's own reader takes as it is: panels and queries of unknown types, and fields of values.
func further(text []byte) []string {
	var found struct {
		Panels []struct {
			Type        string
			FieldConfig json.RawMessage
			Targets     []struct{ Datasource struct{ Type string } }
		}
	}
	if err := json.Unmarshal(text, &found); err != nil {
		return nil // told already
	}
	var problems []string
	for index, panel := range found.Panels {
		at := fmt.Sprintf("panels[%d]", index)
		if _, known := cog.ConfigForPanelcfgVariant(panel.Type); !known {
			problems = append(problems, fmt.Sprintf("%s.type: %q is not registered", at, panel.Type))
		}
		for target, query := range panel.Targets {
			if kind := query.Datasource.Type; kind != prometheus.VariantConfig().Identifier {
				problems = append(problems, fmt.Sprintf("%s.targets[%d].datasource.type: %q is not registered", at, target, kind))
			}
		}
		var config dashboard.FieldConfigSource
		for _, line := range lines(config.UnmarshalJSONStrict(panel.FieldConfig)) {
			problems = append(problems, at+".fieldConfig."+line)
		}
	}
	return problems
}

func main() {
	register()
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		panic(err)
	}
	var found dashboard.Dashboard
	problems := lines(found.UnmarshalJSONStrict(text))
	problems = append(problems, lines(found.Validate())...)
	problems = append(problems, further(text)...)
	if len(problems) > 0 {
		fmt.Println(strings.Join(problems, "\n"))
		os.Exit(1)
	}
}
