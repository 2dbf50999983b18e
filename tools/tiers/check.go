package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// file is a Go file and what it imports.
type file struct {
	name    string // from the root, with slashes
	test    bool
	imports []imported
}

type imported struct {
	path string
	line int
}

// tree is the packages of a module.
type tree struct {
	module string
	files  map[string][]file // by package
}

// readTree reads the imports of every file under pkg/ and cmd/, with any build constraints. It compiles nothing.
func readTree(root string) (*tree, error) {
	module, err := moduleName(root)
	if err != nil {
		return nil, err
	}
	t := &tree{module: module, files: map[string][]file{}}
	if err := walk(root, []string{"pkg", "cmd"}, func(name string) error { return t.add(root, name) }); err != nil {
		return nil, fmt.Errorf("read the tree: %w", err)
	}
	return t, nil
}

// walk calls do with every Go file of the module in the folders of the root, of which any may be missing.
func walk(root string, folders []string, do func(name string) error) error {
	for _, folder := range folders {
		top := filepath.Join(root, folder)
		err := filepath.WalkDir(top, func(name string, e fs.DirEntry, err error) error {
			switch {
			case os.IsNotExist(err) && name == top:
				return nil
			case err != nil:
				return err
			case e.IsDir():
				return skip(name, e)
			case filepath.Ext(name) == ".go":
				return do(name)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// skip skips what is no package of the module.
func skip(name string, e fs.DirEntry) error {
	if e.Name() == "testdata" || strings.HasPrefix(e.Name(), ".") || strings.HasPrefix(e.Name(), "_") {
		return fs.SkipDir
	}
	if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

func moduleName(root string) (string, error) {
	name := filepath.Join(root, "go.mod")
	data, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		if module, ok := strings.CutPrefix(line, "module "); ok {
			return strings.TrimSpace(module), nil
		}
	}
	return "", fmt.Errorf("find the module: %s names none", name)
}

func (t *tree) add(root, name string) error {
	positions := token.NewFileSet()
	parsed, err := parser.ParseFile(positions, name, nil, parser.ImportsOnly)
	if err != nil {
		return err
	}
	rel, err := filepath.Rel(root, name)
	if err != nil {
		return err
	}
	f := file{name: filepath.ToSlash(rel), test: strings.HasSuffix(name, "_test.go")}
	for _, spec := range parsed.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		f.imports = append(f.imports, imported{p, positions.Position(spec.Pos()).Line})
	}
	pkg := path.Dir(f.name)
	t.files[pkg] = append(t.files[pkg], f)
	return nil
}

// check returns the violations of the rules, one line each, in the order of the files.
func check(t *tree, r *rules) []string {
	var broken []string
	for _, pkg := range sortedKeys(t.files) {
		tier, placed := r.tier(pkg)
		if !placed {
			broken = append(broken, pkg+": has no tier, or several: place it in tiers.yaml")
		}
		if slices.Contains(r.ForbiddenNames, path.Base(pkg)) {
			broken = append(broken, fmt.Sprintf("%s: the name %q says nothing about what is in it", pkg, path.Base(pkg)))
		}
		for _, f := range t.files[pkg] {
			for _, i := range f.imports {
				where := fmt.Sprintf("%s:%d: %s", f.name, i.line, i.path)
				for _, why := range r.judge(t.module, pkg, f.test, i.path, tier, placed) {
					broken = append(broken, where+": "+why)
				}
			}
		}
	}
	for _, rule := range r.Unlinked {
		if chain := t.linkChain(rule.Program, rule.Import, map[string]bool{}); chain != nil {
			broken = append(broken, fmt.Sprintf("%s may not link it: %s", strings.Join(chain, " -> "), rule.Reason))
		}
	}
	return broken
}

// linkChain returns the packages through which pkg links the module, or a package of the module, that target names: pkg first, target
// last. It is nil where pkg does not link it, and follows no package of other modules.
func (t *tree) linkChain(pkg, target string, seen map[string]bool) []string {
	seen[pkg] = true
	for _, f := range t.files[pkg] {
		if f.test {
			continue
		}
		for _, i := range f.imports {
			if isBelow(i.path, target) {
				return []string{pkg, i.path}
			}
			if inner, ours := strings.CutPrefix(i.path, t.module+"/"); ours && !seen[inner] {
				if rest := t.linkChain(inner, target, seen); rest != nil {
					return append([]string{pkg}, rest...)
				}
			}
		}
	}
	return nil
}

// judge returns what is wrong with an import. The order of tiers does not hold for tests, since they combine what the program separates;
// restrictions hold for them, too.
func (r *rules) judge(module, pkg string, test bool, target string, tier int, placed bool) (broken []string) {
	if inner, ours := strings.CutPrefix(target, module+"/"); ours && !test && placed && inner != pkg {
		if why := r.judgeTier(pkg, inner, tier); why != "" {
			broken = append(broken, why)
		}
	}
	for _, rule := range r.Restricted {
		if isBelow(target, rule.Import) && !matches(pkg, rule.Allowed...) && target != module+"/"+pkg {
			broken = append(broken, fmt.Sprintf("%s may not import it: %s", pkg, rule.Reason))
		}
	}
	if test || isStandard(target) {
		return broken
	}
	for _, rule := range r.Confined {
		begins := func(prefix string) bool { return strings.HasPrefix(target, prefix) }
		if matches(pkg, rule.Packages...) && !slices.ContainsFunc(rule.Imports, begins) {
			broken = append(broken, fmt.Sprintf("%s may not import it: %s", pkg, rule.Reason))
		}
	}
	return broken
}

func (r *rules) judgeTier(pkg, inner string, tier int) string {
	other, placed := r.tier(inner)
	switch {
	case !placed:
		return fmt.Sprintf("%s imports %s, which has no tier", pkg, inner)
	case other < tier, other == tier && matches(pkg, r.Peers...) && matches(inner, r.Peers...),
		other == tier && r.domain(pkg) != "" && r.domain(pkg) == r.domain(inner):
		return ""
	case other == tier:
		return fmt.Sprintf("%s and %s are both of tier %d, and a package imports only lower ones", pkg, inner, tier)
	}
	return fmt.Sprintf("%s is of tier %d and %s of tier %d, and a package imports only lower ones", pkg, tier, inner, other)
}

// isStandard reports whether a package is of the standard library: there is no dot in the first element of its path.
func isStandard(target string) bool {
	first, _, _ := strings.Cut(target, "/")
	return !strings.Contains(first, ".")
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
