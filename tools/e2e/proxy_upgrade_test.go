package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// After a refused upgrade nothing that the client sends reaches anybody: the connection ends.
func TestARefusedUpgradeLeavesNoPipe(t *testing.T) {
	proves(t, "S15", "S16")
	p := newPassage(t)
	idle, err := p.metric(t.Context(), t, "go_goroutines")
	if err != nil {
		t.Fatal(err)
	}
	second, mark := "", unique("smuggled")
	for _, c := range []caller{p.as(admin(t)), {base: p.me.base}} { // with credentials, and without
		second += head(http.MethodGet, "/api/v1/secrets?fieldSelector=metadata.name="+mark, c)
	}
	for _, given := range []struct {
		code     int
		location string
		want     int
	}{
		{400, "", 400}, {403, "", 403}, {404, "", 404}, {500, "", 500}, {503, "", 503},
		{200, "", 502}, {204, "", 502}, {301, "https://evil.example/", 502}, {302, "/api/v1/namespaces/" + p.ns + "/pods/p/exec/", 502}, {307, "//evil.example",
			502}, {304, "", 502},
	} {
		for _, protocol := range []string{"websocket", "SPDY/3.1"} {
			t.Run(fmt.Sprint(given.code, " ", protocol), func(t *testing.T) {
				pod := fmt.Sprintf("%s-%d-%s", mark, given.code, protocol[:4])
				p.answer(t, pod, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Connection", "keep-alive")
					if given.location != "" {
						w.Header().Set("Location", given.location)
					}
					w.WriteHeader(given.code)
					if given.code != 204 && given.code != 304 {
						_, _ = io.WriteString(w, "answered")
					}
				})
				for range 3 {
					conn := dial(t, p.me.base)
					conn.say(head(http.MethodGet, "/api/v1/namespaces/"+p.ns+"/pods/"+pod+"/exec", p.me, "Connection: Upgrade", "Upgrade: "+protocol,
						"Sec-WebSocket-Version: 13",
						"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==") + second)
					r := conn.answer()
					if r.code != given.want || r.header.Get("Location") != "" || r.header.Get("Connection") != "close" || strings.Contains(r.body, "evil") {
						t.Errorf("the client is told %d %v %s", r.code, r.header, clip(r.body))
					}
					conn.ended("after the refusal")
				}
				if saw := p.about(pod); len(saw) != 3 {
					t.Errorf("kube-apiserver saw %d requests of 3", len(saw))
				}
			})
		}
	}
	if saw := p.about("=" + mark); len(saw) > 0 {
		t.Errorf("kube-apiserver saw %v", saw)
	}
	eventually(t, "nothing of it is left", func(ctx context.Context) error {
		now, err := p.metric(ctx, t, "go_goroutines")
		if err == nil && now > idle+30 { // half of the requests that were refused
			err = fmt.Errorf("%v goroutines, of %v before", now, idle)
		}
		return err
	})
}

