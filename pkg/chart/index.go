package chart

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"kapis.dev/ks-apiserver/pkg/boundedyaml"
)

// The bounds of an index.
const (
	// MaxIndex is how large it may be.
	MaxIndex = 64 << 20
	// maxEntry bounds all versions of one chart in it, and maxEntries the charts.
	maxEntry, maxEntries = 4 << 20, 20_000
	// maxFlow bounds an index in a form of YAML that can only be read as a whole.
	maxFlow = 1 << 20
)

// Version is a version of a chart in an index.
type Version struct {
	Name        string            `json:"name"`
	Version     string            `json:"version"`
	URLs        []string          `json:"urls"`
	Digest      string            `json:"digest,omitempty"`
	Created     time.Time         `json:"created,omitzero"`
	Annotations map[string]string `json:"annotations,omitempty"`

	raw   json.RawMessage
	about *About
}

// About is what an index says of a version for people.
type About struct {
	Description string       `json:"description,omitempty"`
	Home        string       `json:"home,omitempty"`
	Icon        string       `json:"icon,omitempty"`
	Maintainers []Maintainer `json:"maintainers,omitempty"`
}

// Maintainer is somebody who maintains a chart.
type Maintainer struct {
	Name  string `json:"name,omitempty"`
	Email string `json:"email,omitempty"`
	URL   string `json:"url,omitempty"`
}

// About returns what the index says of the version for people. What is of another type than expected is left out: a version can be
// installed without it.
func (v *Version) About() About {
	var out About
	if v.about != nil {
		return *v.about
	}
	_ = json.Unmarshal(v.raw, &out) // it decodes what it can
	return out
}

// SetAbout sets what About returns for a version that does not come from the text of an index.
func (v *Version) SetAbout(is About) { v.about = &is }

// Entry are the versions of one chart in an index.
type Entry struct {
	Name     string
	Versions []Version
	// Errs say which of them can't be read; the others can, and so can the other entries.
	Errs []error
}

// Index is the index of a repository. It keeps the text, and reads one entry at a time.
type Index struct {
	// Digest changes with the content, and not with the time at which it was generated.
	Digest string
	// Complete says that the end of the text was recognized. A text that was cut off between two entries looks like an index with fewer.
	Complete bool

	entries []span
}

// span is the text of one entry, or the entry itself if it does not come from a text.
type span struct {
	name  string
	raw   []byte
	json  bool
	entry *Entry
}

var errIndex = errors.New("the index of the repository is neither the YAML nor the JSON of one")

// ReadIndex reads an index.yaml, which it keeps.
func ReadIndex(raw []byte) (*Index, error) {
	if len(raw) > MaxIndex {
		return nil, fmt.Errorf("the index of the repository has more than %d MiB", MaxIndex>>20)
	}
	if text := bytes.TrimSpace(raw); len(text) > 0 && text[0] == '{' {
		if x, err := readJSON(text); err == nil || len(raw) > maxFlow {
			return x, err
		}
		return readFlow(raw)
	}
	return readYAML(raw)
}

// NewIndex returns an index of entries from elsewhere. Names must be unique and in a stable order.
func NewIndex(entries []Entry) *Index {
	out, sum := &Index{Complete: true}, sha256.New()
	for i := range entries {
		e := &entries[i]
		var errs []string
		for _, err := range e.Errs {
			errs = append(errs, err.Error())
		}
		for j := range e.Versions {
			v := &e.Versions[j]
			if v.Created = v.Created.UTC(); v.Created.Year() < 1 || v.Created.Year() > 9999 {
				v.Created = time.Time{} // JSON has no text for it
			}
		}
		text, err := json.Marshal([]any{e.Name, e.Versions, errs})
		if err != nil {
			panic(fmt.Sprintf("encode the versions of a chart: %v", err))
		}
		sum.Write(text) // of one entry after the other: each is an array, which says where it ends
		out.entries = append(out.entries, span{name: e.Name, entry: e})
	}
	out.Digest = hex.EncodeToString(sum.Sum(nil))
	return out
}

// Len returns how many charts the index has.
func (x *Index) Len() int { return len(x.entries) }

