package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// sizes are the limits of tiers.yaml that keep a file, a type and a package one concept each. Zero is no limit.
type sizes struct {
	TypeMethods  int `json:"typeMethods"`  // methods of a type, without tests
	PackageLines int `json:"packageLines"` // lines of code of a package, without tests, generated files, blank lines and comments
	// OwnImports is how many domains and other packages of this module a package may import, without tests, its own domain and API types.
	OwnImports  int `json:"ownImports"`
	FileLines   int `json:"fileLines"`   // lines of a file, without tests and generated files
	Columns     int `json:"columns"`     // of a line of the product, without tools
	TestColumns int `json:"testColumns"` // of a line of a test
	// LongLines and LongTestLines are how many lines of the whole tree may have more columns.
	LongLines     int `json:"longLines"`
	LongTestLines int `json:"longTestLines"`
	// Assemblies are the packages that may import any number of others.
	Assemblies []string `json:"assemblies"`
	// UnclearFileNames are names that say nothing about what is in a file, or in its test.
	UnclearFileNames []string `json:"unclearFileNames"`
	// Larger names what may be larger, by how much and why. An entry that is no longer needed is an error.
	Larger []struct {
		What   string `json:"what"` // "pkg/x.Type", "pkg/x" or "imports of pkg/x"
		Limit  int    `json:"limit"`
		Reason string `json:"reason"`
	} `json:"larger"`
}

// measured is the sizes of a package.
type measured struct {
	lines   int
	methods map[string]int
	own     map[string]bool
}

// checkSizes returns what is larger than its limit, one line each.
func checkSizes(root, module string, r *rules) ([]string, error) {
	s := &sizeCheck{root: root, module: module, rules: r, limits: &r.Sizes, packages: map[string]*measured{}, files: map[string][]string{}}
	if err := walk(root, []string{"cmd", "pkg", "tools"}, s.file); err != nil {
		return nil, fmt.Errorf("measure the tree: %w", err)
	}
	s.compare()
	return s.broken, nil
}

type sizeCheck struct {
	root, module    string
	rules           *rules
	limits          *sizes
	packages        map[string]*measured
	files           map[string][]string // names of files by package, without endings
	long, longTests int
	exceeded        map[string]bool
	broken          []string
}

func (s *sizeCheck) file(name string) error {
	rel, err := filepath.Rel(s.root, name)
	if err != nil {
		return err
	}
	rel = filepath.ToSlash(rel)
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	positions := token.NewFileSet()
	parsed, err := parser.ParseFile(positions, name, text, parser.ParseComments)
	if err != nil {
		return err
	}
	if ast.IsGenerated(parsed) {
		return nil
	}
	test := strings.HasSuffix(rel, "_test.go")
	tool := strings.HasPrefix(rel, "tools/")
	s.columns(text, test, tool)
	base, pkg := strings.TrimSuffix(path.Base(rel), ".go"), path.Dir(rel)
	if !tool && slices.Contains(s.limits.UnclearFileNames, subject(base)) {
		s.broken = append(s.broken, fmt.Sprintf("%s: the name says nothing about what is in the file", rel))
	}
	if test || tool {
		return nil
	}
	s.files[pkg] = append(s.files[pkg], base)
	s.over(rel, bytes.Count(text, []byte("\n")), s.limits.FileLines, "lines")
	if s.packages[pkg] == nil {
		s.packages[pkg] = &measured{methods: map[string]int{}, own: map[string]bool{}}
	}
	s.packages[pkg].add(positions, parsed, text)
	s.imports(pkg, parsed)
	return nil
}

// subject returns the name of a file without its ending, and without what says of a test of which kind it is.
func subject(base string) string {
	base, test := strings.CutSuffix(base, "_test")
	for _, kind := range []string{"_internal", "_bench", "_fuzz", "_property"} {
		if test {
			base = strings.TrimSuffix(base, kind)
		}
	}
	return base
}

// columns counts the lines that are too long. A tab is one column, as in the linter's count; a marker ("// +kubebuilder:...") can't be
// wrapped.
func (s *sizeCheck) columns(text []byte, test, tool bool) {
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(bytes.TrimSpace(line), []byte("// +")) {
			continue
		}
		switch n := len([]rune(strings.TrimRight(string(line), "\n"))); {
		case test && s.limits.TestColumns > 0 && n > s.limits.TestColumns:
			s.longTests++
		case !test && !tool && s.limits.Columns > 0 && n > s.limits.Columns:
			s.long++
		}
	}
}

