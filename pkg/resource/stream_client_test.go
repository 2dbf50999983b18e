package resource

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// event is a watch event, or a Status.
type event struct {
	Type   string
	Object struct {
		Kind, APIVersion, Message string
		Code                      int
		Metadata                  metav1.ObjectMeta
	}
	raw string
}

func (e event) key() string { return e.Object.Metadata.Namespace + "/" + e.Object.Metadata.Name }

// String returns what tests compare: the type and the name.
func (e event) String() string {
	if e.Type == "ERROR" {
		return "ERROR " + strconv.Itoa(e.Object.Code)
	}
	return e.Type + " " + e.Object.Metadata.Name
}

// client reads one stream.
type client struct {
	t     testing.TB
	res   *http.Response
	lines *bufio.Scanner
	leave context.CancelFunc
}

// get opens a stream. A failing test ends after a while.
func get(t testing.TB, url string, header ...string) *client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range header {
		k, v, _ := strings.Cut(h, ": ")
		req.Header.Set(k, v)
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	leave := func() { cancel(); _ = res.Body.Close() }
	t.Cleanup(leave)
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 8<<20)
	return &client{t, res, lines, leave}
}

// line returns the next line, and whether there is one.
func (c *client) line() (string, bool) {
	c.t.Helper()
	if !c.lines.Scan() {
		if err := c.lines.Err(); err != nil {
			c.t.Fatalf("the end is not a clean one: %v", err)
		}
		return "", false
	}
	return c.lines.Text(), true
}

// next returns the next event, and false at the end.
func (c *client) next() (event, bool) {
	c.t.Helper()
	text, ok := c.line()
	if !ok {
		return event{}, false
	}
	e := event{raw: text}
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		c.t.Fatalf("%s: %v", text, err)
	}
	return e, true
}

// expect reads events, bookmarks left out, and compares them.
func (c *client) expect(want ...string) []event {
	c.t.Helper()
	var got []event
	for len(got) < len(want) {
		e, ok := c.next()
		if !ok {
			c.t.Fatalf("it ends after %v, want %q", got, want)
		}
		if e.Type == "BOOKMARK" {
			continue
		}
		if got = append(got, e); e.String() != want[len(got)-1] {
			c.t.Fatalf("got %v, want %q", got, want)
		}
	}
	return got
}

// quiet reads bookmarks up to one of a version, and fails for anything else.
func (c *client) quiet(version int) {
	c.t.Helper()
	for {
		e, ok := c.next()
		if !ok || e.Type != "BOOKMARK" {
			c.t.Fatalf("instead of a bookmark: %v %s", ok, e.raw)
		}
		if n, err := strconv.Atoi(e.Object.Metadata.ResourceVersion); err == nil && n >= version {
			return
		}
	}
}

// ends reads the end.
func (c *client) ends() {
	c.t.Helper()
	for {
		e, ok := c.next()
		if !ok {
			return
		}
		if e.Type != "BOOKMARK" {
			c.t.Fatalf("it goes on with %s", e.raw)
		}
	}
}
