package e2e

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// twins are two objects of a kind that differ in their names and in what is hidden of them, and in nothing else. What is hidden is in the other order than
// the names.
type twins struct {
	api, plural string
	path        []string // of the hidden field
	values      []string // of the first and of the second
}

func plantTwins(t *testing.T, name string) []twins {
	t.Helper()
	a, secret := admin(t), "Twin"+strings.ToLower(rand.Text())
	var out []twins
	for _, k := range []struct {
		api, kind, plural string
		path              []string
		spec              obj
	}{
		{"cluster.kubesphere.io/v1alpha1", "Cluster", "clusters", []string{"spec", "connection", "token"}, obj{"connection": obj{"type": "direct"}}},
		{"iam.kubesphere.io/v1beta1", "User", "users", []string{"spec", "password"}, obj{"email": ""}},
		{"kubesphere.io/v1alpha1", "Repository", "repositories", []string{"spec", "basicAuth", "password"}, obj{"url": "https://charts.example.com",
			"basicAuth": obj{"username": "x"}}},
		{"application.kubesphere.io/v2", "Repo", "repos", []string{"spec", "credential", "password"}, obj{"url": "https://charts.example.com",
			"credential": obj{"username": "x"}}},
	} {
		pair := twins{k.api, k.plural, k.path, []string{"z1" + secret, "a1" + secret}}
		for i, value := range pair.values {
			one := fmt.Sprintf("%s-%d", name, i)
			if k.kind == "User" {
				k.spec["email"] = one + "@example.com"
			}
			within := k.spec
			for _, step := range k.path[1 : len(k.path)-1] {
				within = within[step].(obj)
			}
			within[k.path[len(k.path)-1]] = value
			applied(t, obj{"apiVersion": k.api, "kind": k.kind, "metadata": obj{"name": one, "labels": obj{"twins": name}}, "spec": k.spec})
			path := "/apis/" + k.api + "/" + k.plural + "/" + one
			t.Cleanup(func() { _, _ = a.do(context.Background(), http.MethodDelete, path, nil) })
			if k.kind == "User" { // it is the hash that is kept
				eventually(t, "the password is a hash", func(ctx context.Context) error {
					if !strings.Contains(stored(t, path), `"password":"$2`) {
						return fmt.Errorf("%s has none", path)
					}
					return nil
				})
			}
		}
		out = append(out, pair)
	}
	return out
}

// S78: what is hidden is no oracle either. The number and the order of answers, their codes and counts are the same for a right guess and for a wrong one,
// by every parameter that
// filters, sorts, counts or selects, with and without the object as kube-apiserver has it.
func TestNoParameterTellsOfWhatIsHidden(t *testing.T) {
	proves(t, "S3", "S78")
	a, name := admin(t), unique("twins")
	credentials() // has the definitions of the kinds that extensions bring be made
	for _, pair := range plantTwins(t, name) {
		marker := "labelSelector=twins%3D" + name
		for _, path := range []string{"/kapis/" + pair.api + "/" + pair.plural, kapis + "/" + pair.plural} {
			eventually(t, "the twins are listed", a.shows(path+"?"+marker, []string{"/" + name + "-0", "/" + name + "-1"}))
			for _, more := range []string{"", "&managedFields=true&limit=10"} {
				pair.guess(t, a, path+"?"+marker+more)
				pair.sort(t, a, path+"?"+marker+more)
			}
		}
		for _, value := range []string{pair.values[0], "wrong"} { // kube-apiserver selects by no such field
			r, err := a.do(t.Context(), http.MethodGet, "/apis/"+pair.api+"/"+pair.plural+"?"+url.Values{"fieldSelector": {strings.Join(pair.path,
				".") + "=" + value}}.Encode(), nil)
			if err != nil || r.code != http.StatusBadRequest {
				t.Errorf("%s by %q: %d %s %v", pair.plural, value, r.code, clip(r.body), err)
			}
		}
	}
}

