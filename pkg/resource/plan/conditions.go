package plan

import (
	"slices"
	"strings"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

// filters adds the conditions of the query's filters, the kind's own first and the expression last.
func (b *Builder) filters() error {
	if b.Own.Plan != nil {
		if err := b.Own.Plan(b); err != nil {
			return err
		}
	}
	b.metadata()
	b.labels()
	b.ownFilters()
	b.fields()
	b.freeText()
	return b.expression()
}

// metadata adds the filters that every kind has.
func (b *Builder) metadata() {
	q := b.Query
	if q.Names != nil {
		b.Names(q.Names)
	}
	if q.Namespace.Set && !b.Own.Members {
		b.inNamespace(q.Namespace.Value)
	}
	if q.UID.Set {
		b.Check(func(r *index.Record) bool { return r.UID == q.UID.Value })
	}
	for _, text := range q.Contains {
		b.contains(text)
	}
	if q.Owner.Set {
		b.ownedBy(q.Owner.Value)
	}
	if q.OwnerKind.Set {
		kind := q.OwnerKind.Value
		b.indexed(func(r *index.Record) bool {
			return r.AnyOwner(func(o index.Owner) bool { return o.Kind == kind })
		}, index.OwnedByKind(kind))
	}
	for i := range q.Annotations {
		req := &q.Annotations[i]
		b.Check(func(r *index.Record) bool { return req.Match(r.Annotations.Get(req.Key)) })
	}
}

func (b *Builder) inNamespace(namespace string) {
	holds := func(r *index.Record) bool { return r.Namespace == namespace }
	if namespace == "" {
		b.Check(holds)
		return
	}
	b.indexed(holds, index.InNamespace(namespace))
}

// contains looks for text in the name, case-insensitively in the alias, and in the field that the kind names for this.
func (b *Builder) contains(text string) {
	folded, also := wordOf(text), b.Own.NameField-1
	b.texts = append(b.texts, text)
	b.Check(func(r *index.Record) bool {
		return strings.Contains(r.Name, text) || folded.in(r.Alias) || also >= 0 && strings.Contains(r.Fields[also], text)
	})
}

// ownedBy looks for an owner by its UID or its name. Only UIDs have an index; what has the form of a UID is taken for one,
// so that the pods of a workload are found at once.
func (b *Builder) ownedBy(owner string) {
	uids := append([]string{owner}, b.Owners...)
	for _, uid := range b.Owners {
		b.Vary(uid)
	}
	byUID := isUID(owner)
	holds := func(r *index.Record) bool {
		return r.AnyOwner(func(o index.Owner) bool { return slices.Contains(uids, o.UID) || !byUID && o.Name == owner })
	}
	if !byUID {
		b.Check(holds)
		return
	}
	terms := make([]index.Term, len(uids))
	for i, uid := range uids {
		terms[i] = index.OwnedBy(uid)
	}
	b.indexed(holds, terms...)
}

// isUID reports whether s has the form of an object's UID, that of RFC 9562.
func isUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return false
			}
		case (c < '0' || c > '9') && (c < 'a' || c > 'f'):
			return false
		}
	}
	return true
}

// Label adds a condition on one label.
func (b *Builder) Label(req query.Requirement) {
	terms := make([]index.Term, len(req.Values))
	for i, v := range req.Values {
		terms[i] = index.HasLabel(req.Key, v)
	}
	c := Condition{Holds: func(r *index.Record) bool { return req.Match(r.Labels.Get(req.Key)) }}
	switch req.Op {
	case query.In:
		c.Terms = terms
	case query.NotIn:
		c.without = terms
	case query.Exists, query.Missing:
		c.label, c.lacks = req.Key, req.Op == query.Missing
	}
	b.Conditions = append(b.Conditions, c)
}

func (b *Builder) labels() {
	for _, req := range b.Query.Labels {
		b.Label(req)
	}
	alternatives := b.Query.Selectors
	if len(alternatives) == 1 {
		for _, req := range alternatives[0] {
			b.Label(req)
		}
		return
	}
	if len(alternatives) > 1 {
		b.Narrowed(func(r *index.Record) bool {
			return slices.ContainsFunc(alternatives, func(all []query.Requirement) bool {
				for i := range all {
					if !all[i].Match(r.Labels.Get(all[i].Key)) {
						return false
					}
				}
				return true
			})
		}, termsOf(alternatives)...)
	}
}

