package fleetlist

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// counting answers as a cluster with seven objects of each kind, but of Secrets, which it refuses, and of widgets, which it does not have.
type counting struct {
	mu    sync.Mutex
	asked map[string]url.Values
}

func (c *counting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := r.URL.Query()
	c.mu.Lock()
	if c.asked == nil {
		c.asked = map[string]url.Values{}
	}
	c.asked[r.URL.Path] = v
	c.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	refuse := func(code int) {
		w.WriteHeader(code)
		_, _ = fmt.Fprintf(w, `{"kind":"Status","code":%d,"message":"no"}`, code)
	}
	switch {
	case strings.HasSuffix(r.URL.Path, "secrets"):
		refuse(http.StatusForbidden)
		return
	case strings.HasSuffix(r.URL.Path, "widgets"):
		refuse(http.StatusNotFound)
		return
	}
	limit, _ := strconv.Atoi(v.Get("limit"))
	rows, items := [][]string{}, []json.RawMessage{}
	for i := range 7 {
		key := fmt.Sprintf("\x03o-%d\x00\x01", 9-i)
		if len(rows) == limit || v.Get("cursor") != "" && v.Get("view") == "keys" && i < 5 {
			continue
		}
		uid := strconv.Itoa(i)
		rows = append(rows, []string{base64.RawStdEncoding.EncodeToString([]byte(key)), "n", "o-" + uid, uid, "3"})
		items = append(items, json.RawMessage(`{"metadata":{"name":"o-`+uid+`","namespace":"n","uid":"`+uid+`","resourceVersion":"3"}}`))
	}
	out := map[string]any{"totalItems": 7, "start": 7 - len(rows), "metadata": map[string]string{"resourceVersion": "9"}, "items": items}
	if v.Get("view") == "keys" {
		out["rows"] = rows
		if v.Get("cursor") == "" {
			out["start"] = 0
		}
	}
	_ = json.NewEncoder(w).Encode(out)
}

// searched is an answer to a search.
type searched struct {
	Results []struct {
		Kind, List, Next string
		TotalItems       int
		Items            []struct {
			Metadata struct {
				Name        string
				Annotations map[string]string
			}
		}
		Clusters struct{ Asked, Answered int }
		Error    struct {
			Code   int
			Reason string
		}
	}
	Clusters struct {
		Missing []struct{ Name, Reason string }
		Refused []string
	}
}

// F35, F36: a search shows of each kind what a list of it over all clusters would: the first objects, the total, the gaps and where the list
// goes on; a kind that a cluster refuses or has not spoils no other, and a cluster that the caller may not enter is as one that there is not.
func TestASearchIsThePagesOfItsLists(t *testing.T) {
	c := &counting{}
	h := newLists(t, c)
	const v = "/fleet/search?q=web&clusters=host,m1,m2,nowhere&namespace=n&kinds=pods,apps/v1/deployments,v1/secrets,example.com/v1/widgets"
	w := askAs(t, h, http.MethodGet, v, "m1")
	var got searched
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK || w.Header().Get("X-Kapis-Clusters-Missing") != "m1" {
		t.Fatalf("%d %v %s %v", w.Code, w.Header(), w.Body, err)
	}
	for i, want := range []struct {
		path string
		hits int
		code int
	}{{"/kapis/resources.kubesphere.io/v1alpha3/pods", 5, 0}, {"/kapis/apps/v1/deployments", 5, 0}, {"/kapi/v1/secrets", 0, 503},
		{"/kapis/example.com/v1/widgets", 0, 0}} {
		r := got.Results[i]
		if !strings.HasPrefix(r.List, "/fleet"+want.path+"?") || len(r.Items) != want.hits || r.Error.Code != want.code ||
			want.hits > 0 && (r.TotalItems != 7 || r.Next == "" || r.Items[0].Metadata.Annotations["kapis.dev/cluster"] != "host") {
			t.Errorf("%+v", r)
		}
		if asked := c.asked[want.path]; asked.Get("q") != "web" || asked.Get("namespace") != "n" || asked.Has("kinds") || asked.Has("clusters") {
			t.Errorf("%s was asked for %v", want.path, asked)
		}
	}
	if fmt.Sprint(got.Clusters) != "{[{m1 Unreachable}] [m2 nowhere]}" {
		t.Errorf("%+v", got.Clusters)
	}
	if fields := c.asked["/kapis/apps/v1/deployments"].Get("fields"); !strings.Contains(fields, ".metadata.labels") || strings.Contains(fields, "spec") {
		t.Errorf("the fields are %s", fields)
	}
	// The list of a kind goes on where the search ended.
	pods := got.Results[0]
	w = askAs(t, h, http.MethodGet, pods.List+"&next="+pods.Next, "m1")
	var rest struct {
		Items []json.RawMessage
		Next  string
	}
	if err := json.Unmarshal(w.Body.Bytes(), &rest); err != nil || w.Code != http.StatusOK || len(rest.Items) != 2 || rest.Next != "" {
		t.Errorf("%d %s %v", w.Code, w.Body, err)
	}
	// A stranger gets the same for a cluster that there is as for one that there is not.
	one := askAs(t, h, http.MethodGet, "/fleet/search?q=web&kinds=pods&clusters=m1").Body.String()
	other := askAs(t, h, http.MethodGet, "/fleet/search?q=web&kinds=pods&clusters=m9").Body.String()
	if one != other || !strings.Contains(one, `"code":403`) {
		t.Errorf("%s\n%s", one, other)
	}
}

