package merge_test

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"kapis.dev/ks-apiserver/pkg/cluster/merge"
	"kapis.dev/ks-apiserver/pkg/query"
)

// object is one of a cluster's.
type object struct {
	namespace, name, phase, uid string
	priority, version           int
}

func (o *object) json() string {
	return fmt.Sprintf(`{"kind":"Pod","metadata":{"name":%q,"namespace":%q,"uid":%q,"resourceVersion":"%d","annotations":{"kapis.dev/cluster":"liar"}},`+
		`"spec":{"priority":%d},"status":{"phase":%q}}`, o.name, o.namespace, o.uid, o.version, o.priority, o.phase)
}

// value is a sort value of the object, as members write it.
func (o *object) value(key string) string {
	text := func(s string) string { return "\x03" + s + "\x00\x01" }
	switch key {
	case "name":
		return text(o.name)
	case "namespace":
		return text(o.namespace)
	case ".status.phase":
		return text(o.phase)
	}
	return "\x01" + string(binary.BigEndian.AppendUint64(nil, uint64(o.priority)|1<<63)) //nolint:gosec // small
}

// member is a cluster that computes its answers from all of its objects, each time.
type member struct {
	name    string
	objects []object
	columns string
	asked   atomic.Int64
	bytes   atomic.Int64
	// older says that objects never come with their keys.
	older bool
	// answer answers in its place, where it is not nil and returns true.
	answer func(v url.Values, w http.ResponseWriter) bool
}

func keysOf(v url.Values) []string {
	if v.Get("sortBy") == "" {
		return []string{".spec.priority"}
	}
	return strings.Split(v.Get("sortBy"), ",")
}