// termsOf returns terms of which one holds for every object that one of the alternatives selects, or none where an
// alternative names no value of a label.
func termsOf(alternatives [][]query.Requirement) []index.Term {
	var out []index.Term
	for _, all := range alternatives {
		at := slices.IndexFunc(all, func(r query.Requirement) bool { return r.Op == query.In })
		if at < 0 {
			return nil
		}
		for _, v := range all[at].Values {
			out = append(out, index.HasLabel(all[at].Key, v))
		}
	}
	return out
}

// fields adds the conditions on fields by their paths. Those of the metadata and of the kind's own fields are
// found by index.
func (b *Builder) fields() {
	for i := range b.Query.Fields {
		f := &b.Query.Fields[i]
		own, is := b.Own.at(f.Path), f.Op == query.Is
		switch {
		case is && f.Path.Is("metadata", "name"):
			b.Names(map[string]struct{}{f.Value: {}})
		case is && f.Path.Is("metadata", "namespace"):
			b.inNamespace(f.Value)
		case is && f.Value != "" && len(f.Path) == 3 && f.Path[:2].Is("metadata", "labels"):
			b.Label(query.Requirement{Key: f.Path[2], Op: query.In, Values: []string{f.Value}})
		case own >= 0 && is && f.Value != "" && b.Own.Fields[own].indexed():
			b.indexed(func(r *index.Record) bool { return r.Fields[own] == f.Value }, index.FieldIs(own, f.Value))
		case own >= 0:
			b.Check(func(r *index.Record) bool { return f.Match(r.Fields[own]) })
		default:
			b.Check(func(r *index.Record) bool { return f.Match(rawjson.GetText(r.JSON.String(), f.Path...)) })
		}
	}
}

// freeText adds the words of q.
func (b *Builder) freeText() {
	also := b.Own.WordsField - 1
	if also < 0 { // an index may answer
		b.words = append(b.words, b.Query.Words...)
	}
	for _, text := range b.Query.Words {
		w := wordOf(text)
		b.Check(func(r *index.Record) bool { return w.inRecord(r) || also >= 0 && w.in(r.Fields[also]) })
	}
}

// expression adds the expression, which is the most costly of the filters.
func (b *Builder) expression() error {
	text := b.Query.Expression
	if text == "" {
		return nil
	}
	program, err := b.Planner.expressions.Compile(text)
	if err != nil {
		return query.Invalid("cel", text, "an expression over object that is true or false: "+err.Error())
	}
	evaluation := program.Begin()
	b.Check(func(r *index.Record) bool { return evaluation.Holds(r.JSON.String()) })
	b.Fault = func() error {
		if err := evaluation.Fault(); err != nil {
			return query.Invalid("cel", text, err.Error())
		}
		return nil
	}
	return nil
}

// ownFilters adds the filters that the kind has.
func (b *Builder) ownFilters() {
	for i, f := range b.Own.Fields {
		want, ok := b.Query.Param(f.Name)
		if f.Match == matchNone || !ok {
			continue
		}
		switch f.Match {
		case MatchExact:
			b.fieldIs(i, want)
		case MatchState:
			b.fieldIs(i, f.statesOf(want)...)
		case MatchContains:
			b.Check(func(r *index.Record) bool { return strings.Contains(r.Fields[i], want) })
		case MatchMember:
			holds := func(r *index.Record) bool { return IsLine(r.Fields[i], want) }
			if f.Inside && b.Namespace != "" {
				b.indexed(holds, index.HasMember(i, b.Namespace, want))
				continue
			}
			b.Check(holds)
		}
	}
}

// fieldIs adds the condition that an indexed field has one of some values.
func (b *Builder) fieldIs(field int, values ...string) {
	holds := func(r *index.Record) bool { return slices.Contains(values, r.Fields[field]) }
	if slices.Contains(values, "") {
		b.Check(holds) // an empty value is in no index
		return
	}
	terms := make([]index.Term, len(values))
	for i, v := range values {
		terms[i] = index.FieldIs(field, v)
	}
	b.indexed(holds, terms...)
}

// IsLine reports whether s is one of the lines.
func IsLine(lines, s string) bool {
	for line := range strings.SplitSeq(lines, "\n") {
		if line == s && s != "" {
			return true
		}
	}
	return false
}
