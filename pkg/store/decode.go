package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"kapis.dev/ks-apiserver/pkg/rawjson"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var errNoName = errors.New("the object has no metadata.name")

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// unread is cut from every object.
func unread() rawjson.Cut {
	return rawjson.Cuts([]string{"metadata", "managedFields"}, []string{"metadata", "annotations", lastApplied})
}

// decoded is an object between the reflector's decoder and the cache. It implements runtime.Object and
// metav1.ObjectMetaAccessor, which is all that a reflector asks for.
type decoded struct {
	*skimmed
	// raw is the JSON before the kind's own cuts, empty where no sink wants it or nothing was cut.
	raw string
	// annotations are read of bookmarks only.
	annotations map[string]string
}

// GetObjectKind returns no kind: the reflector of a kind does not ask for it.
func (d *decoded) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject returns d, which does not change.
func (d *decoded) DeepCopyObject() runtime.Object { return d }

// GetObjectMeta returns the metadata that a reflector reads.
func (d *decoded) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{
		Namespace: d.ref.Namespace, Name: d.ref.Name,
		ResourceVersion: d.rec.ResourceVersion, Annotations: d.annotations,
	}
}

// object returns what sinks are told.
func (d *decoded) object() *Object {
	raw := d.raw
	if raw == "" {
		raw = d.rec.JSON
	}
	return &Object{
		Namespace: d.ref.Namespace, Name: d.ref.Name, UID: d.rec.UID, ResourceVersion: d.rec.ResourceVersion,
		Raw: []byte(raw),
	}
}

// decodedList is a list as the reflector's pager reads it.
type decodedList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []runtime.Object
}

// DeepCopyObject returns l: nobody changes a list that was read.
func (l *decodedList) DeepCopyObject() runtime.Object { return l }

// decoder makes objects of the JSON of one kind. It is used by one goroutine at a time.
type decoder struct {
	schema *Schema
	plain  rawjson.Cut // what no kind keeps
	cut    rawjson.Cut // plain, and what this kind does not keep
	// keepRaw tells whether a sink wants to see what the kind cuts.
	keepRaw func() bool
	// admit is asked whether an object of so many bytes may be kept, nil where any may.
	admit func(n int) error
	buf   []byte
}

func newDecoder(s *Schema, keepRaw func() bool) *decoder {
	d := &decoder{schema: s, plain: unread(), cut: unread(), keepRaw: keepRaw}
	maps.Copy(d.cut, s.Cut)
	return d
}

// decode reads one object, and keeps nothing of text. front are the members kind and apiVersion where the object may lack them:
// the items of a list of a built-in kind do.
func (d *decoder) decode(text, front string) (*decoded, error) {
	if front != "" && rawjson.Get(text, "kind") != "" && rawjson.Get(text, "apiVersion") != "" {
		front = ""
	}
	out := &decoded{}
	compact, err := d.without(text, front, d.cut)
	if err != nil {
		return nil, err
	}
	if d.admit != nil {
		if err := d.admit(len(compact)); err != nil {
			return nil, err
		}
	}
	if len(d.schema.Cut) > 0 && d.keepRaw() {
		if out.raw, err = d.without(text, front, d.plain); err != nil {
			return nil, err
		}
	}
	out.skimmed, err = skim(compact, d.schema)
	return out, err
}

func (d *decoder) without(text, front string, cut rawjson.Cut) (string, error) {
	buf, err := rawjson.AppendWithout(d.buf[:0], text, front, cut)
	if cap(buf) <= maxScratch {
		d.buf = buf
	}
	if err != nil {
		return "", fmt.Errorf("read an object: %w", err)
	}
	return string(buf), nil
}

// maxScratch is the largest buffer that is kept for the next object.
const maxScratch = 1 << 20

// bookmark reads the object of a bookmark event, which has metadata only.
func (d *decoder) bookmark(text string) *decoded {
	text = strings.Clone(text)
	out := &decoded{skimmed: &skimmed{rec: &Record{}}}
	out.metadata(rawjson.Get(text, "metadata"))
	out.annotations = map[string]string{}
	out.rec.Annotations.All(func(k, v string) bool {
		out.annotations[k] = v
		return len(out.annotations) < 16
	})
	return out
}

// front returns the members that the items of a list lack.
func front(listKind, apiVersion string) string {
	const suffix = "List"
	if len(listKind) <= len(suffix) || apiVersion == "" {
		return ""
	}
	return `"kind":` + strconv.Quote(listKind[:len(listKind)-len(suffix)]) + `,"apiVersion":` + strconv.Quote(apiVersion)
}

// list reads a list from its stream, item by item.
func (d *decoder) list(r *rawjson.Reader) (*decodedList, error) {
	l := &decodedList{}
	if err := expect(r, '{'); err != nil {
		return nil, err
	}
	for {
		key, err := r.Value()
		if err != nil {
			return nil, err
		}
		if err := expect(r, ':'); err != nil {
			return nil, err
		}
		if err := d.member(r, l, rawjson.Text(key)); err != nil {
			return nil, err
		}
		switch c, err := r.Token(); {
		case err != nil:
			return nil, err
		case c == '}':
			return l, nil
		case c != ',':
			return nil, fmt.Errorf("%w: unexpected %q in a list", rawjson.ErrSyntax, c)
		}
	}
}

func (d *decoder) member(r *rawjson.Reader, l *decodedList, key string) error {
	if c, err := r.Peek(); err == nil && key == "items" && c == '[' {
		return d.items(r, l)
	}
	value, err := r.Value()
	if err != nil {
		return err
	}
	switch key {
	case "kind":
		l.Kind = strings.Clone(rawjson.Text(value))
	case "apiVersion":
		l.APIVersion = strings.Clone(rawjson.Text(value))
	case "metadata":
		if err := json.Unmarshal([]byte(value), &l.ListMeta); err != nil {
			return fmt.Errorf("read a list's metadata: %w", err)
		}
	}
	return nil
}

func (d *decoder) items(r *rawjson.Reader, l *decodedList) error {
	if _, err := r.Token(); err != nil {
		return err
	}
	if c, err := r.Peek(); err == nil && c == ']' {
		_, err := r.Token()
		return err
	}
	front := front(l.Kind, l.APIVersion)
	for {
		value, err := r.Value()
		if err != nil {
			return err
		}
		o, err := d.decode(value, front)
		if err != nil {
			return err
		}
		l.Items = append(l.Items, o)
		switch c, err := r.Token(); {
		case err != nil:
			return err
		case c == ']':
			return nil
		case c != ',':
			return fmt.Errorf("%w: unexpected %q between items", rawjson.ErrSyntax, c)
		}
	}
}

func expect(r *rawjson.Reader, want byte) error {
	c, err := r.Token()
	if err == nil && c != want {
		err = fmt.Errorf("%w: %q where %q was expected", rawjson.ErrSyntax, c, want)
	}
	return err
}
