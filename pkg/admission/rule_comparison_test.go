package admission

import (
	"testing"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/store"
)

func feed(k *Cache, resource, namespace, name, raw string) {
	for gvr, sink := range k.Sinks() {
		if gvr.Resource == resource {
			sink.Set(&store.Object{Namespace: namespace, Name: name, Raw: []byte(raw)})
		}
	}
}

func TestNoRuleIsTakenForAnother(t *testing.T) { // S62, S63
	_, g := newWorld(t)
	x := `{"verbs":["get"],"apiGroups":[""],"resources":["a"],"resourceNames":["junk *],APIGroups:[*],Resources:[*],ResourceNames:[],NonResourceURLs:["]}`
	y := `{"verbs":["get],APIGroups:[],Resources:[a],ResourceNames:[junk","*"],"apiGroups":["*"],"resources":["*"],"nonResourceURLs":["],NonResourceURLs:["]}`
	in := func(rule string) string { return `{"rules":[` + rule + `]}` }
	spec := func(rule string) string { return `{"spec":{"rules":[` + rule + `]}}` }
	role := func(rule string) string {
		return `{"role":{"kind":"Role","metadata":{"name":"r"},"rules":[` + rule + `]}}`
	}
	all(t, g, map[string]write{
		"OneForTheOther":        {resource: "globalroles", name: "x", old: in(x), now: in(y), refused: "no rule can say this"},
		"TheFirst":              {resource: "globalroles", name: "x", now: in(x), refused: "resourceNames has"},
		"ByWhoHoldsEverything":  {by: "root", resource: "globalroles", name: "x", now: in(x), refused: "resourceNames has"},
		"OneThatIsThereMayStay": {resource: "globalroles", name: "x", old: in(x), now: `{"metadata":{"labels":{"a":"b"}},` + in(x)[1:]},
		"InAWorkspace": {
			resource: "workspaceroles",
			name:     "x",
			now:      `{"metadata":{"labels":{"kubesphere.io/workspace":"w"}},` + in(x)[1:],
			refused:  "no rule",
		},
		"InANamespace":           {resource: "roles", namespace: "n", name: "x", now: in(x), refused: "no rule"},
		"InATemplate":            {resource: "roletemplates", name: "x", now: spec(x), refused: "no rule"},
		"OneForTheOtherTemplate": {resource: "roletemplates", name: "x", old: spec(x), now: spec(y), refused: "no rule"},
		"InAPattern":             {resource: "builtinroles", name: "x", now: role(x), refused: "no rule"},
		"OneForTheOtherPattern":  {resource: "builtinroles", name: "x", old: role(x), now: role(y), refused: "no rule"},
	})
	// Without the rule about words, the values alone show that the second one is new.
	decode := func(text string) (o object) {
		if err := decodeInto([]byte(text), &o); err != nil {
			t.Fatal(err)
		}
		return o
	}
	if got := added(decode(in(y)).Rules, decode(in(x)).Rules); len(got) != 1 {
		t.Errorf("added are %v", got)
	}
	if got := added(decode(in(x)).Rules, decode(in(x)).Rules); len(got) != 0 {
		t.Errorf("added are %v", got)
	}
	// What such rules would give is not given by existing templates and patterns.
	feed(g.Known, "roletemplates", "", "tx", `{"metadata":{"labels":{"iam.kubesphere.io/scope":"global"}},"spec":{"rules":[`+y+`,`+text(t, rules("a")[0])+`]}}`)
	if got, err := g.Known.rulesOf(request.Global, &iamv1beta1.AggregationRoleTemplates{TemplateNames: []string{"tx"}}); err != nil || len(got) > 1 {
		t.Errorf("%v, %v", got, err)
	}
}
