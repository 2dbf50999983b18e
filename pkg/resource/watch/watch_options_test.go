package watch

import (
	"net/url"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/redaction"
)

func TestVersionsThatAreNoNumbersAreLeftAsTheyAre(t *testing.T) {
	for _, c := range []struct {
		version string
		last    bool
		want    string
	}{{"10", true, "10"}, {"10", false, "9"}, {"0", false, "0"}, {"x", false, "x"}, {"", true, ""}} {
		if got := seenVersion(c.version, c.last); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
	const object = `{"kind":"X","metadata":{"labels":{"resourceVersion":"1"},"resourceVersion":"1"}}`
	if got := atVersion(textOf(t, object), "22").String(); got != `{"kind":"X","metadata":{"labels":{"resourceVersion":"1"},"resourceVersion":"22"}}` {
		t.Error(got)
	}
	for _, version := range []string{"x", "", `1","a":"`} {
		if got := atVersion(textOf(t, object), version).String(); got != object {
			t.Errorf("%q: %s", version, got)
		}
	}
	if got := atVersion(textOf(t, `{"metadata":{}}`), "1").String(); got != `{"metadata":{}}` {
		t.Error(got)
	}
}

func TestLifetimes(t *testing.T) {
	for range 100 {
		d, err := lifetimeOf(parsed(t, ""))
		if err != nil || d < minLifetime || d >= 2*minLifetime {
			t.Fatalf("%v %v", d, err)
		}
	}
	if d, err := lifetimeOf(parsed(t, "timeoutSeconds=7")); err != nil || d != 7*time.Second {
		t.Errorf("%v %v", d, err)
	}
	if _, err := lifetimeOf(parsed(t, "timeoutSeconds=99999999999999")); err == nil {
		t.Error("no error")
	}
}

func TestObjectsWithoutAUIDAreToldApartByTheirNames(t *testing.T) {
	for object, want := range map[string]string{
		`{"metadata":{"uid":"u","name":"n"}}`:                `"u"`,
		`{"metadata":{"namespace":"a","name":"n","uid":""}}`: `"a/n"`,
		`{"metadata":{"name":"a \"quoted\" one"}}`:           `"/a \"quoted\" one"`,
		`{}`: `"/"`,
	} {
		if got := keyOf(object); got != want {
			t.Errorf("%s: %s", object, got)
		}
	}
}

// textOf is the text of an object of a kind without hidden fields.
func textOf(t testing.TB, text string) redaction.Shown {
	t.Helper()
	shown, err := redaction.Received(text).Shown(schema.GroupResource{Resource: "pods"})
	if err != nil {
		t.Fatal(err)
	}
	return shown
}

func parsed(t testing.TB, raw string) *query.Query {
	t.Helper()
	v, err := url.ParseQuery(raw)
	if err != nil {
		t.Fatal(err)
	}
	q, err := query.Parse(v)
	if err != nil {
		t.Fatal(err)
	}
	return q
}
