// Command crdwords writes into CRDs which words rules may have (package pkg/api/iam/v1beta1, WordsOfRules): the type of a rule is
// Kubernetes' own, which has no markers for the generator. Its argument is the folder of the CRDs, and it changes the files with
// rules.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: crdwords FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "crdwords:", err)
		os.Exit(1)
	}
}

func run(folder string) error {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return fmt.Errorf("list CRDs: %w", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read a CRD: %w", err)
		}
		out, err := restrict(string(text))
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if out == string(text) {
			continue
		}
		if err := os.WriteFile(file, []byte(out), 0o644); err != nil { //nolint:gosec // a file of the repository
			return fmt.Errorf("write a CRD: %w", err)
		}
	}
	return nil
}

// restrict adds the bounds to the lists of each rule. The generator writes a rule's properties at one depth, each list as "items: {type:
// string}".
func restrict(text string) (string, error) {
	words := map[string]iamv1beta1.RuleWords{}
	for _, w := range iamv1beta1.WordsOfRules() {
		words[w.Field+":"] = w
	}
	var out []string
	var now *iamv1beta1.RuleWords
	inRule, found := -1, 0
	for line := range strings.SplitSeq(text, "\n") {
		depth, content := len(line)-len(strings.TrimLeft(line, " ")), strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(content, "PolicyRule holds information"):
			inRule, found = depth-2, 0 // the indentation of the rule's "properties:"
		case inRule >= 0 && content != "" && depth < inRule:
			if found != len(words) {
				return "", fmt.Errorf("a rule has %d of %d lists", found, len(words))
			}
			inRule = -1
		}
		if w, ok := words[content]; ok && depth == inRule+2 {
			now, found = &w, found+1
		}
		if now != nil && content == "type: string" {
			pad := strings.Repeat(" ", depth)
			out = append(out, pad+fmt.Sprintf("maxLength: %d", now.Longest), pad+"pattern: "+now.Pattern())
			now = nil
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n"), nil
}
