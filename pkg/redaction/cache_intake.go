package redaction

import (
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/rawjson"
)

// Intake turns objects of one kind into the form that caches store: without hidden fields, managedFields and the last-applied
// configuration. One goroutine uses it at a time.
type Intake struct {
	cut, plain rawjson.Cut
	more       bool // cut names more than plain
	buf        []byte
}

// NewIntake returns the intake of a kind, which cuts what also names too.
func NewIntake(gr schema.GroupResource, also rawjson.Cut) *Intake {
	i := &Intake{plain: rawjson.Cuts(pathOfManagedFields(), pathOfLastApplied())}
	hidden := rawjson.Cuts(Hidden(gr)...)
	i.cut, i.more = merged(merged(i.plain, hidden), also), len(hidden)+len(also) > 0
	return i
}

// merged returns a cut that names everything that either of two names.
func merged(a, b rawjson.Cut) rawjson.Cut {
	out := maps.Clone(a)
	for name, below := range b {
		if have, ok := out[name]; ok && (have == nil || below == nil) {
			out[name] = nil
		} else if ok {
			out[name] = merged(have, below)
		} else {
			out[name] = below
		}
	}
	return out
}

// Cuts reports whether the kind loses more fields than every kind does.
func (i *Intake) Cuts() bool { return i.more }

// Shown returns an object, compact, after the members in front (JSON text, empty for none). It retains nothing of text.
func (i *Intake) Shown(text, front string) (Shown, error) {
	out, err := i.without(text, front, i.cut)
	return Shown{out}, err
}

// Raw returns an object with its hidden fields and the other fields that the kind's caches do not store.
func (i *Intake) Raw(text, front string) (Raw, error) {
	out, err := i.without(text, front, i.plain)
	return Raw{out}, err
}

// maxScratch is the largest buffer that is reused for the next object.
const maxScratch = 1 << 20

func (i *Intake) without(text, front string, cut rawjson.Cut) (string, error) {
	buf, err := rawjson.AppendWithout(i.buf[:0], text, front, cut)
	if cap(buf) <= maxScratch {
		i.buf = buf
	}
	if err != nil {
		return "", fmt.Errorf("read an object: %w", err)
	}
	return string(buf), nil
}