func (m *member) serve(w http.ResponseWriter, v url.Values, h http.Header) {
	m.asked.Add(1)
	if m.answer != nil && m.answer(v, w) {
		return
	}
	type keyed struct {
		object
		key string
	}
	selector, _ := labels.Parse(v.Get("labelSelector"))
	var all []keyed
	phases := map[string]int{}
	for _, o := range m.objects {
		if selector != nil && !selector.Matches(labels.Set{"phase": o.phase}) ||
			v.Has("names") && !slices.Contains(strings.Split(v.Get("names"), ","), o.name) {
			continue
		}
		k := ""
		for _, name := range keysOf(v) {
			k += o.value(name)
		}
		phases[o.phase]++
		all = append(all, keyed{o, k})
	}
	slices.SortFunc(all, func(a, b keyed) int {
		c := cmp.Or(strings.Compare(a.key, b.key), strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
		if v.Get("ascending") != "true" {
			return -c
		}
		return c
	})
	limit, err := strconv.Atoi(v.Get("limit"))
	if err != nil {
		panic("no limit")
	}
	start, _ := strconv.Atoi(v.Get("offset"))
	if text := v.Get("cursor"); text != "" {
		at, err := query.ParseCursor(text)
		if err != nil {
			panic(err)
		}
		for start < len(all) {
			c := at.Compare(all[start].key, all[start].namespace, all[start].name)
			if v.Get("ascending") != "true" {
				c = -c
			}
			if c < 0 || c == 0 && !at.After {
				break
			}
			start++
		}
	}
	start = min(start, len(all))
	every, err := strconv.Atoi(v.Get("every"))
	if err != nil {
		every = 1
	}
	if every == 0 {
		every = max(1, (len(all)-start+limit-1)/max(limit, 1))
	}
	rows, items := [][]string{}, []string{}
	for i := start; i < len(all) && len(rows) < limit; i += every {
		o := &all[i]
		rows = append(rows, []string{base64.RawStdEncoding.EncodeToString([]byte(o.key)), o.namespace, o.name, o.uid, strconv.Itoa(o.version)})
		items = append(items, o.json())
	}
	out := map[string]any{"totalItems": len(all), "start": start, "metadata": map[string]any{"resourceVersion": "7"}, "rows": rows}
	if v.Get("facets") != "" {
		out["facets"] = map[string]any{".status.phase": phases}
	}
	w.Header().Set("Content-Type", "application/json")
	if v.Get("view") == "keys" {
		if n, _ := strconv.Atoi(v.Get("objects")); n > 0 && !m.older {
			out["items"] = raws(items[:min(n, len(items))])
		}
		raw, _ := json.Marshal(out)
		m.bytes.Add(int64(len(raw)))
		_, _ = w.Write(raw)
		return
	}
	if strings.Contains(h.Get("Accept"), "as=Table") {
		for i := range items {
			items[i] = `{"cells":["x"],"object":` + items[i] + "}"
		}
		columns := m.columns
		if columns == "" {
			columns = `{"name":"Name"}`
		}
		_, _ = fmt.Fprintf(w, `{"kind":"Table","columnDefinitions":[%s],"rows":[%s]}`, columns, strings.Join(items, ","))
		return
	}
	n, _ := fmt.Fprintf(w, `{"totalItems":%d,"items":[%s]}`, len(all), strings.Join(items, ","))
	m.bytes.Add(int64(n))
}

func raws(items []string) (out []json.RawMessage) {
	for _, i := range items {
		out = append(out, json.RawMessage(i))
	}
	return out
}

// source asks the member.
func (m *member) source() merge.Source {
	return merge.Source{Name: m.name, UID: "uid-" + m.name, Ask: func(ctx context.Context, v url.Values, h http.Header) (*http.Response, error) {
		w := httptest.NewRecorder()
		done := make(chan struct{})
		go func() { defer close(done); m.serve(w, v, h) }()
		select {
		case <-done:
			return w.Result(), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
}

// random returns clusters with objects whose properties are drawn from few values, so that orders tie, also between clusters.
func random(r *rand.Rand, clusters, most int) []*member {
	var out []*member
	for c := range clusters {
		m := &member{name: fmt.Sprintf("c%02d", (c*11)%clusters)}
		for i := range r.IntN(most + 1) {
			m.objects = append(m.objects, object{namespace: string(rune('a' + r.IntN(3))), name: fmt.Sprintf("p-%d", i), priority: r.IntN(5),
				phase: []string{"Running", "Pending", "Failed"}[r.IntN(3)], version: i + 1, uid: fmt.Sprintf("%s-%d", m.name, i)})
		}
		out = append(out, m)
	}
	return out
}

func sources(members []*member) []merge.Source {
	var out []merge.Source
	for _, m := range members {
		out = append(out, m.source())
	}
	return out
}

type answer struct {
	TotalItems      int
	Next            string
	ResourceVersion string
	Facets          map[string]map[string]int
	Clusters        struct {
		Asked, Answered int
		Missing         []merge.Missing
		Refused         []string
	}
	Items []struct {
		Metadata struct {
			Name, Namespace, UID string
			Annotations          map[string]string
		}
	}
	header http.Header
	code   int
}

func ask(t *testing.T, all []merge.Source, values url.Values) (*answer, error) {
	t.Helper()
	o, err := merge.ParseOptions(values)
	if err != nil {
		return nil, err
	}
	l := &merge.List{Path: "/kapis/v1/pods", Sources: all, Now: time.Now}
	a, err := l.Answer(t.Context(), o)
	if err != nil {
		return nil, err
	}
	w := respond(t, a)
	out := &answer{header: w.Header(), code: w.Code}
	if err := json.Unmarshal(w.Body.Bytes(), out); err != nil {
		t.Fatalf("%v: %v: %s", values, err, w.Body)
	}
	return out, nil
}

// respond writes an answer as it is sent.
func respond(t *testing.T, a *merge.Answer) *httptest.ResponseRecorder {
	t.Helper()
	w, d := httptest.NewRecorder(), a.Render()
	if d.Begin(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)) {
		t.Error("the client has the answer, which it did not say")
	}
	d.Write(func(s string) { _, _ = w.WriteString(s) })
	if int64(w.Body.Len()) != d.Length() {
		t.Errorf("the answer has %d bytes, and is said to have %d", w.Body.Len(), d.Length())
	}
	return w
}

func must(t *testing.T, all []merge.Source, values url.Values) *answer {
	t.Helper()
	a, err := ask(t, all, values)
	if err != nil {
		t.Fatalf("%v: %v", values, err)
	}
	return a
}

func with(v url.Values, more ...string) url.Values {
	out := url.Values{}
	for k, values := range v {
		out[k] = values
	}
	for i := 0; i < len(more); i += 2 {
		out.Set(more[i], more[i+1])
	}
	return out
}

// ids returns cluster and UID of each item.
func (a *answer) ids() []string {
	out := []string{}
	for _, i := range a.Items {
		out = append(out, i.Metadata.Annotations[merge.AnnotationCluster]+" "+i.Metadata.UID)
	}
	return out
}

// model returns what one list of all objects of all clusters is.
func model(members []*member, v url.Values) []string {
	type one struct {
		object
		cluster string
	}
	selector, _ := labels.Parse(v.Get("labelSelector"))
	var all []one
	for _, m := range members {
		for _, o := range m.objects {
			if selector.Matches(labels.Set{"phase": o.phase}) {
				all = append(all, one{o, m.name})
			}
		}
	}
	slices.SortFunc(all, func(a, b one) int {
		c := 0
		for _, key := range keysOf(v) {
			if key == "cluster" {
				c = cmp.Or(c, strings.Compare(a.cluster, b.cluster))
			} else {
				c = cmp.Or(c, strings.Compare(a.value(key), b.value(key)))
			}
		}
		c = cmp.Or(c, strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name), strings.Compare(a.cluster, b.cluster))
		if v.Get("ascending") != "true" {
			return -c
		}
		return c
	})
	out := []string{}
	for _, o := range all {
		out = append(out, o.cluster+" "+o.uid)
	}
	return out
}

// F34: pages of all clusters partition, at any offset, in any order, with any filter, as one list of all of them would.
func TestPagesPartitionAsOneList(t *testing.T) {
	for seed := range uint64(5) {
		r := rand.New(rand.NewPCG(seed, 1))
		members := random(r, 1+r.IntN(9), []int{3, 40, 150}[r.IntN(3)])
		all := sources(members)
		for _, sortBy := range []string{"", "name", "namespace,name", "cluster,name", ".status.phase,cluster,.spec.priority",
			".status.phase,.spec.priority,cluster"} {
			for _, ascending := range []string{"true", "false"} {
				v := url.Values{"sortBy": {sortBy}, "ascending": {ascending}, "labelSelector": {[]string{"", "phase=Running"}[r.IntN(2)]}}
				want := model(members, v)
				var got []string
				for next := ""; ; {
					a := must(t, all, with(v, "limit", "17", "next", next))
					if got = append(got, a.ids()...); a.TotalItems != len(want) {
						t.Fatalf("%v: %d of %d", v, a.TotalItems, len(want))
					}
					if next = a.Next; next == "" {
						break
					}
				}
				if !slices.Equal(got, want) {
					t.Fatalf("seed %d, %v: pages by next do not partition\n%v\n%v", seed, v, got, want)
				}
				for range 3 {
					limit := 1 + r.IntN(30)
					page := 1 + r.IntN(len(want)/limit+2)
					from := min((page-1)*limit, len(want))
					before := members[0].asked.Load()
					a := must(t, all, with(v, "limit", strconv.Itoa(limit), "page", strconv.Itoa(page)))
					if want := want[from:min(from+limit, len(want))]; !slices.Equal(a.ids(), want) {
						t.Fatalf("seed %d, %v: page %d of %d\n%v\n%v", seed, v, page, limit, a.ids(), want)
					}
					if n := members[0].asked.Load() - before; n > 5 {
						t.Errorf("a cluster was asked %d times", n)
					}
				}
			}
		}
	}
}

// F34: a page far down costs a bounded number of small answers.
func TestADeepPageCostsLittle(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	members := random(r, 5, 0)
	for _, m := range members {
		for i := range 1500 {
			m.objects = append(m.objects, object{namespace: "n", name: fmt.Sprintf("p-%d", i), priority: r.IntN(9), version: 1,
				uid: fmt.Sprintf("%s-%d", m.name, i)})
		}
	}
	all, v := sources(members), url.Values{"limit": {"10"}, "memberTimeout": {"10s"}}
	deep := must(t, all, with(v, "page", "600"))
	if want := model(members, v)[5990:6000]; !slices.Equal(deep.ids(), want) {
		t.Fatalf("%v\n%v", deep.ids(), want)
	}
	for _, m := range members {
		if m.asked.Load() > 5 || m.bytes.Load() > 20_000 {
			t.Errorf("%s was asked %d times, and gave %d bytes", m.name, m.asked.Load(), m.bytes.Load())
		}
	}
}

// F34, F35: totals and facets are those of what answered, and the cluster is a facet.
func TestFacetsAreAddedUp(t *testing.T) {
	members := random(rand.New(rand.NewPCG(3, 1)), 3, 30)
	want := map[string]int{}
	clusters := map[string]int{}
	for _, m := range members[:2] {
		for _, o := range m.objects {
			want[o.phase]++
		}
		clusters[m.name] = len(m.objects)
	}
	members[2].answer = func(_ url.Values, w http.ResponseWriter) bool {
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	}
	a := must(t, sources(members), url.Values{"limit": {"0"}, "facets": {".status.phase,cluster"}})
	if fmt.Sprint(a.Facets[".status.phase"]) != fmt.Sprint(want) || fmt.Sprint(a.Facets["cluster"]) != fmt.Sprint(clusters) || len(a.Items) != 0 {
		t.Errorf("%+v, want %v and %v", a, want, clusters)
	}
	if a.TotalItems != len(members[0].objects)+len(members[1].objects) || len(a.Clusters.Missing) != 1 || a.Clusters.Missing[0].Reason != merge.NotReady {
		t.Errorf("%+v", a)
	}
}

// Pieces of answers.
const (
	failure = `{"kind":"Status","status":"Failure",`
	x       = `"metadata":{"name":"x","namespace":"a","uid":"u"}`
	twice   = `"annotations":{"kapis.dev/cluster":"c","kapis.dev\/cluster":"c00"}`
)

func writes(code int, media, text string) func(url.Values, http.ResponseWriter) bool {
	return func(_ url.Values, w http.ResponseWriter) bool {
		w.Header().Set("Content-Type", media)
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text)
		return true
	}
}

// onlyRows answers for keys, and as it should for objects.
func onlyRows(rows string) func(url.Values, http.ResponseWriter) bool {
	return func(v url.Values, w http.ResponseWriter) bool {
		text := `{"totalItems":9,"start":0,"metadata":{"resourceVersion":"1"},"rows":[` + rows + `]}`
		return v.Get("view") == "keys" && writes(200, "application/json", text)(v, w)
	}
}

// F35, F38: whatever a cluster answers, the answer of the others is as it would be without it, and names it.
func TestWhatOneClusterAnswersSpoilsNothing(t *testing.T) {
	key := func(n byte) string {
		return base64.RawStdEncoding.EncodeToString([]byte{1, 0x80, 0, 0, 0, 0, 0, 0, n})
	}
	row := func(n byte, name, uid string) string { return fmt.Sprintf(`[%q,"a",%q,%q,"1"]`, key(n), name, uid) }
	good := random(rand.New(rand.NewPCG(5, 1)), 3, 20)
	v := url.Values{"limit": {"10"}, "memberTimeout": {"300ms"}}
	want := must(t, sources(good), v)
	items := func(text string) func(url.Values, http.ResponseWriter) bool {
		return func(v url.Values, w http.ResponseWriter) bool {
			if v.Get("view") == "keys" {
				return onlyRows(row(9, "x", "u"))(v, w)
			}
			return writes(200, "application/json", `{"items":[`+text+`]}`)(v, w)
		}
	}
	for name, c := range map[string]struct {
		answer func(url.Values, http.ResponseWriter) bool
		reason merge.Reason
	}{
		"unsorted":                  {onlyRows(row(1, "x", "u") + "," + row(2, "y", "v")), merge.Faulty},
		"twice":                     {onlyRows(row(1, "x", "u") + "," + row(1, "x", "u")), merge.Faulty},
		"HTML":                      {writes(200, "text/html", "<html>"), merge.Faulty},
		"HTML as JSON":              {writes(200, "application/json", "<html>"), merge.Faulty},
		"a redirect":                {writes(302, "application/json", `{}`), merge.Faulty},
		"500":                       {writes(500, "text/plain", "panic"), merge.Faulty},
		"too many rows":             {onlyRows(strings.Repeat(row(1, "x", "u")+",", 11) + row(1, "x", "u")), merge.Faulty},
		"endless":                   {writes(200, "application/json", `{"rows":["`+strings.Repeat("x", 1<<20)), merge.Faulty},
		"a negative total":          {writes(200, "application/json", `{"totalItems":-1,"metadata":{"resourceVersion":"1"},"rows":[]}`), merge.Faulty},
		"no version":                {writes(200, "application/json", `{"totalItems":1,"rows":[]}`), merge.Faulty},
		"a row of four":             {onlyRows(`["AQ","a","b","c"]`), merge.Faulty},
		"a row without a UID":       {onlyRows(row(1, "x", "")), merge.Faulty},
		"no rows":                   {writes(200, "application/json", `{"items":[]}`), merge.Unsupported},
		"an unknown view":           {writes(400, "application/json", failure+`"code":400,"details":{"causes":[{"field":"view"}]}}`), merge.Unsupported},
		"nothing in time":           {func(url.Values, http.ResponseWriter) bool { <-t.Context().Done(); return true }, merge.Timeout},
		"unreachable":               {writes(503, "application/json", `{"kind":"Status","status":"Failure","reason":"ClusterUnreachable"}`), merge.Unreachable},
		"other objects' UIDs":       {items(`{"metadata":{"name":"other","namespace":"a","uid":"u"}}`), merge.Faulty},
		"metadata twice":            {items(`{` + x + `,"metadata":{"annotations":{"kapis.dev/cluster":"c00"}}}`), merge.Faulty},
		"metadata in capitals":      {items(`{` + x + `,"METADATA":{"annotations":{"kapis.dev/cluster":"c00"}}}`), merge.Faulty},
		"the annotation twice":      {items(`{"metadata":{"name":"x","namespace":"a","uid":"u",` + twice + `}}`), merge.Faulty},
		"annotations that are none": {items(`{"metadata":{"name":"x","namespace":"a","uid":"u","annotations":null}}`), merge.Faulty},
		"items that are no JSON":    {items(`{"metadata":{`), merge.Faulty},
	} {
		t.Run(name, func(t *testing.T) {
			bad := &member{name: "zz", answer: c.answer}
			got := must(t, append(sources(good), bad.source()), v)
			if len(got.Clusters.Missing) != 1 || got.Clusters.Missing[0].Name != "zz" ||
				got.Clusters.Missing[0].Reason != c.reason || got.header.Get(merge.HeaderMissing) != "zz" {
				t.Errorf("missing are %+v, want zz: %s", got.Clusters, c.reason)
			}
			if !slices.Equal(got.ids(), want.ids()) || got.TotalItems != want.TotalItems || got.Clusters.Answered != 3 || got.Clusters.Asked != 4 {
				t.Errorf("%d %v %+v, want %d %v", got.TotalItems, got.ids(), got.Clusters, want.TotalItems, want.ids())
			}
			if got.header.Get("Etag") == want.header.Get("Etag") {
				t.Error("the tag is that of the whole answer")
			}
			if _, err := ask(t, append(sources(good), bad.source()), with(v, "require", "all")); !apierrors.IsServiceUnavailable(err) {
				t.Errorf("with require=all: %v", err)
			}
		})
	}
}

// F19, F35: who may see nothing anywhere is told so, and nothing that a cluster says looks like the end of the caller's login.
func TestNothingOfAClusterLogsAnybodyOut(t *testing.T) {
	good := random(rand.New(rand.NewPCG(6, 1)), 2, 9)
	for _, code := range []int{401, 403, 511} {
		m := &member{name: "zz", answer: writes(code, "application/json", failure+`"reason":"Unauthorized","code":401,"message":"go"}`)}
		_, err := ask(t, []merge.Source{m.source()}, nil)
		if !apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
			t.Errorf("%d: %v", code, err)
		}
		a := must(t, append(sources(good), m.source()), nil)
		if len(a.Clusters.Missing) != 0 || !slices.Equal(a.Clusters.Refused, []string{"zz"}) || a.Clusters.Answered != 2 {
			t.Errorf("%d: %+v", code, a.Clusters)
		}
	}
}

