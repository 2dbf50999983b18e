package index

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/redaction"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var errNoName = errors.New("the object has no metadata.name")

// Decoded is an object between the reflector's decoder and the cache. It implements runtime.Object and
// metav1.ObjectMetaAccessor, which is all that a reflector asks for.
type Decoded struct {
	*Incoming
	// raw is the JSON before the kind's own cuts, set where a sink wants it and something was cut.
	raw   redaction.Raw
	whole bool
	// Annotations are read from bookmarks only.
	Annotations map[string]string
}

// GetObjectKind returns no kind: the reflector of a kind does not ask for it.
func (d *Decoded) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject returns d, which does not change.
func (d *Decoded) DeepCopyObject() runtime.Object { return d }

// GetObjectMeta returns the metadata that a reflector reads.
func (d *Decoded) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{
		Namespace: d.Ref.Namespace, Name: d.Ref.Name,
		ResourceVersion: d.Record.ResourceVersion, Annotations: d.Annotations,
	}
}

// decodedList is a list as the reflector's pager reads it.
type decodedList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []runtime.Object
}

// DeepCopyObject returns l: no one changes a list that was read.
func (l *decodedList) DeepCopyObject() runtime.Object { return l }

// Decoder reads objects from the JSON of one kind. It is used by one goroutine at a time.
type Decoder struct {
	schema *Schema
	intake *redaction.Intake
	// keepRaw reports whether a sink needs what the kind cuts.
	keepRaw func() bool
	// Admit checks whether an object of so many bytes may be stored; nil if any may.
	Admit func(n int) error
}

// NewDecoder returns a decoder of the objects of a kind. keepRaw reports whether a sink needs what the kind cuts.
func NewDecoder(gr schema.GroupResource, s *Schema, keepRaw func() bool) *Decoder {
	return &Decoder{schema: s, intake: redaction.NewIntake(gr, s.Cut), keepRaw: keepRaw}
}

// Decode reads one object, and keeps nothing of text. front are the members kind and apiVersion where the object may lack
// them, as the items of a list of a built-in kind do.
func (d *Decoder) Decode(text, front string) (*Decoded, error) {
	if front != "" && rawjson.Get(text, "kind") != "" && rawjson.Get(text, "apiVersion") != "" {
		front = ""
	}
	out := &Decoded{}
	compact, err := d.intake.Shown(text, front)
	if err != nil {
		return nil, err
	}
	if d.Admit != nil {
		if err := d.Admit(compact.Len()); err != nil {
			return nil, err
		}
	}
	if d.intake.Cuts() && d.keepRaw() {
		if out.raw, err = d.intake.Raw(text, front); err != nil {
			return nil, err
		}
		out.whole = true
	}
	if out.Incoming, err = readMetadata(compact, d.schema); err == nil && d.schema.KeyCount > 0 {
		out.Record.Fields[d.schema.KeyCount-1] = keyCount(text, d.schema.CutClusterWide)
	}
	return out, err
}

// Bookmark reads the object of a bookmark event, which has metadata only.
func (d *Decoder) Bookmark(text string) *Decoded {
	text = strings.Clone(text)
	out := &Decoded{Incoming: &Incoming{Record: &Record{}}}
	out.metadata(rawjson.Get(text, "metadata"))
	out.Annotations = map[string]string{}
	out.Record.Annotations.All(func(k, v string) bool {
		out.Annotations[k] = v
		return len(out.Annotations) < 16
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

// List reads a list from its stream, item by item.
func (d *Decoder) List(r *rawjson.Reader) (*decodedList, error) {
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

func (d *Decoder) member(r *rawjson.Reader, l *decodedList, key string) error {
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

func (d *Decoder) items(r *rawjson.Reader, l *decodedList) error {
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
		o, err := d.Decode(value, front)
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

// Same reports whether old is the same version of the object. The resource version does not say so alone: a restored etcd gives
// numbers a second time.
func (d *Decoded) Same(old *Record) bool {
	return old.UID == d.Record.UID && old.ResourceVersion == d.Record.ResourceVersion && old.JSON == d.Record.JSON
}

// Uncut returns the object's JSON before the kind's own cuts, where the decoder was to keep it, and its cut JSON otherwise.
func (d *Decoded) Uncut() string {
	if d.whole {
		return d.raw.Unredacted()
	}
	return d.Record.JSON.String()
}
