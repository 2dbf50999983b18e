package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Metric is a metric that the code registers.
type Metric struct {
	Name, Help string
	Kind       string // counter, gauge or histogram
	Labels     []string
	Package    string // folder of the code
}

// Metrics returns the metrics that are registered in the Go files below a folder, by name.
func Metrics(root, folder string) ([]Metric, error) {
	var found []Metric
	err := filepath.WalkDir(filepath.Join(root, folder), func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("parse %s: %w", file, err)
		}
		in, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return fmt.Errorf("name the folder of %s: %w", file, err)
		}
		for _, m := range metricsOf(parsed) {
			m.Package = filepath.ToSlash(in)
			found = append(found, m)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for metrics: %w", err)
	}
	slices.SortFunc(found, func(a, b Metric) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// metricsOf returns the metrics of a file: prometheus.New...(prometheus.CounterOpts{...}, labels), and prometheus.NewDesc(name, help, labels).
func metricsOf(file *ast.File) []Metric {
	var found []Metric
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		selector, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || !strings.HasPrefix(selector.Sel.Name, "New") {
			return true
		}
		if selector.Sel.Name == "NewDesc" {
			found = append(found, described(file, call)...)
			return true
		}
		if m, ok := registered(call); ok {
			found = append(found, m)
		}
		return true
	})
	return found
}

// registered returns the metric of a call with the options of a metric.
func registered(call *ast.CallExpr) (Metric, bool) {
	options, ok := call.Args[0].(*ast.CompositeLit)
	if !ok {
		return Metric{}, false
	}
	kind, ok := options.Type.(*ast.SelectorExpr)
	if !ok || !strings.HasSuffix(kind.Sel.Name, "Opts") {
		return Metric{}, false
	}
	m := Metric{Kind: strings.ToLower(strings.TrimSuffix(kind.Sel.Name, "Opts"))}
	for _, e := range options.Elts {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		switch key, _ := kv.Key.(*ast.Ident); {
		case key == nil:
		case key.Name == "Name":
			m.Name = literal(kv.Value)
		case key.Name == "Help":
			m.Help = literal(kv.Value)
		}
	}
	if len(call.Args) > 1 {
		m.Labels = literals(call.Args[1])
	}
	return m, m.Name != ""
}

// described returns the metrics of prometheus.NewDesc. A name that is a text and a field stands for a table of the file, of composite
// literals that begin with the rest of the name, the help and the kind.
func described(file *ast.File, call *ast.CallExpr) []Metric {
	if len(call.Args) < 3 {
		return nil
	}
	labels := literals(call.Args[2])
	if name := literal(call.Args[0]); name != "" {
		kind := "gauge"
		if strings.HasSuffix(name, "_total") {
			kind = "counter"
		}
		return []Metric{{Name: name, Help: literal(call.Args[1]), Kind: kind, Labels: labels}}
	}
	sum, ok := call.Args[0].(*ast.BinaryExpr)
	if !ok {
		return nil
	}
	prefix := literal(sum.X)
	var found []Metric
	ast.Inspect(file, func(n ast.Node) bool {
		row, ok := n.(*ast.CompositeLit)
		if !ok || row.Type != nil || len(row.Elts) < 3 {
			return true
		}
		name, help := literal(row.Elts[0]), literal(row.Elts[1])
		if kind, ok := row.Elts[2].(*ast.Ident); ok && name != "" && help != "" {
			found = append(found, Metric{Name: prefix + name, Help: help, Kind: kind.Name, Labels: labels})
		}
		return true
	})
	return found
}

// literal returns the text of a literal, "" for anything else.
func literal(e ast.Expr) string {
	l, ok := e.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return ""
	}
	text, err := strconv.Unquote(l.Value)
	if err != nil {
		return ""
	}
	return text
}

// literals returns the texts of a list of literals.
func literals(e ast.Expr) []string {
	list, ok := e.(*ast.CompositeLit)
	if !ok {
		return nil
	}
	var texts []string
	for _, e := range list.Elts {
		if text := literal(e); text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}
