package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// allowed are the SPDX identifiers of licences that a program of the Apache License 2.0 may be linked with and distributed under. MPL-2.0
// requires the source of changed files, and none is changed.
var allowed = []string{"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "ISC", "MIT", "MPL-2.0", "Unlicense",
	"Zlib"}

// known is how much of a licence file, in percent of its words, has to be the text of licences.
const known = 75

// part is a module that is linked into a program.
type part struct {
	path, version, sum string
	licenses           []string // SPDX identifiers, sorted
}

// partsOf returns the modules of a program and their licences. The error names each whose licence is not allowed, or not recognized.
func partsOf(info *debug.BuildInfo, dirs map[module]string) ([]part, error) {
	parts := []part{{path: "std", version: info.GoVersion}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		parts = append(parts, part{path: m.Path, version: m.Version, sum: m.Sum})
	}
	var wrong []error
	for i := range parts {
		p := &parts[i]
		dir, ok := dirs[module{p.path, p.version}]
		switch {
		case p.path == "std":
			dir = dirs[std]
		case !ok:
			wrong = append(wrong, fmt.Errorf("%s %s is linked and is not in go.mod: build the program again", p.path, p.version))
			continue
		}
		var err error
		if p.licenses, err = licensesIn(dir); err != nil {
			wrong = append(wrong, fmt.Errorf("%s %s: %w", p.path, p.version, err))
		}
	}
	return parts, errors.Join(wrong...)
}

var (
	// licenseFile matches the names of files that have the terms of a module.
	licenseFile = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying)([-._].*)?$`)
	// docsFile matches those that have the terms of its documentation, which no program contains.
	docsFile = regexp.MustCompile(`(?i)[-._]docs?$`)
)

// licensesIn returns the licences that the files of a folder name, all of which are allowed.
func licensesIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("look for a licence: %w", err)
	}
	var found []string
	for _, e := range entries {
		if !e.Type().IsRegular() || !licenseFile.MatchString(e.Name()) || docsFile.MatchString(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("read a licence: %w", err)
		}
		of, err := identify(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name(), err)
		}
		found = append(found, of...)
	}
	if len(found) == 0 {
		return nil, errors.New("it has no file with a licence")
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

// identify returns the SPDX identifiers of the licences in a text.
func identify(text []byte) ([]string, error) {
	cover := licensecheck.Scan(text)
	if cover.Percent < known {
		return nil, fmt.Errorf("%.0f %% of it is the text of licences that are known, and %d %% are needed: read it", cover.Percent, known)
	}
	var ids []string
	for _, m := range cover.Match {
		if m.IsURL {
			continue
		}
		if !slices.Contains(allowed, m.ID) {
			return nil, fmt.Errorf("the licence %s is not among those that are allowed (tools/sbom/license.go)", m.ID)
		}
		ids = append(ids, m.ID)
	}
	return ids, nil
}

// module names a version of a module.
type module struct{ path, version string }

// std is the standard library of the toolchain that builds the programs.
var std = module{path: "std"}

// moduleDirs returns the folders of the sources of the modules of go.mod, and of std.
func moduleDirs() (map[module]string, error) {
	printed, err := goCommand("list", "-m", "-f", "{{.Path}}\t{{.Version}}\t{{.Dir}}", "all")
	if err != nil {
		return nil, fmt.Errorf("list the modules: %w", err)
	}
	root, err := goCommand("env", "GOROOT")
	if err != nil {
		return nil, fmt.Errorf("find the standard library: %w", err)
	}
	dirs := map[module]string{std: strings.TrimSpace(string(root))}
	for line := range strings.Lines(string(printed)) {
		f := strings.Split(strings.TrimRight(line, "\n"), "\t")
		if len(f) != 3 || f[2] == "" { // not downloaded, so nothing is built of it
			continue
		}
		if _, err := os.Stat(f[2]); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		dirs[module{f[0], f[1]}] = f[2]
	}
	return dirs, nil
}

// goCommand returns what a command of the toolchain prints.
func goCommand(args ...string) ([]byte, error) {
	var stderr bytes.Buffer
	cmd := exec.Command("go", args...) //nolint:noctx // the program ends with it
	cmd.Stderr = &stderr
	printed, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	return printed, nil
}
