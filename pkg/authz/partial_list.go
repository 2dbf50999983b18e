package authz

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
)

// PartialList is the objects of a list that the caller may see, where they may not see all of them. It is immutable.
type PartialList struct {
	// Namespaces are those whose objects may be seen; sorted.
	Namespaces []string
	// Workspaces are those whose cluster-scoped objects (by their label kubesphere.io/workspace) may be seen; sorted.
	Workspaces []string
	// Names are the objects that may be seen of a kind that belongs to no namespace and no workspace (clusters, users); sorted.
	Names []string
	// Key is short, equal for equal partial lists and for no others: it is for the keys of caches.
	Key string
}

type withoutPartialList struct{}

// WithoutPartialList returns a context for decisions that only have to say whether they allow: a refused list then comes without its
// partial list, which may cost more than the decision.
func WithoutPartialList(ctx context.Context) context.Context {
	return context.WithValue(ctx, withoutPartialList{}, true)
}

// WantsPartialList reports whether the decision on a refused list should come with its partial list.
func WantsPartialList(ctx context.Context) bool {
	return ctx.Value(withoutPartialList{}) == nil
}

// keyBytes is how many bytes of a SHA-256 a Key has: two partial lists of one key are not found in 2^96 tries.
const keyBytes = 24

// NewPartialList returns the partial list of these namespaces and workspaces, or nil if there are none. It sorts both slices, removes
// duplicates and retains them.
func NewPartialList(namespaces, workspaces []string) *PartialList {
	slices.Sort(namespaces)
	slices.Sort(workspaces)
	return sortedPartialList(slices.Compact(namespaces), slices.Compact(workspaces))
}

// NewOwnPartialList returns the partial list of what belongs to the caller. It is never nil: a caller with nothing may list as well, and
// sees nothing. It sorts the slices, removes duplicates and retains them.
func NewOwnPartialList(namespaces, workspaces, names []string) *PartialList {
	for _, list := range [...]*[]string{&namespaces, &workspaces, &names} {
		if !slices.IsSorted(*list) {
			slices.Sort(*list)
		}
		*list = slices.Compact(*list)
	}
	return partOf(namespaces, workspaces, names)
}

func sortedPartialList(namespaces, workspaces []string) *PartialList {
	if len(namespaces) == 0 && len(workspaces) == 0 {
		return nil
	}
	return partOf(namespaces, workspaces, nil)
}

func partOf(namespaces, workspaces, names []string) *PartialList {
	size := 3 * binary.MaxVarintLen64
	for _, list := range [...][]string{namespaces, workspaces, names} {
		for _, name := range list {
			size += binary.MaxVarintLen16 + len(name)
		}
	}
	text := make([]byte, 0, size)
	for _, list := range [...][]string{namespaces, workspaces, names} {
		text = binary.AppendUvarint(text, uint64(len(list)))
		for _, name := range list {
			text = append(binary.AppendUvarint(text, uint64(len(name))), name...)
		}
	}
	sum := sha256.Sum256(text)
	return &PartialList{Namespaces: namespaces, Workspaces: workspaces, Names: names,
		Key: base64.RawURLEncoding.EncodeToString(sum[:keyBytes])}
}

// Or returns what is in p or in q; nil is the empty partial list.
func (p *PartialList) Or(q *PartialList) *PartialList {
	switch {
	case q == nil || p != nil && p.Key == q.Key:
		return p
	case p == nil:
		return q
	}
	namespaces, workspaces, names := merge(p.Namespaces, q.Namespaces), merge(p.Workspaces, q.Workspaces), merge(p.Names, q.Names)
	for _, whole := range [...]*PartialList{p, q} {
		if len(namespaces) == len(whole.Namespaces) && len(workspaces) == len(whole.Workspaces) && len(names) == len(whole.Names) {
			return whole
		}
	}
	return partOf(namespaces, workspaces, names)
}

// merge returns what is in either of two sorted lists, sorted; it changes neither.
func merge(a, b []string) []string {
	switch {
	case len(b) == 0:
		return a
	case len(a) == 0:
		return b
	}
	all := make([]string, 0, max(len(a), len(b)))
	for len(a) > 0 && len(b) > 0 {
		order := strings.Compare(a[0], b[0])
		if order <= 0 {
			all, a = append(all, a[0]), a[1:]
		} else {
			all = append(all, b[0])
		}
		if order >= 0 {
			b = b[1:]
		}
	}
	return append(append(all, a...), b...)
}

// Reason says, for people and audit, how much the partial list has.
func (p *PartialList) Reason() string {
	return "allowed in " + strconv.Itoa(len(p.Namespaces)) + " namespaces and " + strconv.Itoa(len(p.Workspaces)) + " workspaces"
}
