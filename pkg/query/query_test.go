package query

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
)

func parse(t testing.TB, raw string) *Query {
	t.Helper()
	v, err := url.ParseQuery(raw)
	if err != nil {
		t.Fatal(err)
	}
	q, err := Parse(v)
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return q
}

// A filter that Filtered does not know would be left out of plans.
func TestEveryFieldThatIsNoShapeIsAFilter(t *testing.T) {
	shape := []string{"Limit", "Page", "Cursor", "Offset", "Keys", "Every", "Objects", "SortBy", "Ascending", "Project", "Facets", "Version", "Last", "Reduced",
		"ManagedFields", "params"}
	own := []string{"status"}
	if parse(t, "limit=10&page=2&sortBy=name&ascending=true&other=x").Filtered(own) || !parse(t, "status=").Filtered(own) {
		t.Error("a page is a filter, or the parameter of a kind is none")
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Query]()) {
		if slices.Contains(shape, f.Name) {
			continue
		}
		q := &Query{}
		v := reflect.ValueOf(q).Elem().FieldByIndex(f.Index)
		switch v.Kind() {
		case reflect.Slice:
			v.Set(reflect.MakeSlice(f.Type, 1, 1))
		case reflect.Map:
			v.Set(reflect.MakeMap(f.Type))
		case reflect.String:
			v.SetString("x")
		default:
			v.Set(reflect.ValueOf(Exact{Set: true}))
		}
		if !q.Filtered(nil) {
			t.Errorf("%s is set, and the query is not filtered", f.Name)
		}
	}
}

func TestWindow(t *testing.T) {
	const total = 25
	for _, c := range []struct {
		name, raw string
		start, n  int
	}{
		{"AbsentLimitIsEverything", "", 0, 25},
		{"MinusOneIsEverythingWhateverThePage", "limit=-1&page=7", 0, 25},
		{"FirstPage", "limit=10", 0, 10},
		{"LastPageIsShort", "limit=10&page=3", 20, 5},
		{"BehindTheEndIsNothing", "limit=10&page=4", 0, 0},
		{"ExactlyAtTheEndIsNothing", "limit=5&page=6", 25, 0},
		{"ZeroIsNothing", "limit=0", 0, 0},
		{"LessThanMinusOneIsNothing", "limit=-2", 0, 0},
		{"PageZeroIsNothing", "limit=10&page=0", 0, 0},
		{"NegativePageIsNothing", "limit=10&page=-3", 0, 0},
		{"HugeNumbersDoNotOverflow", fmt.Sprintf("limit=%d&page=%d", math.MaxInt, math.MaxInt), 0, 0},
		{"EmptyValuesAreAbsent", "limit=&page=&ascending=&sortBy=", 0, 25},
		{"TheFirstValueCounts", "limit=3&limit=7", 0, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			if start, n := parse(t, c.raw).Window(total); n != c.n || n > 0 && start != c.start {
				t.Errorf("got %d from %d", n, start)
			}
		})
	}
}

func TestBadInputIsA400ThatNamesTheParameter(t *testing.T) {
	for _, c := range []struct{ param, raw string }{
		{"limit", "limit=ten"}, {"limit", "limit=99999999999999999999"}, {"page", "page=1.5"}, {"ascending", "ascending=up"},
		{"labelSelector", "labelSelector=a%20in%20("}, {"labelSelector", "labelSelector=a%7C%3D"}, {"fieldSelector", "fieldSelector=nothing"},
		{"fieldSelector", "fieldSelector=a..b%3D1"}, {"fieldSelector", "fieldSelector=%3D1"}, {"sortBy", "sortBy=.a..b"},
		{"sortBy", "sortBy=" + strings.Repeat("a,", 20)}, {"label", "label=%3Dx"}, {"annotation", "annotation=!"},
		{"q", "q=" + strings.Repeat("a%20", 20)}, {"fieldSelector", "fieldSelector=" + strings.Repeat("a!%3D1,", 17)},
		{"limit", "managedFields=true"}, {"limit", "managedFields=true&limit=101"}, {"managedFields", "managedFields=perhaps"},
		{"resourceVersion", "resourceVersion=new"},
		{"fields", "fields=a..b"}, {"facets", "facets=" + strings.Repeat("a,", 9)},
		{"", "x=" + strings.Repeat("y", maxBytes)},
	} {
		v, _ := url.ParseQuery(c.raw)
		_, err := Parse(v)
		var s *apierrors.StatusError
		if !errors.As(err, &s) || s.ErrStatus.Code != 400 || len(s.ErrStatus.Details.Causes) != 1 ||
			s.ErrStatus.Details.Causes[0].Field != c.param || s.ErrStatus.Details.Causes[0].Message == "" {
			t.Errorf("%.60s: %v", c.raw, err)
		}
		if err != nil && len(err.Error()) > 600 {
			t.Errorf("%.60s: the error repeats %d bytes", c.raw, len(err.Error()))
		}
	}
}

