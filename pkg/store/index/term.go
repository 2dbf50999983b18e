package index

import (
	"strconv"
	"strings"
	"unique"
)

// Term is a property by which objects are found by index. The zero Term is none.
type Term struct{ h unique.Handle[string] }

// The classes of terms: the first byte of a term's text.
const (
	classNamespace = "n"
	classLabel     = "l"
	classOwner     = "o"
	classOwnerKind = "k"
	classField     = "f"
	classMember    = "m"
)

var everything = term("")

// All is the term that holds for every object.
func All() Term { return everything }

// InNamespace holds for the objects of a namespace.
func InNamespace(namespace string) Term { return term(classNamespace + namespace) }

// HasLabel holds for the objects whose label key has the value.
func HasLabel(key, value string) Term { return term(labelled(key) + "=" + value) }

// labelled is the prefix of the terms of a label key, and of no other: the length says where the key ends, since labels that
// an extension serves may be any texts.
func labelled(key string) string { return classLabel + strconv.Itoa(len(key)) + ":" + key }

// OwnedBy holds for the objects that have an owner reference with the UID.
func OwnedBy(uid string) Term { return term(classOwner + uid) }

// OwnedByKind holds for the objects that have an owner reference of the kind.
func OwnedByKind(kind string) Term { return term(classOwnerKind + kind) }

// FieldIs holds for the objects whose indexed field has the value, which must not be empty. field is the index in
// Schema.Fields.
func FieldIs(field int, value string) Term {
	return term(classField + string(rune(field)) + value)
}

// HasMember holds for the objects of a namespace that have the value as one of the lines of a field that Schema.Members
// names.
func HasMember(field int, namespace, value string) Term {
	return term(classMember + string(rune(field)) + namespace + "/" + value) // no namespace has a slash: they are segments of paths
}

func term(s string) Term { return Term{unique.Make(s)} }

// compare orders terms by their texts.
func (t Term) compare(u Term) int {
	if t == u {
		return 0
	}
	if t.h.Value() < u.h.Value() {
		return -1
	}
	return 1
}

// internNamespace returns a copy of the name that all objects of the namespace share: the text of their term.
func internNamespace(name string) string {
	return InNamespace(name).h.Value()[len(classNamespace):]
}

// appendTerms appends the terms that hold for r besides All and its namespace.
func appendTerms(dst []Term, r *Record, s *Schema) []Term {
	r.Labels.All(func(key, value string) bool {
		dst = append(dst, HasLabel(key, value))
		return true
	})
	for _, o := range r.Owners() {
		dst = append(dst, OwnedBy(o.UID), OwnedByKind(o.Kind))
	}
	for _, i := range s.Indexed {
		if v := r.Fields[i]; v != "" {
			dst = append(dst, FieldIs(i, v))
		}
	}
	for _, i := range s.Members {
		for line := range strings.SplitSeq(r.Fields[i], "\n") {
			if t := HasMember(i, r.Namespace, line); line != "" && !has(dst, t) {
				dst = append(dst, t)
			}
		}
	}
	return dst
}