// F18: a search asks for lists alone, whatever the names of its kinds are.
func TestASearchOfWhatIsNoKind(t *testing.T) {
	c := &counting{}
	h := newLists(t, c)
	for _, v := range []string{"", "q=+", "q=x&kinds=,", "q=x&kinds=../../api/v1/secrets", "q=x&kinds=v1/pods/p/log", "q=x&kinds=a%2Fb%2Fc%2Fd",
		"q=x&kinds=v1/pods%3Fwatch=1",
		"q=x&kinds=clusters/m1/pods", "q=x&kinds=Pods", "q=x&kinds=v1/..", "q=x&kinds=pods%00", "q=x&limit=6", "q=x&limit=-1", "q=x&memberTimeout=1h",
		"q=x&kinds=a,b,c,d,e,f,g,h,i,j,k", "q=x&sortBy=" + strings.Repeat("a,", 20)} {
		if w := askAs(t, h, http.MethodGet, "/fleet/search?"+v, "m1"); w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", v, w.Code, w.Body)
		}
	}
	if w := askAs(t, h, http.MethodPost, "/fleet/search?q=x", "m1"); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("a write: %d", w.Code)
	}
	if w := askAs(t, h, http.MethodGet, "/fleet/search/x?q=x", "m1"); w.Code != http.StatusNotFound {
		t.Errorf("below it: %d", w.Code)
	}
	if len(c.asked) > 0 {
		t.Errorf("asked was %v", c.asked)
	}
}

// F21, F39: a search counts as the lists that it makes at once, and a cluster that does not answer costs it its time once.
func TestASearchHasABound(t *testing.T) {
	a := &asking{hold: make(chan struct{})}
	h := newLists(t, a)
	if w := askAs(t, h, http.MethodGet, "/fleet/search?q=x&memberTimeout=50ms"); w.Code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	a.mu.Lock()
	if n := len(a.paths); n > kindsAtOnce {
		t.Errorf("a cluster that is silent was asked for %d kinds: %v", n, a.paths)
	}
	a.mu.Unlock()
	var wait sync.WaitGroup
	codes := make(chan int, 3)
	for range 3 {
		wait.Go(func() { codes <- askAs(t, h, http.MethodGet, "/fleet/search?q=x&memberTimeout=10s").Code })
	}
	if code := <-codes; code != http.StatusTooManyRequests {
		t.Errorf("a third search at once is %d", code)
	}
	close(a.hold)
	wait.Wait()
}

// F17, F38: a cluster that sends more than all that a search may find is named, and what the others have is found.
func TestAClusterThatSendsMuchTakesNoSearchFromOthers(t *testing.T) {
	w := newFleetWorld(t, "m1", "m2")
	w.all["m1"].serves = http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(out, `{"totalItems":1,"start":0,"metadata":{"resourceVersion":"7"},"rows":[["%s","","a","u-m1","7"]],`+
			`"items":[{"metadata":{"name":"a","uid":"u-m1","resourceVersion":"7"},"data":"%s"}]}`,
			base64.RawStdEncoding.EncodeToString([]byte("\x03a\x00\x01")), strings.Repeat("x", mostFoundBytes+1))
	})
	out := httptest.NewRecorder()
	w.send(t, out, "ann", "/fleet/search?q=x&kinds=v1/nodes&sortBy=name&ascending=true&memberTimeout=10s")
	var got searched
	if err := json.Unmarshal(out.Body.Bytes(), &got); err != nil || out.Code != http.StatusOK {
		t.Fatalf("%d %.300s %v", out.Code, out.Body, err)
	}
	if fmt.Sprint(got.Clusters) != "{[{m1 Faulty}] []}" || len(got.Results[0].Items) != 2 {
		t.Errorf("%+v, %+v", got.Clusters, got.Results[0].Items)
	}
	out = httptest.NewRecorder() // where nobody else is asked, what to do is said
	w.send(t, out, "ann", "/fleet/search?q=x&kinds=v1/nodes&clusters=m1&sortBy=name&ascending=true&memberTimeout=10s")
	if out.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %.300s", out.Code, out.Body)
	}
}
