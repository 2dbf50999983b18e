package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sort"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	fileName  = "kubesphere.yaml"
	envPrefix = "KUBESPHERE_"
	// envAdmin is no key: ks-controller-manager reads the first admin's password from it.
	envAdmin = "KUBESPHERE_ADMIN_PASSWORD"
)

// Load reads the configuration from path: a file, or a folder that has kubesphere.yaml. An empty
// path means /etc/kubesphere, then the working folder, and the defaults where neither has the file.
// A folder without the file may have it as configmap/kubesphere.yaml: so the Deployments mount the
// Secret kubesphere-config, and the ConfigMap of that name for installations that have no such Secret.
// Variables KUBESPHERE_<PATH> override keys, in the file or not: KUBESPHERE_AUTHENTICATION_ISSUER_URL.
// The error names the file and the key.
func Load(path string) (*Config, error) {
	file, raw, err := read(path)
	if err != nil {
		return nil, err
	}
	c, err := Parse(raw, os.Environ())
	if err != nil {
		return nil, fmt.Errorf("configuration %s: %w", file, err)
	}
	if filepath.Base(filepath.Dir(file)) == configMapFolder {
		if c.Exposed, err = secretKeys(raw); err != nil {
			return nil, fmt.Errorf("configuration %s: %w", file, err)
		}
	}
	return c, nil
}

// read returns the first of the files that may have the configuration. Only a missing file makes it try the next.
func read(path string) (file string, raw []byte, err error) {
	candidates := append(inFolder("/etc/kubesphere"), inFolder("")...)
	if path != "" {
		candidates = []string{path}
		if st, err := os.Stat(path); err == nil && st.IsDir() {
			candidates = inFolder(path)
		}
	}
	var none error
	for _, f := range candidates {
		raw, err = os.ReadFile(f)
		switch {
		case err == nil:
			return f, raw, nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", nil, fmt.Errorf("read configuration: %w", err)
		case none == nil:
			none = err
		}
	}
	if path != "" {
		return "", nil, fmt.Errorf("read configuration: %w", none)
	}
	return "(none)", nil, nil
}

// inFolder returns where a folder may have the file, the Secret's before the ConfigMap's.
func inFolder(folder string) []string {
	return []string{filepath.Join(folder, fileName), filepath.Join(folder, configMapFolder, fileName)}
}

// Parse returns the configuration of a file's text and of environment variables ("NAME=value"), with the defaults filled in, validated.
func Parse(raw []byte, environ []string) (*Config, error) {
	doc, err := document(raw)
	if err != nil {
		return nil, err
	}
	schema := fields(reflect.TypeFor[Config]())
	ignored, err := overlay(doc, schema, environ)
	if err != nil {
		return nil, err
	}
	if err := conform(doc, schema, "", &ignored); err != nil {
		return nil, err
	}
	c := Default()
	if err := decode(doc, c); err != nil {
		return nil, err
	}
	if c.Multicluster.ClusterName == "" && c.Multicluster.ClusterRole != "member" {
		c.Multicluster.ClusterName = c.Multicluster.HostClusterName
	}
	if iss := &c.Authentication.Issuer; iss.JWTSecret != "" && iss.AcceptLegacyTokensUntil == "" {
		ignored = append(ignored, "authentication.issuer.jwtSecret")
	}
	slices.Sort(ignored)
	c.Ignored = slices.Compact(ignored)
	return c, c.Validate()
}

// document parses a file's text, and gives its keys their present names.
func document(raw []byte) (map[string]any, error) {
	doc := map[string]any{}
	b, err := yaml.YAMLToJSONStrict(raw)
	if err != nil {
		return nil, errors.New(strings.Join(strings.Fields(err.Error()), " ")) // on one line
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		return nil, errors.New("is not a map of sections")
	}
	if doc == nil {
		doc = map[string]any{}
	}
	if err := modernize(doc); err != nil {
		return nil, err
	}
	return doc, modernizeRedis(doc)
}

func decode(doc map[string]any, c *Config) error {
	b, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	err = json.NewDecoder(bytes.NewReader(b)).Decode(c)
	var typ *json.UnmarshalTypeError
	if errors.As(err, &typ) {
		return fmt.Errorf("%s: %s is not a %s", typ.Field, typ.Value, typ.Type)
	}
	return err
}

// field is one key: its fields where it is a section, and its type otherwise.
type field struct {
	name   string
	typ    reflect.Type
	unread bool
	sub    map[string]field // by lower-case name
}

