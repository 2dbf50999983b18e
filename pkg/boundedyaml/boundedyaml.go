// Package boundedyaml reads YAML that others wrote. An alias stands for a value that is somewhere else in the document, so that a few
// hundred kilobytes of aliases are gigabytes once they are read. Such a document is refused before anything of it is made. The parser
// itself counts how often values are read, which does not bound how long they are.
package boundedyaml

import (
	"errors"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

// ErrExpands is the error of a document that is too large once its aliases are what they stand for.
var ErrExpands = errors.New("aliases of the YAML stand for too much, or for themselves: write out what they stand for")

const (
	// A document may be as large as itself a few times, and allowed more, in bytes.
	times, allowed = 4, 1 << 20
	// perNode is what a value counts besides its text.
	perNode = 8
)

// Unmarshal is yaml.Unmarshal for a document that others wrote.
func Unmarshal(raw []byte, into any) error {
	if err := Check(raw); err != nil {
		return err
	}
	return explained(yaml.Unmarshal(raw, into))
}

// UnmarshalStrict is yaml.UnmarshalStrict for a document that others wrote.
func UnmarshalStrict(raw []byte, into any) error {
	if err := Check(raw); err != nil {
		return err
	}
	return explained(yaml.UnmarshalStrict(raw, into))
}

// ToJSON is yaml.YAMLToJSON for a document that others wrote.
func ToJSON(raw []byte) ([]byte, error) {
	if err := Check(raw); err != nil {
		return nil, err
	}
	out, err := yaml.YAMLToJSON(raw)
	return out, explained(err)
}

// ToJSONStrict is yaml.YAMLToJSONStrict for a document that others wrote.
func ToJSONStrict(raw []byte) ([]byte, error) {
	if err := Check(raw); err != nil {
		return nil, err
	}
	out, err := yaml.YAMLToJSONStrict(raw)
	return out, explained(err)
}

// explained returns what the parser says of a document that is mostly aliases, which it counts itself, as ErrExpands.
func explained(err error) error {
	if err != nil && strings.Contains(err.Error(), "document contains excessive aliasing") {
		return ErrExpands
	}
	return err
}

// Why returns an error for who wrote a document that can't be read: ErrExpands where that is why, and otherwise one that says what was
// expected, since what the parser says quotes the document.
func Why(err error, expected string) error {
	if errors.Is(err, ErrExpands) {
		return ErrExpands
	}
	return errors.New(expected)
}

// Check returns an error if a document is too large once its aliases are what they stand for. It is parsed, and nothing is made of it.
func Check(raw []byte) error {
	if !mayHaveAliases(raw) {
		return nil
	}
	var document yamlv3.Node
	if err := yamlv3.Unmarshal(raw, &document); err != nil {
		return err
	}
	w := &weigher{most: times*int64(len(raw)) + allowed, known: map[*yamlv3.Node]int64{}}
	_, err := w.weigh(&document)
	return err
}

// mayHaveAliases reports whether there may be an anchor and an alias: the character of each after something else than a letter or a digit,
// and before something else than a blank. In what people write for people there mostly are none.
func mayHaveAliases(raw []byte) bool {
	anchor, alias := false, false
	for i, c := range raw {
		if c != '&' && c != '*' || i > 0 && isAlphanumeric(raw[i-1]) || i+1 == len(raw) || isBlank(raw[i+1]) {
			continue
		}
		anchor, alias = anchor || c == '&', alias || c == '*'
	}
	return anchor && alias
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func isAlphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// weigher finds how large values are that aliases stand for, each once.
type weigher struct {
	most  int64
	known map[*yamlv3.Node]int64 // of anchors: -1 while it is being weighed
}

func (w *weigher) weigh(n *yamlv3.Node) (int64, error) {
	if n.Kind == yamlv3.AliasNode {
		if n.Alias == nil {
			return 0, ErrExpands
		}
		n = n.Alias
	}
	if weight, ok := w.known[n]; ok {
		if weight < 0 { // it stands for itself
			return 0, ErrExpands
		}
		return weight, nil
	}
	if n.Anchor != "" {
		w.known[n] = -1
	}
	weight := int64(len(n.Value)) + perNode
	for _, c := range n.Content {
		below, err := w.weigh(c)
		if err != nil {
			return 0, err
		}
		if weight += below; weight > w.most {
			return 0, ErrExpands
		}
	}
	if n.Anchor != "" {
		w.known[n] = weight
	}
	return weight, nil
}
