package query

import (
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
)

// seeds are queries with every parameter, right and wrong.
var seeds = []string{
	"limit=10&page=2&sortBy=.a.b,name&ascending=true",
	"labelSelector=a in (b,c)|!d&label=x!=y&annotation=k=*",
	"fieldSelector=a.b[0]['c']=~x,d!=e&names=a,b&name=x",
	"limit=%00",
	"fieldSelector=['",
	"sortBy=.['",
	"q=two words&cel=object.a==1&fields=.a.b,c&facets=.status.phase&resourceVersion=12&managedFields=true&limit=100",
	"ownerReference=x&ownerKind=Job&uid=u&namespace=n",
	"nameAndAlias=x&name=y",
	"sortBy=,&limit=-1",
	"resourceVersion=0&limit=0",
	"labelSelector=n>3,m<-1",
	"a=1&a=2&status=Running|Failed",
}

func FuzzParse(f *testing.F) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		v, err := url.ParseQuery(raw)
		if err != nil {
			return
		}
		q, err := Parse(v)
		if err != nil {
			if !apierrors.IsBadRequest(err) {
				t.Fatalf("%q: %v", raw, err)
			}
			return
		}
		for _, total := range []int{0, 1, 1000} {
			if start, n := q.Window(total); start < 0 || n < 0 || start+n > total {
				t.Fatalf("%q: window %d+%d of %d", raw, start, n, total)
			}
		}
		for i := range q.Fields {
			q.Fields[i].Match("x")
		}
		for _, reqs := range append(q.Selectors, q.Labels, q.Annotations) {
			for i := range reqs {
				reqs[i].Match("1", true)
			}
		}
	})
}

func FuzzPathReadsWhatItWrites(f *testing.F) {
	for _, s := range []string{".a.b", "a['x.y'][0]", `["q"]`, "$", "{.a}", `a['\'']`, `0['']`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParsePath(s)
		if err != nil {
			return
		}
		again, err := ParsePath(p.String())
		if err != nil || !slices.Equal(p, again) {
			t.Fatalf("%q -> %q -> %q, %v", s, p, again, err)
		}
	})
}

// Two queries have the same key if and only if they match the same objects in the same order.
func FuzzKeyTellsQueriesApart(f *testing.F) {
	for i, s := range seeds {
		f.Add(s, seeds[(i+1)%len(seeds)])
		f.Add(s, s+"&page=7&_=1")
	}
	extra := []string{"status", "nodeName"}
	f.Fuzz(func(t *testing.T, one, other string) {
		var queries [2]*Query
		for i, raw := range []string{one, other} {
			v, err := url.ParseQuery(raw)
			if err != nil {
				return
			}
			if queries[i], err = Parse(v); err != nil {
				return
			}
		}
		a, b := queries[0], queries[1]
		same := true
		for _, name := range slices.Concat([]string{paramSortBy}, filterParams[:], extra) {
			x, inX := a.Param(name)
			y, inY := b.Param(name)
			same = same && x == y && inX == inY
		}
		if equal := string(a.AppendKey(nil, extra)) == string(b.AppendKey(nil, extra)); equal != same {
			t.Fatalf("%q and %q: equal keys %v, the same parameters %v", one, other, equal, same)
		}
		if !same {
			return
		}
		for _, q := range []*Query{a, b} { // the rest says what the page is, not what matches
			q.Limit, q.Page, q.Ascending, q.Project, q.Facets, q.Version, q.ManagedFields, q.params = 0, 0, false, nil, nil, "", false, nil
		}
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("%q and %q have one key: %+v, %+v", one, other, a, b)
		}
	})
}

// A label selector means what it means to Kubernetes.
func FuzzSelector(f *testing.F) {
	for _, s := range []string{"a", "!a", "a=1", "a!=1", "a in (1,2),b notin (x)", "a>1", "a<9", "", ",", "a=b=c", "a in ()", "x/y=z"} {
		f.Add(s, "a", "1")
	}
	f.Fuzz(func(t *testing.T, text, key, value string) {
		reqs, err := parseSelector(text)
		want, wantErr := labels.Parse(text)
		if wantErr != nil {
			if err == nil {
				t.Fatalf("%q is taken", text)
			}
			return
		}
		if err != nil {
			return
		}
		for _, set := range []labels.Set{{}, {key: value}, {"a": value}, {key: "1", "a": "2"}} {
			got := true
			for i := range reqs {
				v, ok := set[reqs[i].Key]
				got = got && reqs[i].Match(v, ok)
			}
			if got != want.Matches(set) {
				t.Fatalf("%q of %v: %v", text, set, got)
			}
		}
	})
}

// The filters label and annotation: for any text, a requirement has a key and restricts something.
func FuzzPairs(f *testing.F) {
	for _, s := range []string{"k", "!k", "k=v", "k==v", "k!=v", "k=*", "k=a=b", "k=a, b {", "=", "!", "", "k in (a,b)"} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, text string, needKey bool) {
		reqs, err := parsePairs(text, needKey)
		if err != nil {
			return
		}
		for i := range reqs {
			if reqs[i].Key == "" || reqs[i].Op == NotIn && needKey {
				t.Fatalf("%q: %+v", text, reqs[i])
			}
			if !slices.IsSorted(reqs[i].Values) {
				t.Fatalf("%q: values are not sorted", text)
			}
			reqs[i].Match("x", true)
		}
	})
}

// A field selector that is written from its parsed form means the same.
func FuzzFields(f *testing.F) {
	for _, s := range []string{"a=b", "a.b!=c,d=~e", "$.type=x", "{.a}==b", "a['x,y']=z", `a=b\\,c`, "a=[x,b=c", "['a]b']=c", "a", "=", ",,"} {
		f.Add(s)
	}
	escape := strings.NewReplacer(`\`, `\\`, ",", `\,`, "=", `\=`)
	f.Fuzz(func(t *testing.T, text string) {
		fields, err := parseFields(text)
		if err != nil {
			return
		}
		var again []string
		for i := range fields {
			op := map[FieldOp]string{Is: "==", IsNot: "!=", IsFold: "=~"}[fields[i].Op]
			value := escape.Replace(fields[i].Value)
			if strings.HasPrefix(value, "~") && fields[i].Op == Is {
				value = `\` + value
			}
			again = append(again, fields[i].Path.String()+op+value)
		}
		if len(again) == 0 {
			return
		}
		read, err := parseFields(strings.Join(again, ","))
		if err != nil || !reflect.DeepEqual(read, fields) {
			t.Fatalf("%q -> %q: %+v, then %+v, %v", text, again, fields, read, err)
		}
	})
}