// imports records what a file imports of this module: a domain counts once, and neither its own domain nor types of the API count.
func (s *sizeCheck) imports(pkg string, f *ast.File) {
	for _, spec := range f.Imports {
		inner, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), s.module+"/")
		if !ours || strings.HasPrefix(inner, "pkg/api/") {
			continue
		}
		if domain := s.rules.domain(inner); domain != "" {
			if domain == s.rules.domain(pkg) {
				continue
			}
			inner = domain
		}
		s.packages[pkg].own[inner] = true
	}
}

func (m *measured) add(positions *token.FileSet, f *ast.File, text []byte) {
	m.lines += linesOfCode(positions, f, text)
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
			m.methods[receiver(fn)]++
		}
	}
}

// linesOfCode counts the lines that have more than a comment.
func linesOfCode(positions *token.FileSet, f *ast.File, text []byte) int {
	var inComment [][2]int
	for _, group := range f.Comments {
		for _, c := range group.List {
			inComment = append(inComment, [2]int{positions.Position(c.Pos()).Line, positions.Position(c.End()).Line})
		}
	}
	n, number := 0, 0
	for line := range bytes.Lines(text) {
		number++
		trimmed := bytes.TrimSpace(line)
		whole := bytes.HasPrefix(trimmed, []byte("//")) || bytes.HasPrefix(trimmed, []byte("/*")) ||
			slices.ContainsFunc(inComment, func(c [2]int) bool { return c[0] < number && number <= c[1] })
		if len(trimmed) > 0 && !whole {
			n++
		}
	}
	return n
}

// receiver returns the name of the type that a method is of.
func receiver(fn *ast.FuncDecl) string {
	switch t := fn.Recv.List[0].Type.(type) {
	case *ast.StarExpr:
		return typeName(t.X)
	default:
		return typeName(t)
	}
}

func typeName(e ast.Expr) string {
	switch t := e.(type) {
	case *ast.IndexExpr:
		return typeName(t.X)
	case *ast.IndexListExpr:
		return typeName(t.X)
	case *ast.Ident:
		return t.Name
	}
	return "?"
}

func (s *sizeCheck) compare() {
	for _, pkg := range sortedKeys(s.packages) {
		m := s.packages[pkg]
		s.over(pkg, m.lines, s.limits.PackageLines, "lines of code")
		for _, name := range sortedKeys(m.methods) {
			s.over(pkg+"."+name, m.methods[name], s.limits.TypeMethods, "methods")
		}
		if !matches(pkg, s.limits.Assemblies...) {
			s.over("imports of "+pkg, len(m.own), s.limits.OwnImports, "domains and packages of this module")
		}
		for _, base := range s.files[pkg] {
			if s.limits.FileLines > 0 && slices.Contains(s.files[pkg], base+"s") {
				s.broken = append(s.broken, fmt.Sprintf("%s: %s.go and %ss.go differ by one letter", pkg, base, base))
			}
		}
	}
	if s.long > s.limits.LongLines {
		s.broken = append(s.broken, fmt.Sprintf("%d lines have more than %d columns, and %d may", s.long, s.limits.Columns, s.limits.LongLines))
	}
	if s.longTests > s.limits.LongTestLines {
		s.broken = append(s.broken, fmt.Sprintf("%d lines of tests have more than %d columns, and %d may", s.longTests, s.limits.TestColumns,
			s.limits.LongTestLines))
	}
	for _, e := range s.limits.Larger {
		pkg, _, _ := strings.Cut(strings.TrimPrefix(e.What, "imports of "), ".")
		if s.packages[pkg] != nil && !s.exceeded[e.What] {
			s.broken = append(s.broken, fmt.Sprintf("tiers.yaml: %s is not larger than others may be: take it out of the list", e.What))
		}
	}
}

// over records what is larger than its limit, or than the limit of its own that tiers.yaml gives it.
func (s *sizeCheck) over(what string, n, limit int, unit string) {
	if limit == 0 || n <= limit {
		return
	}
	for _, e := range s.limits.Larger {
		if e.What == what {
			if s.exceeded == nil {
				s.exceeded = map[string]bool{}
			}
			s.exceeded[what] = true
			limit = e.Limit
		}
	}
	if n > limit {
		s.broken = append(s.broken, fmt.Sprintf("%s: %d %s, and at most %d may be: split it by feature", what, n, unit, limit))
	}
}