// F21: a cluster that is known to be dead is named, and not asked.
func TestADeadClusterIsNotAsked(t *testing.T) {
	members := random(rand.New(rand.NewPCG(6, 1)), 2, 9)
	dead := members[1].source()
	dead.Missing = &merge.Missing{Name: dead.Name, Reason: merge.Unreachable}
	a := must(t, []merge.Source{members[0].source(), dead}, nil)
	if members[1].asked.Load() != 0 || len(a.Clusters.Missing) != 1 || a.Clusters.Missing[0].Name != dead.Name {
		t.Errorf("asked %d times; %+v", members[1].asked.Load(), a.Clusters)
	}
	if _, err := ask(t, []merge.Source{dead}, nil); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("alone: %v", err)
	}
}

// A bad parameter is refused in words, also where it is the clusters that find fault.
func TestBadParametersAreRefused(t *testing.T) {
	members := random(rand.New(rand.NewPCG(6, 1)), 2, 9)
	for _, m := range members {
		m.answer = writes(400, "application/json", failure+`"code":400,"message":"no such key","details":{"causes":[{"field":"sortBy"}]}}`)
	}
	if _, err := ask(t, sources(members), url.Values{"sortBy": {"x"}}); !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "no such key") {
		t.Errorf("%v", err)
	}
	next := (&query.Cursor{}).String()
	for _, v := range []url.Values{{"limit": {"501"}}, {"memberTimeout": {"1ms"}}, {"memberTimeout": {"1h"}}, {"require": {"some"}}, {"next": {"!"}},
		{"next": {next}}, {"clusterSelector": {"=="}}, {"resourceVersion": {"7"}}, {"view": {"keys"}}, {"limit": {"x"}}} {
		if _, err := ask(t, nil, v); !apierrors.IsBadRequest(err) {
			t.Errorf("%v: %v", v, err)
		}
	}
}