// What could be a body for one server and the other protocol for the next is refused before anybody else sees it, and the connection ends.
func TestAnUpgradeHasNoBody(t *testing.T) {
	proves(t, "S24")
	p := newPassage(t)
	mark := unique("smuggled")
	body := head(http.MethodGet, "/api/v1/secrets?fieldSelector=metadata.name="+mark, p.as(admin(t)))
	length, chunk := fmt.Sprintf("Content-Length: %d", len(body)), fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	for _, target := range []string{"/api/v1/namespaces/" + p.ns + "/pods/" + mark + "/exec", "/api/v1/namespaces/" + p.ns + "/configmaps?watch=true&mark=" +
		mark,
		"/kapi/v1/namespaces/" + p.ns + "/configmaps?watch=true&mark=" + mark, "/oauth/token", "/version"} {
		for name, sent := range map[string]struct {
			lines []string
			body  string
		}{
			"a body":                        {[]string{length}, body},
			"a chunked body":                {[]string{"Transfer-Encoding: chunked"}, chunk},
			"a length and chunks":           {[]string{length, "Transfer-Encoding: chunked"}, chunk},
			"chunks and a length":           {[]string{"Transfer-Encoding: chunked", "Content-Length: 0"}, "0\r\n\r\n" + body},
			"two lengths":                   {[]string{"Content-Length: 0", length}, body},
			"a length that is no number":    {[]string{"Content-Length: +0"}, body},
			"an unknown encoding":           {[]string{"Transfer-Encoding: xchunked"}, body},
			"two encodings":                 {[]string{"Transfer-Encoding: chunked", "Transfer-Encoding: identity"}, chunk},
			"an encoding with a blank":      {[]string{"Transfer-Encoding : chunked"}, chunk},
			"Expect":                        {[]string{"Expect: 100-continue"}, body},
			"Expect and a body":             {[]string{"Expect: 100-continue", length}, body},
			"an expectation nobody has":     {[]string{"Expect: 200-ok"}, body},
			"Upgrade among other options":   {[]string{"Connection: keep-alive, upgrade", length}, body},
			"a header that is folded":       {[]string{"X-Fold: a\r\n Transfer-Encoding: chunked", length}, body},
			"lines that end with a newline": {[]string{"X-A: b\nContent-Length: 5"}, "12345"},
		} {
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				conn := dial(t, p.me.base)
				conn.say(head(method, target, p.me, append([]string{"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
					"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="}, sent.lines...)...) + sent.body)
				r := conn.answer()
				if r.code/100 == 1 || r.code != http.StatusBadRequest && r.code != http.StatusExpectationFailed && r.code != http.StatusNotImplemented ||
					r.header.Get("Connection") != "close" {
					t.Errorf("%s %s with %s: %d %v %s", method, target, name, r.code, r.header, clip(r.body))
				}
				conn.ended(name)
			}
		}
	}
	if saw := p.about(mark); len(saw) > 0 {
		t.Errorf("kube-apiserver saw %v", saw)
	}
}

// A request whose length is told in two ways is one request, of this server's reading, wherever it goes on to; and what follows it is read
// with no credentials but its own.
func TestOneRequestIsOneRequestAtKubeAPIServer(t *testing.T) {
	proves(t, "S24")
	p := newPassage(t)
	mark := unique("smuggled")
	inner := "GET /api/v1/secrets?fieldSelector=metadata.name=" + mark + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
	object := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"` + p.ns + `"}}`
	chunk := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(object), object)
	for name, sent := range map[string]struct {
		lines []string
		body  string
	}{
		"a length and chunks": {[]string{fmt.Sprintf("Content-Length: %d", len(chunk)+len(inner)), "Transfer-Encoding: chunked"}, chunk + inner},
		"two lengths":         {[]string{"Content-Length: 0", fmt.Sprintf("Content-Length: %d", len(inner))}, inner},
		"no length":           {nil, inner},
		"an encoding twice":   {[]string{"Transfer-Encoding: chunked, chunked"}, chunk + inner},
		"a chunk too short":   {[]string{"Transfer-Encoding: chunked"}, "5\r\n" + object + "\r\n0\r\n\r\n" + inner},
	} {
		conn := dial(t, p.me.base)
		conn.say(head(http.MethodPost, "/api/v1/namespaces/"+p.ns+"/configmaps?dryRun=All", p.me, append(sent.lines, "Content-Type: application/json")...) +
			sent.body)
		first := conn.answer()
		if name == "a length and chunks" && first.header.Get("Connection") != "close" { // RFC 9112, 6.1
			t.Errorf("%s: the connection goes on after %d", name, first.code)
		}
		rest, _ := io.ReadAll(io.LimitReader(conn.r, 64<<10))
		if strings.Contains(string(rest), `"SecretList"`) || strings.Contains(string(rest), "HTTP/1.1 200") {
			t.Errorf("%s: what follows is answered with %s", name, clip(string(rest)))
		}
	}
	if saw := p.about(mark); len(saw) > 0 {
		t.Errorf("kube-apiserver saw %v", saw)
	}
}