// guess compares the answers to a right guess and to a wrong one.
func (p twins) guess(t *testing.T, a caller, path string) {
	t.Helper()
	field, annotation := strings.Join(p.path, "."), "kubectl.kubernetes.io/last-applied-configuration"
	for _, q := range [][2]string{
		{"fieldSelector", field + "=%s"}, {"fieldSelector", field + "!=%s"}, {"fieldSelector", field + "=~%s"}, {"cel", "object." + field + " == '%s'"}, {"cel",
			"object." + field + ".startsWith('%s')"},
		{"cel", "string(object." + field + ") < '%s'"}, {"cel", "object.metadata.annotations['" + annotation + "'].contains('%s')"}, {"q", "%s"}, {"name", "%s"},
		{"nameAndAlias", "%s"}, {"annotation", annotation + "=%s"},
		{"annotation", annotation + "!=%s"}, {"fieldSelector", "metadata.annotations['" + annotation + "']=~%s"}, {"label", "%s"}, {"names", "%s"}, {"uid", "%s"},
		{"email", "%s"},
	} {
		var answers []string
		for _, guess := range []string{p.values[0], "w" + strings.Repeat("x", len(p.values[0])-1)} {
			answers = append(answers, outcome(t, a, path+"&"+url.Values{q[0]: {fmt.Sprintf(q[1], guess)}}.Encode()))
		}
		if answers[0] != answers[1] {
			t.Errorf("%s by %s=%s: %s for the right guess, %s for a wrong one", path, q[0], q[1], answers[0], answers[1])
		}
	}
	for q, want := range map[string]string{"cel=has(object.spec)": "2",
		"cel=object.metadata.name.endsWith(%27-1%27)": "1"} { // where there is something to tell, it is told
		if got := outcome(t, a, path+"&"+q); !strings.HasPrefix(got, "200 [") || fmt.Sprint(len(strings.Fields(got))-1) != want {
			t.Errorf("%s by %s: %s, want %s of them", path, q, got, want)
		}
	}
	for _, cel := range []string{"has(object." + field + ")", "object." + field + ".size() > 0"} {
		if got := outcome(t, a, path+"&"+url.Values{"cel": {cel}}.Encode()); got != "200 []" {
			t.Errorf("%s: an expression sees %s: %s", path, field, got)
		}
	}
}

// sort compares an order and counts by the hidden field with those by a field that is not there.
func (p twins) sort(t *testing.T, a caller, path string) {
	t.Helper()
	for _, field := range [][]string{p.path, p.path[:len(p.path)-1], {"metadata", "annotations['kubectl.kubernetes.io/last-applied-configuration']"}} {
		by := url.QueryEscape("." + strings.Join(field, "."))
		for _, ascending := range []string{"true", "false"} {
			want := outcome(t, a, path+"&ascending="+ascending+"&sortBy=name")
			for _, sort := range []string{by, by + ",name"} {
				if got := outcome(t, a, path+"&ascending="+ascending+"&sortBy="+sort); got != want {
					t.Errorf("%s sorted by %s: %s, by name %s", path, sort, got, want)
				}
			}
		}
		facets := decode[struct{ Facets any }](t, a.must(t, http.StatusOK, http.MethodGet, strings.Replace(path, "&managedFields=true&limit=10", "",
			1)+"&facets="+by, nil).body)
		if text := encode(t, facets.Facets); strings.Contains(text, p.values[0]) || strings.Contains(text, "$2") {
			t.Errorf("%s counts %s", path, text)
		}
	}
}

// outcome is the code of an answer and the names in it.
func outcome(t *testing.T, a caller, path string) string {
	t.Helper()
	r, err := a.do(t.Context(), http.MethodGet, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.code != http.StatusOK {
		return fmt.Sprint(r.code)
	}
	names := decode[list](t, r.body).names()
	if slices.Contains(names, "") {
		t.Errorf("%s: %s", path, clip(r.body))
	}
	return fmt.Sprint(r.code, " ", names)
}
