package terminal

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"kapis.dev/ks-apiserver/pkg/status"
)

const (
	// maxPath and maxName bound a path and each of its elements, in bytes (Linux: PATH_MAX, NAME_MAX).
	maxPath = 4095
	maxName = 255
)

// CheckPath refuses a path in a container that is not absolute, or that tar may read as something else than what is authorized and audited.
func CheckPath(p string) error {
	if !strings.HasPrefix(p, "/") || len(p) > maxPath {
		return status.BadRequestf("the parameter path is %.100q: it has to begin with / and to have %d bytes at most", p, maxPath)
	}
	for name := range strings.SplitSeq(p, "/") {
		if name == "" || name == "." {
			continue
		}
		if err := checkName(name); err != nil {
			return status.BadRequestf("the parameter path: %v", err)
		}
	}
	return nil
}

// checkName refuses what is no name of a file in a folder.
func checkName(name string) error {
	switch {
	case name == "" || name == "." || name == "..":
		return fmt.Errorf("%q is no name of a file", name)
	case len(name) > maxName:
		return fmt.Errorf("the name %.50q has more than %d bytes", name, maxName)
	case strings.ContainsAny(name, "/\x00") || !utf8.ValidString(name):
		return fmt.Errorf("the name %.100q has a byte that names of files don't have here", name)
	}
	return nil
}