// Entries yields the charts that wanted reports, one decoded at a time.
func (x *Index) Entries(wanted func(name string) bool) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for i := range x.entries {
			if wanted(x.entries[i].name) && !yield(x.entries[i].decode()) {
				return
			}
		}
	}
}

func (s *span) decode() Entry {
	if s.entry != nil {
		return *s.entry
	}
	out := Entry{Name: s.name}
	versions, err := s.versions()
	if err != nil {
		out.Errs = []error{err}
		return out
	}
	for i, raw := range versions {
		var v Version
		if err := json.Unmarshal(raw, &v); err != nil {
			out.Errs = append(out.Errs, fmt.Errorf("version %d of %d can't be read: %.200s", i+1, len(versions), oneLine(err.Error())))
			continue
		}
		v.raw = raw
		out.Versions = append(out.Versions, v)
	}
	return out
}

// versions returns the versions of an entry, each as JSON.
func (s *span) versions() (out []json.RawMessage, err error) {
	if len(s.raw) > maxEntry {
		return nil, fmt.Errorf("its versions have more than %d MiB in the index", maxEntry>>20)
	}
	if s.json {
		err = json.Unmarshal(s.raw, &out)
	} else {
		var one map[string][]json.RawMessage
		if err = boundedyaml.Unmarshal(s.raw, &one); err == nil {
			var ok bool
			if out, ok = one[s.name]; !ok || len(one) != 1 {
				err = errors.New("it is not one list of versions")
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("it can't be read: %.200s", oneLine(err.Error()))
	}
	return out, nil
}

// readJSON reads an index that is JSON, without decoding the entries.
func readJSON(raw []byte) (*Index, error) {
	var top struct {
		APIVersion string                     `json:"apiVersion"`
		Entries    map[string]json.RawMessage `json:"entries"`
	}
	if err := json.Unmarshal(raw, &top); err != nil {
		return nil, fmt.Errorf("%w, or it is cut off", errIndex)
	}
	if top.APIVersion == "" || top.Entries == nil {
		return nil, errIndex
	}
	sum := sha256.New()
	out := &Index{Complete: true}
	if len(top.Entries) > maxEntries {
		return nil, errEntries
	}
	for _, name := range sortedKeys(top.Entries) {
		out.entries = append(out.entries, span{name: name, raw: top.Entries[name], json: true})
		text, err := json.Marshal(name)
		if err != nil {
			return nil, errIndex
		}
		sum.Write(text)
		sum.Write(top.Entries[name])
	}
	out.Digest = hex.EncodeToString(sum.Sum(nil))
	return out, nil
}

var errEntries = fmt.Errorf("the index of the repository has more than %d charts", maxEntries)

// scanner splits an index in YAML's block style, as Helm writes it, into the texts of its entries.
type scanner struct {
	out Index
	// key is the key of the document that the lines belong to, and indent that of the entries' keys; 0 where none was read.
	key    string
	indent int
	start  int // of the entry that is read, -1 for none
	name   string
	seen   map[string]bool
	others map[string]bool // the keys of the document
}

// readYAML reads an index that is YAML. Each entry is found by its indentation and decoded alone: a decoder of YAML needs many times the
// memory of the text.
func readYAML(raw []byte) (*Index, error) {
	s := &scanner{start: -1, seen: map[string]bool{}, others: map[string]bool{}}
	sum := sha256.New()
	end := len(raw)
	for at := 0; at < len(raw); {
		next := len(raw)
		if i := bytes.IndexByte(raw[at:], '\n'); i >= 0 {
			next = at + i + 1
		}
		line := bytes.TrimRight(raw[at:next], "\r\n")
		if s.others["entries"] && bytes.Equal(line, []byte("...")) {
			end = at
			break
		}
		if err := s.line(raw, at, line); err != nil {
			return nil, err
		}
		if s.key != "generated" {
			sum.Write(raw[at:next])
		}
		at = next
	}
	if err := s.finish(raw, end); err != nil {
		return nil, err
	}
	if len(s.out.entries) == 0 && len(raw) <= maxFlow {
		return readFlow(raw)
	}
	if !s.others["apiVersion"] || !s.others["entries"] {
		return nil, errIndex
	}
	whole := len(raw) > 0 && raw[len(raw)-1] == '\n'
	if s.key == "entries" && !whole {
		return nil, errors.New("the index of the repository ends within an entry: it is cut off")
	}
	// Helm writes when it was generated after the entries. Where another program wrote it before them, the last line has to be whole.
	s.out.Complete = s.others["generated"] && (s.key != "entries" || whole)
	s.out.Digest = hex.EncodeToString(sum.Sum(nil))
	return &s.out, nil
}

// line takes one line.
func (s *scanner) line(raw []byte, at int, line []byte) error {
	text := bytes.TrimLeft(line, " ")
	if len(text) == 0 || text[0] == '#' {
		return nil
	}
	indent := len(line) - len(text)
	if indent == 0 {
		if text[0] == '-' && s.key == "entries" {
			return errIndex
		}
		if bytes.HasPrefix(text, []byte("---")) {
			return nil
		}
		key, ok := keyOf(text)
		if !ok {
			s.key = ""
			return nil
		}
		if s.others[key] {
			return fmt.Errorf("the index of the repository has %.100q twice", key)
		}
		if err := s.finish(raw, at); err != nil {
			return err
		}
		s.key, s.others[key] = key, true
		return nil
	}
	if s.key != "entries" {
		return nil
	}
	if s.indent == 0 {
		s.indent = indent
	}
	if indent != s.indent || text[0] == '-' {
		return nil
	}
	name, ok := keyOf(text)
	if !ok {
		return nil // it continues a text; if it does not, its entry can't be decoded
	}
	if err := s.finish(raw, at); err != nil {
		return err
	}
	s.start, s.name = at, name
	return nil
}

// finish ends the entry that is read.
func (s *scanner) finish(raw []byte, at int) error {
	if s.start < 0 {
		return nil
	}
	if s.seen[s.name] {
		return fmt.Errorf("the index of the repository has the chart %.100q twice", s.name)
	}
	if len(s.out.entries) == maxEntries {
		return errEntries
	}
	s.seen[s.name] = true
	s.out.entries = append(s.out.entries, span{name: s.name, raw: raw[s.start:at]})
	s.start = -1
	return nil
}

// keyOf returns the key that a line of block style begins with.
func keyOf(text []byte) (string, bool) {
	if text[0] == '"' || text[0] == '\'' {
		end := bytes.IndexByte(text[1:], text[0])
		if end < 1 || !bytes.HasPrefix(bytes.TrimLeft(text[end+2:], " "), []byte(":")) {
			return "", false
		}
		key := string(text[1 : end+1])
		return key, !strings.Contains(key, `\`)
	}
	key, rest, ok := bytes.Cut(text, []byte(":"))
	if !ok || len(key) == 0 || len(rest) > 0 && rest[0] != ' ' || bytes.ContainsAny(key, " {}[],&*!|>%@`\"'\t") {
		return "", false
	}
	return string(key), true
}

// readFlow reads a short index in any form of YAML.
func readFlow(raw []byte) (*Index, error) {
	text, err := boundedyaml.ToJSON(raw)
	if err != nil || len(text) > MaxIndex {
		return nil, errIndex
	}
	out, err := readJSON(text)
	if err != nil {
		return nil, err
	}
	var top map[string]json.RawMessage
	if json.Unmarshal(text, &top) == nil {
		out.Complete = len(top["generated"]) > 0 // the JSON was made of the YAML here, so its own end proves nothing
	}
	return out, nil
}

// newLines returns a reader of the lines of a text.
func newLines(raw []byte) *bufio.Reader { return bufio.NewReaderSize(bytes.NewReader(raw), 64<<10) }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// maxNamed bounds the entries of an index that LeftOut names, and maxReason what it says of each.
const maxNamed, maxReason = 10, 300

// LeftOut returns a text that says which entries of an index are left out, and why.
func LeftOut(bad []string) string {
	out := fmt.Sprintf("%d entries are left out", len(bad))
	for i, b := range bad[:min(len(bad), maxNamed)] {
		separator := "; "
		if i == 0 {
			separator = ": "
		}
		out += separator + Clip(b, maxReason)
	}
	return out
}