func fields(t reflect.Type) map[string]field {
	m := map[string]field{}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous:
			for k, v := range fields(f.Type) {
				m[k] = v
			}
			continue
		case name == "-":
			continue
		}
		x := field{name: name, typ: f.Type, unread: f.Tag.Get("config") == "unread"}
		if f.Type.Kind() == reflect.Struct {
			x.sub = fields(f.Type)
		}
		m[strings.ToLower(name)] = x
	}
	return m
}

// conform checks that every key of doc is known, gives each its exact name, and records the ignored ones.
func conform(doc map[string]any, schema map[string]field, prefix string, ignored *[]string) error {
	keys := make([]string, 0, len(doc))
	for k := range doc {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		f, ok := schema[strings.ToLower(k)]
		if !ok {
			return fmt.Errorf("unknown key %q; did you mean %q?", prefix+k, prefix+nearest(k, schema))
		}
		v := doc[k]
		if k != f.name {
			if _, twice := doc[f.name]; twice {
				return fmt.Errorf("key %q is written twice, as %q and as %q", prefix+f.name, k, f.name)
			}
			delete(doc, k)
			doc[f.name] = v
		}
		switch {
		case v == nil:
			delete(doc, f.name) // "key:" with no value keeps the default
		case f.unread:
			*ignored = append(*ignored, prefix+f.name)
			delete(doc, f.name)
		case f.sub != nil:
			section, ok := v.(map[string]any)
			if !ok {
				return fmt.Errorf("%s is a section: expected keys below it", prefix+f.name)
			}
			if err := conform(section, f.sub, prefix+f.name+".", ignored); err != nil {
				return err
			}
		case f.typ.Kind() == reflect.Slice && f.typ.Elem().Kind() == reflect.Struct:
			if err := conformList(v, f, prefix, ignored); err != nil {
				return err
			}
		}
	}
	return nil
}

func conformList(v any, f field, prefix string, ignored *[]string) error {
	list, ok := v.([]any)
	if !ok {
		return fmt.Errorf("%s is a list", prefix+f.name)
	}
	schema := fields(f.typ.Elem())
	for i, e := range list {
		at := fmt.Sprintf("%s%s[%d].", prefix, f.name, i)
		m, ok := e.(map[string]any)
		if !ok {
			return fmt.Errorf("%s: expected keys below it", strings.TrimSuffix(at, "."))
		}
		if err := conform(m, schema, at, ignored); err != nil {
			return err
		}
	}
	return nil
}

// overlay applies the variables of environ to doc, and returns those that name no key.
func overlay(doc map[string]any, schema map[string]field, environ []string) (ignored []string, err error) {
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		path, ok := strings.CutPrefix(name, envPrefix)
		if !ok || name == envAdmin {
			continue
		}
		known, err := set(doc, schema, strings.ToLower(path), value)
		if err != nil {
			return nil, fmt.Errorf("variable %s: %w", name, err)
		}
		if !known {
			ignored = append(ignored, "$"+name)
		}
	}
	return ignored, nil
}

func set(doc map[string]any, schema map[string]field, path, value string) (bool, error) {
	head, rest, nested := strings.Cut(path, "_")
	f, ok := schema[head]
	switch {
	case !ok || nested != (f.sub != nil):
		return false, nil
	case nested:
		section, ok := existing(doc, f.name).(map[string]any)
		if !ok {
			section = map[string]any{}
		}
		known, err := set(section, f.sub, rest, value)
		if known && err == nil {
			put(doc, f.name, section)
		}
		return known, err
	case f.typ.Kind() == reflect.String:
		put(doc, f.name, value)
		return true, nil
	}
	var v any
	if err := yaml.Unmarshal([]byte(value), &v); err != nil {
		return true, fmt.Errorf("its value is not YAML: %w", err)
	}
	put(doc, f.name, v)
	return true, nil
}

func existing(doc map[string]any, name string) any {
	for k, v := range doc {
		if strings.EqualFold(k, name) {
			return v
		}
	}
	return nil
}

func put(doc map[string]any, name string, v any) {
	for k := range doc {
		if strings.EqualFold(k, name) {
			delete(doc, k)
		}
	}
	doc[name] = v
}

// nearest returns the known key that is the fewest edits away from k.
func nearest(k string, schema map[string]field) string {
	best, least := "", -1
	for lower, f := range schema {
		d := distance(strings.ToLower(k), lower)
		if least < 0 || d < least || d == least && f.name < best {
			best, least = f.name, d
		}
	}
	return best
}

// distance is the Levenshtein distance of a and b, in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next := min(row[j]+1, row[j+1]+1, diagonal+cost)
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}
