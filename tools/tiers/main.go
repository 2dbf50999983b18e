// Command tiers checks the import rule of ARCHITECTURE.md, that a package imports only packages of lower tiers, and the limits that keep
// a file, a type and a package one concept each. It reads tiers.yaml, which has the tier of each package, prints violations, and then
// exits with 1. Run it from the root of the module:
//
//	go run ./tools/tiers
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	root := flag.String("root", ".", "folder of the module's go.mod")
	file := flag.String("rules", "tools/tiers/tiers.yaml", "file of the rules")
	flag.Parse()
	os.Exit(run(*root, *file, os.Stdout, os.Stderr))
}

func run(root, file string, stdout, stderr io.Writer) int {
	r, err := readRules(file)
	if err != nil {
		fmt.Fprintln(stderr, "tiers:", err)
		return 2
	}
	t, err := readTree(root)
	if err != nil {
		fmt.Fprintln(stderr, "tiers:", err)
		return 2
	}
	large, err := checkSizes(root, t.module, r)
	if err != nil {
		fmt.Fprintln(stderr, "tiers:", err)
		return 2
	}
	broken := append(check(t, r), large...)
	for _, line := range broken {
		fmt.Fprintln(stderr, line)
	}
	if len(broken) > 0 {
		fmt.Fprintf(stderr, "tiers: %d times the import rule or a limit is broken; see ARCHITECTURE.md\n", len(broken))
		return 1
	}
	fmt.Fprintf(stdout, "tiers: %d packages keep the import rule\n", len(t.files))
	return 0
}
