// Command dashboard writes config/prometheus/dashboard.json: a dashboard for Grafana with a panel for each metric that the code registers.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

// output is where the dashboard is, below the folder of the module.
var output = filepath.Join("config", "prometheus", "dashboard.json")

func main() {
	root := flag.String("root", ".", "the folder of the module")
	flag.Parse()
	if err := run(*root); err != nil {
		fmt.Fprintln(os.Stderr, "dashboard: "+err.Error())
		os.Exit(1)
	}
}

// run writes the dashboard of a module's metrics.
func run(root string) error {
	metrics, err := Metrics(root, "pkg")
	if err != nil {
		return err
	}
	text, err := Dashboard(metrics)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, output), text, 0o644); err != nil { //nolint:gosec // everybody may read it
		return fmt.Errorf("write the dashboard: %w", err)
	}
	return nil
}
