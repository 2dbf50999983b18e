// Command sbom checks the licences of all modules that are linked into programs, and writes one CycloneDX document for each program.
//
// It reads the modules from the binaries themselves, so that it names only modules that are in them, and sends no request. Two runs on
// equal binaries write equal documents.
package main

import (
	"cmp"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	out := flag.String("out", "bin/sbom", "the folder that the documents are written to")
	version := flag.String("version", "", "the version of the programs (default: the commit that they say they were built from)")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: sbom [--out FOLDER] [--version VERSION] PROGRAM...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := run(*out, *version, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", strings.ReplaceAll(err.Error(), "\n", "\n      "))
		os.Exit(1)
	}
}

// run checks and describes programs, and returns all problems of all of them.
func run(out, version string, programs []string) error {
	if len(programs) == 0 {
		return errors.New("name the programs to describe")
	}
	dirs, err := moduleDirs()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("make the folder of the documents: %w", err)
	}
	var wrong []error
	for _, program := range programs {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			return fmt.Errorf("read the modules of a program: %w", err)
		}
		parts, err := partsOf(info, dirs)
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		file := filepath.Join(out, filepath.Base(program)+".cdx.json")
		if err := write(file, filepath.Base(program), cmp.Or(version, setting(info, "vcs.revision")), parts); err != nil {
			return err
		}
		fmt.Printf("%s: %d modules, all of licences that are allowed\n", file, len(parts))
	}
	return errors.Join(wrong...)
}