// F34: a position in one list means nothing in another.
func TestANextIsOfOneQuery(t *testing.T) {
	all := sources(random(rand.New(rand.NewPCG(9, 1)), 3, 60))
	next := must(t, all, url.Values{"limit": {"3"}}).Next
	for _, v := range []url.Values{{"sortBy": {"name"}}, {"ascending": {"true"}}, {"labelSelector": {"phase=Running"}}, {"clusters": {"c00"}},
		{"sortBy": {"cluster"}}} {
		if _, err := ask(t, all, with(v, "next", next)); !apierrors.IsBadRequest(err) {
			t.Errorf("%v: %v", v, err)
		}
	}
	must(t, all, url.Values{"next": {next}, "limit": {"9"}, "fields": {".metadata.name"}})
}

// F34: one of the page that is gone meanwhile is left out, and one that moved is found.
func TestChangesBetweenTheRounds(t *testing.T) {
	m := random(rand.New(rand.NewPCG(11, 1)), 1, 60)[0]
	m.older = true // else there is one round
	all := []merge.Source{m.source()}
	before := must(t, all, url.Values{"limit": {"5"}})
	gone := before.Items[2].Metadata.UID
	m.answer = func(v url.Values, _ http.ResponseWriter) bool {
		if v.Get("view") != "keys" {
			i := slices.IndexFunc(m.objects, func(o object) bool { return o.uid == gone })
			if i >= 0 {
				m.objects[i] = object{namespace: "0", name: "new", uid: "new", priority: 4, version: 1}
			}
		}
		return false
	}
	after := must(t, all, url.Values{"limit": {"5"}})
	want := slices.DeleteFunc(before.ids(), func(id string) bool { return strings.HasSuffix(id, " "+gone) })
	if !slices.Equal(after.ids(), want) {
		t.Errorf("%v, want %v", after.ids(), want)
	}
}

