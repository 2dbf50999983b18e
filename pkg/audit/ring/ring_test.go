package ring_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"kapis.dev/ks-apiserver/pkg/audit"
	"kapis.dev/ks-apiserver/pkg/audit/ring"
)

var start = time.Date(2026, 11, 24, 10, 0, 0, 0, time.UTC)

// event returns an event of a minute after the start, on the object of its number.
func event(n int, user string) *audit.Event {
	at := start.Add(time.Duration(n) * time.Minute)
	return &audit.Event{ID: strconv.Itoa(n), Level: auditv1.LevelMetadata, Stage: auditv1.StageResponseComplete, Verb: "get", Username: user,
		Groups: []string{"g-" + user}, Sources: []string{"192.0.2." + strconv.Itoa(n%4)}, Workspace: "w" + strconv.Itoa(n%2), Code: 200 + 203*(n%3/2),
		Object:   auditv1.ObjectReference{Resource: "pods", Namespace: "ns" + strconv.Itoa(n%5), Name: "p" + strconv.Itoa(n), APIVersion: "v1"},
		Received: at, At: at}
}

func everything(*audit.Event) bool { return true }

// O21: the ring takes the memory that it was given, however many events there are, and says since when it has every one.
func TestRingIsBounded(t *testing.T) {
	const limit = 100 << 10
	r := ring.New(limit, start)
	size := 0
	body := make([]byte, limit)
	for n := range 10_000 {
		e := event(n, "bob")
		e.Bodies = &audit.Bodies{Request: body}
		r.Record(e)
		_, size = e.Compact()
	}
	all, since := r.Events()
	if most := limit / size; len(all) > most || len(all) < most/2 {
		t.Errorf("%d events of %d bytes in %d", len(all), size, limit)
	}
	if last := all[len(all)-1]; last.ID != "9999" || last.Bodies != nil {
		t.Errorf("the newest is %+v", last)
	}
	if first := all[0]; !since.Equal(first.At.Add(-time.Minute)) {
		t.Errorf("since %v, the first is of %v", since, first.At)
	}
	r.Record(event(1, strings.Repeat("x", limit)))
	if after, _ := r.Events(); len(after) != len(all) {
		t.Errorf("an event that does not fit leaves %d of %d", len(after), len(all))
	}
}

// O21: the parameters select, order and cut events, and answer them in the keys that pages of release 3 read.
func TestQueriesSelectEvents(t *testing.T) {
	r := ring.New(1<<20, start)
	for n := range 30 {
		user := "alice"
		if n%3 == 0 {
			user = "bob"
		}
		r.Record(event(n, user))
	}
	received := event(99, "bob")
	received.Stage = auditv1.StageRequestReceived
	r.Record(received)
	all, _ := r.Events()
	for text, want := range map[string]int{
		"": 30, "user_filter=BOB": 10, "user_filter=bo": 0, "user_search=Bo": 10, "user_filter=bob,alice": 30, "workspace_filter=w1": 15,
		"workspace_search=w": 30, "objectref_namespace_filter=ns1,ns2": 12, "objectref_namespace_search=NS": 30, "objectref_name_filter=p7": 1,
		"objectref_name_search=p2": 11, "level_filter=Metadata": 30, "level_filter=Request": 0, "verb_filter=get": 30, "verb_filter=list": 0,
		"objectref_resource_filter=pods": 30, "objectref_subresource_filter=exec": 0, "response_code_filter=403": 10, "response_status_filter=Failure": 10,
		"response_status_filter=success": 20, "group_search=g-b": 10, "source_ip_search=192.0.2.3": 7, "start_time=" + seconds(20): 10,
		"end_time=" + seconds(4): 5, "start_time=" + seconds(5) + "&end_time=" + seconds(5): 1, "user_filter=bob&response_code_filter=403": 0,
		"unknown=1": 30,
	} {
		out := answer(t, all, text)
		if out.Query == nil || out.Query.Total != want || len(out.Query.Records) != min(want, 10) {
			t.Errorf("%s: %+v, want %d", text, out.Query, want)
		}
	}
	page := answer(t, all, "from=28&size=5&sort=asc").Query
	if len(page.Records) != 2 {
		t.Fatalf("%d records", len(page.Records))
	}
	var got struct {
		AuditID, Verb, RequestReceivedTimestamp string
		User                                    map[string]any
		ObjectRef                               map[string]string
	}
	if err := json.Unmarshal(page.Records[1], &got); err != nil || got.AuditID != "29" || got.User["Username"] != "alice" ||
		got.User["username"] != "alice" || got.ObjectRef["Name"] != "p29" {
		t.Errorf("%v: %s", err, page.Records[1])
	}
	if out := answer(t, all, "operation=statistics&user_filter=bob"); !reflect.DeepEqual(out, &ring.Answer{Statistics: &ring.Statistics{Resources: 10, Events: 10}}) {
		t.Errorf("%+v", out.Statistics)
	}
	h := answer(t, all, "operation=histogram&interval=10m").Histogram
	want := &ring.Histogram{Total: 30, Buckets: []ring.Bucket{{start.UnixMilli(), 10}, {start.Add(10 * time.Minute).UnixMilli(), 10},
		{start.Add(20 * time.Minute).UnixMilli(), 10}}}
	if !reflect.DeepEqual(h, want) {
		t.Errorf("got %+v, want %+v", h, want)
	}
	if out := answer(t, nil, "operation=histogram"); out.Histogram.Total != 0 || out.Histogram.Buckets == nil {
		t.Errorf("%+v", out.Histogram)
	}
}

func seconds(minute int) string {
	return strconv.FormatInt(start.Add(time.Duration(minute)*time.Minute).Unix(), 10)
}

func answer(t *testing.T, all []*audit.Event, text string) *ring.Answer {
	t.Helper()
	values, err := url.ParseQuery(text)
	if err != nil {
		t.Fatal(err)
	}
	q, err := ring.Parse(values)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	out, err := q.Answer(all, everything)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return out
}

// O21: what can't be read, and what would be answered without a bound, is 400.
func TestBadQueriesAreRefused(t *testing.T) {
	for _, text := range []string{
		"operation=delete", "size=-1", "size=1001", "size=x", "from=-1", "from=99999999999999999999", "sort=up", "start_time=yesterday", "start_time=-1",
		"end_time=1e9", "start_time=20&end_time=10", "interval=0", "interval=1ms", "interval=x", "interval=70000d", "interval=-5m", "response_code_filter=ok",
		"response_code_filter=200,1000", "response_status_filter=maybe", "level_filter=All", "source_ip_search=home",
		"user_filter=" + strings.Repeat("a,", 200),
	} {
		values, err := url.ParseQuery(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ring.Parse(values); apierrors.ReasonForError(err) != "BadRequest" {
			t.Errorf("%s: %v", text, err)
		}
	}
	q, err := ring.Parse(url.Values{"operation": {"histogram"}, "interval": {"1s"}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = q.Answer([]*audit.Event{event(0, "a"), event(1000, "a")}, everything)
	if status, ok := err.(apierrors.APIStatus); !ok || status.Status().Code != http.StatusBadRequest { //nolint:errorlint // it is not wrapped
		t.Errorf("a histogram of 60 000 buckets: %v", err)
	}
}
