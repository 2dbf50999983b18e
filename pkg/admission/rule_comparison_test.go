package admission

import (
	"strings"
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

// S6: nobody takes the names of the roles that ks-controller-manager makes in a workspace, also before there is that workspace: its manager
// would have no right in it.
func TestTheRolesOfAWorkspaceHaveTheirNames(t *testing.T) {
	w, g := newWorld(t)
	const inW = `{"metadata":{"labels":{"kubesphere.io/workspace":"w"}}}`
	all(t, g, map[string]write{"AnyName": {resource: "workspaceroles", name: "finance-admin", now: inW}})
	for builtin, role := range map[string]string{
		"workspace-admin": `{"kind":"WorkspaceRole","metadata":{"name":"admin"}}`,
		"provisioner":     `{"kind":"WorkspaceRole","metadata":{"name":"provisioner"}}`,
		"self":            `{"kind":"WorkspaceRole","metadata":{"name":"self-provisioner"}}`,
		"project":         `{"kind":"Role","metadata":{"name":"operator"}}`,
	} {
		feed(g.Known, "builtinroles", "", builtin, `{"role":`+role+`}`)
	}
	w.verbs["ann@on the platform escalate workspaceroles/restored-admin"] = true
	const taken = `a workspace "finance" has a role of this name`
	all(t, g, map[string]write{
		"AnotherWorkspaces":       {resource: "workspaceroles", name: "finance-admin", now: inW, refused: taken},
		"AnotherOfThem":           {resource: "workspaceroles", name: "finance-provisioner", now: inW, refused: taken},
		"ANameWithADash":          {resource: "workspaceroles", name: "w-b-admin", now: inW, refused: `a workspace "w-b"`},
		"OfNoWorkspace":           {resource: "workspaceroles", name: "finance-admin", now: `{}`, refused: taken},
		"ItsOwn":                  {resource: "workspaceroles", name: "w-admin", now: inW},
		"ItsOwnThatEndsAsAnother": {resource: "workspaceroles", name: "w-self-provisioner", now: inW},
		"AFreeName":               {resource: "workspaceroles", name: "w-finance", now: inW},
		"APatternOfNamespaces":    {resource: "workspaceroles", name: "finance-operator", now: inW},
		"ThePatternAlone":         {resource: "workspaceroles", name: "-admin", now: inW},
		"AnotherKind":             {resource: "globalroles", name: "finance-admin", now: `{}`},
		"OneThatIsThere":          {resource: "workspaceroles", name: "finance-admin", old: inW, now: inW},
		"ByWhoMayEscalate":        {resource: "workspaceroles", name: "restored-admin", now: inW},
		"ByWhoHoldsEverything":    {by: "root", resource: "workspaceroles", name: "finance-admin", now: inW},
		"InFinance":               {by: "root", resource: "workspaceroles", name: "finance-admin", now: strings.Replace(inW, `"w"`, `"finance"`, 1)},
	})
}