// F38: a Table over clusters has the cluster as its first column, and the columns of most clusters; the cells of others are found by name.
func TestATableOverClusters(t *testing.T) {
	members := random(rand.New(rand.NewPCG(12, 1)), 3, 9)
	members[2].name, members[2].columns = "zz", `{"name":"Other"},{"name":"Name"}`
	o, err := merge.ParseOptions(url.Values{"sortBy": {"cluster,name"}, "ascending": {"true"}, "includeObject": {"None"}})
	if err != nil {
		t.Fatal(err)
	}
	o.AsTable()
	a, err := (&merge.List{Path: "/kapi/v1/pods", Header: http.Header{}, Sources: sources(members), Now: time.Now}).Answer(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	w := respond(t, a)
	var table struct {
		ColumnDefinitions []struct{ Name string }
		Rows              []struct {
			Cells  []any
			Object struct {
				Metadata struct{ Annotations map[string]string }
			}
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &table); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	if len(table.ColumnDefinitions) != 2 || table.ColumnDefinitions[0].Name != "Cluster" || table.ColumnDefinitions[1].Name != "Name" ||
		len(table.Rows) != len(members[0].objects)+len(members[1].objects)+len(members[2].objects) {
		t.Errorf("%s", w.Body)
	}
	for _, r := range table.Rows { // a row of the other columns has one cell, which is not the name
		cluster := r.Object.Metadata.Annotations[merge.AnnotationCluster]
		if len(r.Cells) != 2 || r.Cells[0] != cluster || (r.Cells[1] == nil) != (cluster == "zz") {
			t.Errorf("%+v", r)
		}
	}
}

var errGone = errors.New("the link broke")

// A link that breaks is a cluster that is unreachable.
func TestABrokenLink(t *testing.T) {
	m := random(rand.New(rand.NewPCG(11, 1)), 1, 60)[0]
	broken := merge.Source{Name: "zz", Ask: func(context.Context, url.Values, http.Header) (*http.Response, error) { return nil, errGone }}
	a := must(t, []merge.Source{m.source(), broken}, nil)
	if len(a.Clusters.Missing) != 1 || a.Clusters.Missing[0].Reason != merge.Unreachable {
		t.Errorf("%+v", a.Clusters)
	}
}

// F17, F38: whatever reading the answer of one cluster comes to, it ends no other answer, and no server.
func TestAPanicIsOfOneCluster(t *testing.T) {
	m := random(rand.New(rand.NewPCG(11, 1)), 1, 60)[0]
	for _, name := range []string{"aa", "zz"} { // the last one is asked by who asks for the list
		panics := merge.Source{Name: name, Ask: func(context.Context, url.Values, http.Header) (*http.Response, error) { panic("no") }}
		a := must(t, []merge.Source{m.source(), panics}, nil)
		if of := a.Clusters.Missing; len(of) != 1 || of[0].Name != name || of[0].Reason != merge.Faulty || a.TotalItems != len(m.objects) {
			t.Errorf("%+v, %d in all", a.Clusters, a.TotalItems)
		}
	}
}
