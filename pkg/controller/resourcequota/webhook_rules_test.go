package resourcequota

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/store"
)

func limitsOf(quotas ...string) *Limits {
	l := NewLimits()
	for i, q := range quotas {
		l.Set(&store.Object{Name: fmt.Sprintf("q%d", i), Raw: []byte(`{"metadata":{"name":"x"},"spec":` + q + `}`)})
	}
	return l
}

func (l *Limits) text() string {
	rules, where := l.Asks()
	var out []string
	for _, r := range rules {
		out = append(out, fmt.Sprintf("%s %s/%s", r.Operations[0], r.APIGroups[0], r.Resources[0]))
	}
	for _, e := range where.MatchExpressions {
		out = append(out, fmt.Sprintf("%s %s %s", e.Key, e.Operator, strings.Join(e.Values, ",")))
	}
	return strings.Join(out, "; ")
}

func TestKubeAPIServerAsksAboutWhatIsLimitedWhereItIs(t *testing.T) {
	const system = "; kubernetes.io/metadata.name NotIn kube-system,kubesphere-system"
	in := func(workspace, hard string) string {
		return `{"selector":{"kubesphere.io/workspace":"` + workspace + `"},"quota":{"hard":{` + hard + `}}}`
	}
	var many strings.Builder
	for i := range maxKinds {
		fmt.Fprintf(&many, `"count/k%d.example.com":"1",`, i)
	}
	for name, c := range map[string]struct {
		quotas []string
		want   string
	}{
		"NothingWithoutAQuota": {nil, ""},
		"NothingWithoutALimit": {[]string{in("a", "")}, ""},
		"PodsAndTheirResize":   {[]string{in("a", `"limits.cpu":"1"`)}, "CREATE /pods; UPDATE /pods/resize; kubesphere.io/workspace In a" + system},
		"ClaimsAndTheirUpdates": {[]string{in("a", `"requests.storage":"1"`)},
			"CREATE /persistentvolumeclaims; UPDATE /persistentvolumeclaims; kubesphere.io/workspace In a" + system},
		"ServicesAndTheirs": {[]string{in("a", `"services.nodeports":"1"`)}, "CREATE /services; UPDATE /services; kubesphere.io/workspace In a" + system},
		"CountsOfAnyKind": {[]string{in("a", `"count/deployments.apps":"1","secrets":"2"`)},
			"CREATE /secrets; CREATE apps/deployments; kubesphere.io/workspace In a" + system},
		"TogetherOfSeveral": {[]string{in("b", `"secrets":"1"`), in("a", `"secrets":"1"`)}, "CREATE /secrets; kubesphere.io/workspace In a,b" + system},
		"AnywhereByOtherLabels": {[]string{in("b", `"secrets":"1"`), `{"selector":{"x":"y"},"quota":{"hard":{"secrets":"1"}}}`},
			"CREATE /secrets; kubesphere.io/workspace Exists " + system},
		"NoNameThatNoKindHas": {[]string{in("a", `"count/*":"1","count/a/b":"1","count/.x":"1","count/a.*":"1","secrets":"1"`)},
			"CREATE /secrets; kubesphere.io/workspace In a" + system},
		"NoLabelThatNoneHas":        {[]string{in("-", `"secrets":"1"`)}, ""},
		"AllKindsWhereTooMany":      {[]string{in("a", many.String()+`"pods":"1"`)}, "CREATE */*; UPDATE /pods/resize; kubesphere.io/workspace In a" + system},
		"OneThatCanNotBeReadIsNone": {[]string{`{"quota":7}`}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := limitsOf(c.quotas...).text(); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
		})
	}
}

func TestTooManyWorkspacesAreAll(t *testing.T) {
	var quotas []string
	for i := range maxWorkspaces + 1 {
		quotas = append(quotas, fmt.Sprintf(`{"selector":{"kubesphere.io/workspace":"w%d"},"quota":{"hard":{"pods":"1"}}}`, i))
	}
	if got := limitsOf(quotas...).text(); !strings.Contains(got, "workspace Exists") {
		t.Error(got)
	}
}

func TestAQuotaOfAWorkspaceHasNoOtherAskedAbout(t *testing.T) { // S7
	for selector, want := range map[string]string{
		`{}`: "In w", `{"tier":"web"}`: "In w", `{"kubesphere.io/workspace":"w"}`: "In w", `{"kubesphere.io/workspace":"other"}`: "",
	} {
		l := NewLimits()
		l.Set(
			&store.Object{
				Name: "q",
				Raw:  []byte(`{"metadata":{"name":"q","labels":{"kubesphere.io/workspace":"w"}},"spec":{"selector":` + selector + `,"quota":{"hard":{"pods":"1"}}}}`),
			},
		)
		if got := l.text(); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q", selector, got)
		}
	}
}

func TestWhatChangesNoLimitIsNoChange(t *testing.T) {
	const spec = `{"selector":{"kubesphere.io/workspace":"a"},"quota":{"hard":{"pods":"%d"}}}`
	l := NewLimits()
	set := func(spec string) {
		l.Set(&store.Object{Name: "q", Raw: []byte(`{"metadata":{"name":"q"},"spec":` + spec + `}`)})
	}
	changed := func() bool {
		select {
		case <-l.Changed():
			return true
		default:
			return false
		}
	}
	var got []bool
	for _, do := range []func(){
		func() { set(fmt.Sprintf(spec, 1)) }, func() { set(fmt.Sprintf(spec, 2)) }, func() { set(strings.Replace(fmt.Sprintf(spec, 1), "pods", "services", 1)) },
		func() { l.Delete("", "other") }, func() { l.Delete("", "q") }, func() { l.Delete("", "q") },
	} {
		do()
		got = append(got, changed())
	}
	if want := []bool{true, false, true, false, true, false}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if s := l.text(); s != "" {
		t.Error(s)
	}
}
