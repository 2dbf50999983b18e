package plan

import "kapis.dev/ks-apiserver/pkg/store/index"

// Condition is one thing that must hold of an object.
type Condition struct {
	// Terms are how an index finds the objects, of which any suffices; empty where no index does. A single term finds
	// exactly the objects for which the condition holds.
	Terms []index.Term
	// without are how an index finds the objects that don't match: all others do.
	without []index.Term
	// label is the key of a label that decides by its presence, or with lacks by its absence.
	label string
	lacks bool
	// Holds checks one object.
	Holds func(*index.Record) bool
}

// Plan is how a query is answered.
type Plan struct {
	// Namespace restricts everything to one, base is its term, or the one of all objects.
	Namespace  string
	base       index.Term
	Conditions []Condition
	// named are the only names that can match, nil for any.
	named map[string]struct{}
	// texts are in the name, the alias or the searched field of every match, and words in its name, or in a label or an
	// annotation: where an index of texts can be asked.
	texts, words []string
	// Never says that nothing can match.
	Never bool
	Order Order
	// Fault returns why the results of Holds since the last call of Fault can't be used, or nil. It is nil where Holds can't
	// fail. A caller of Holds calls Fault once it has tested all objects.
	Fault func() error
}

// Failed calls Fault, where there is one.
func (p *Plan) Failed() error {
	if p.Fault == nil {
		return nil
	}
	return p.Fault()
}