func TestSelectorsMatchLikeKubernetes(t *testing.T) {
	sets := []map[string]string{{}, {"a": "1"}, {"a": "2", "b": "x"}, {"b": ""}, {"n": "12"}, {"n": "x"}}
	for _, text := range []string{"a", "!a", "a=1", "a==1", "a!=1", "a in (1,3)", "a notin (1)", "a,b", "b=", "n>11", "n<11", "a=1,b!=x", ""} {
		want, err := labels.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		reqs, err := parseSelector(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, set := range sets {
			got := true
			for i := range reqs {
				v, ok := set[reqs[i].Key]
				got = got && reqs[i].Match(v, ok)
			}
			if got != want.Matches(labels.Set(set)) {
				t.Errorf("%q of %v: %v", text, set, got)
			}
		}
	}
}

// The node page of the console sends `x|y`.
func TestSelectorAlternatives(t *testing.T) {
	q := parse(t, "labelSelector=node-role.kubernetes.io/master%7Cnode-role.kubernetes.io/control-plane")
	if len(q.Selectors) != 2 || q.Selectors[1][0].Key != "node-role.kubernetes.io/control-plane" {
		t.Errorf("got %+v", q.Selectors)
	}
}

func TestPairs(t *testing.T) {
	for _, c := range []struct {
		text    string
		needKey bool
		value   string
		found   bool
		want    bool
	}{
		{"k", true, "", true, true}, {"k", true, "", false, false}, {"!k", true, "", false, true},
		{"k=a=b", true, "a=b", true, true}, {"k=a, b {", true, "a, b {", true, true}, {"k=*", true, "any", true, true},
		{"k=*", true, "", false, false}, {"k!=v", true, "w", true, true}, {"k!=v", true, "", false, false},
		{"k!=v", false, "", false, true}, {"k!=v w?", true, "x", true, true}, {"k!=v w?", false, "", false, true},
		{"k==v w", true, "v w", true, true}, {"a b", true, "", true, true},
	} {
		reqs, err := parsePairs(c.text, c.needKey)
		if err != nil || len(reqs) != 1 {
			t.Fatalf("%q: %v %v", c.text, reqs, err)
		}
		if got := reqs[0].Match(c.value, c.found); got != c.want {
			t.Errorf("%q of %q, %v: %v", c.text, c.value, c.found, got)
		}
	}
}

func TestFieldSelectors(t *testing.T) {
	for _, c := range []struct {
		text string
		path Path
		op   FieldOp
		val  string
	}{
		{"spec.email=bob@example.com", Path{"spec", "email"}, Is, "bob@example.com"},
		{".status.phase==Running", Path{"status", "phase"}, Is, "Running"},
		{"status.phase!=Running", Path{"status", "phase"}, IsNot, "Running"},
		{"status.phase=~running", Path{"status", "phase"}, IsFold, "running"},
		{"status.phase==~running", Path{"status", "phase"}, IsFold, "running"},
		{"$.type=kubernetes.io/dockerconfigjson", Path{"type"}, Is, "kubernetes.io/dockerconfigjson"},
		{"{.type}=x", Path{"type"}, Is, "x"},
		{"metadata.labels['a.b/c,d=e']=x", Path{"metadata", "labels", "a.b/c,d=e"}, Is, "x"},
		{`metadata.labels["a'b"]=x`, Path{"metadata", "labels", "a'b"}, Is, "x"},
		{"status.conditions[0].type=Ready", Path{"status", "conditions", "0", "type"}, Is, "Ready"},
		{`a=x\,y\=z`, Path{"a"}, Is, "x,y=z"},
		{"a=[x", Path{"a"}, Is, "[x"},
		{"a=", Path{"a"}, Is, ""},
		{"a=b=c", Path{"a"}, Is, "b=c"},
	} {
		fields, err := parseFields(c.text)
		if err != nil || len(fields) != 1 || !slices.Equal(fields[0].Path, c.path) || fields[0].Op != c.op || fields[0].Value != c.val {
			t.Errorf("%s: %+v, %v", c.text, fields, err)
		}
	}
	if q := parse(t, "fieldSelector=a%3D1,b%3D%5Bx,c!%3D3"); len(q.Fields) != 3 {
		t.Errorf("a comma is AND: %+v", q.Fields)
	}
}

func TestSortKeys(t *testing.T) {
	if q := parse(t, `sortBy=%7B"jobs":"updateTime","pods":"startTime"%7D`); len(q.SortBy) > 0 {
		t.Errorf("an object that a page encoded: %+v", q.SortBy)
	}
	if q := parse(t, "sortBy=%7B.spec.a%7D"); len(q.SortBy) != 1 {
		t.Errorf("what is no object is a key, of which the kind says that there is none: %+v", q.SortBy)
	}
	if q := parse(t, "sortBy=.metadata.labels['a,b'],name"); len(q.SortBy) != 2 || q.SortBy[0].Path[2] != "a,b" {
		t.Errorf("got %+v", q.SortBy)
	}
	q := parse(t, "sortBy=.status.phase,name&ascending=true")
	if len(q.SortBy) != 2 || !q.SortBy[0].Path.Is("status", "phase") || q.SortBy[1].Name != "name" || !q.Ascending {
		t.Errorf("got %+v", q)
	}
}

func TestKeyIsEqualForPagesOfOneList(t *testing.T) {
	extra := []string{"status"}
	key := func(raw string) string { return string(parse(t, raw).AppendKey(nil, extra)) }
	same := key("name=a&labelSelector=x%3Dy&sortBy=name&status=Running")
	if key("status=Running&sortBy=name&labelSelector=x%3Dy&name=a&page=3&limit=10&ascending=true&_=17") != same {
		t.Error("pages of one list have several keys")
	}
	for _, other := range []string{
		"name=b&labelSelector=x%3Dy&sortBy=name&status=Running", "name=a&labelSelector=x%3Dy&status=Running",
		"name=a&labelSelector=x%3Dy&sortBy=name", "name=a%22names%3D%22&sortBy=name&status=Running", "names=a&labelSelector=x%3Dy&sortBy=name&status=Running",
	} {
		if key(other) == same {
			t.Errorf("%s has the key of another list", other)
		}
	}
}

func TestWordsAreInLowerCase(t *testing.T) {
	if q := parse(t, "q=%20Web%09SHOP%20"); !slices.Equal(q.Words, []string{"web", "shop"}) {
		t.Errorf("got %q", q.Words)
	}
	if q := parse(t, "q=%20"); len(q.Words) > 0 {
		t.Errorf("got %q", q.Words)
	}
}

func TestManagedFieldsAreForShortPages(t *testing.T) {
	if q := parse(t, "managedFields=true&limit=100"); !q.ManagedFields || q.Limit != 100 {
		t.Errorf("got %+v", q)
	}
	if q := parse(t, "managedFields=false"); q.ManagedFields {
		t.Error("asked for")
	}
}

func TestParsingNothingAllocatesOneQuery(t *testing.T) {
	v := url.Values{}
	if n := testing.AllocsPerRun(100, func() { _, _ = Parse(v) }); n > 1 {
		t.Errorf("%v allocations", n)
	}
}
