package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
)

// authority is who vouches for the product's certificate.
func authority(t *testing.T) (file string, text []byte, pool *x509.CertPool) {
	t.Helper()
	file = filepath.Join(product.Dir, "tls-ca.crt")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		t.Fatal("no certificate in " + file)
	}
	return file, text, pool
}

// person is somebody with a browser without scripts: he follows links and redirects, keeps cookies, and fills forms in.
type person struct {
	*http.Client
	t    *testing.T
	page *page
}

// page is what the browser shows.
type page struct {
	code    int
	at      *url.URL
	text    string
	heading string
	// action and fields are those of the first form that is shown.
	action string
	fields url.Values
}

func newPerson(t *testing.T) *person {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _, pool := authority(t)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, IdleConnTimeout: time.Minute}
	t.Cleanup(transport.CloseIdleConnections)
	return &person{Client: &http.Client{Jar: jar, Transport: transport}, t: t}
}

func (p *person) visit(address string) *page {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, address, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	return p.show(req)
}

// submit sends the form of the page that is shown, with some fields filled in.
func (p *person) submit(filled ...string) *page {
	p.t.Helper()
	to, err := p.page.at.Parse(p.page.action)
	if err != nil || p.page.fields == nil {
		p.t.Fatalf("no form on %s: %v\n%s", p.page.at, err, clip(p.page.text))
	}
	fields := p.page.fields
	for _, f := range filled {
		name, value, _ := strings.Cut(f, "=")
		fields.Set(name, value)
	}
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, to.String(), strings.NewReader(fields.Encode()))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Origin", to.Scheme+"://"+to.Host)
	return p.show(req)
}

func (p *person) show(req *http.Request) *page {
	p.t.Helper()
	resp, err := p.Do(req)
	if err != nil {
		p.t.Fatalf("%s %s: %v", req.Method, req.URL.Path, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	root, err := html.Parse(strings.NewReader(string(body)))
	if err != nil {
		p.t.Fatalf("%s: %v", req.URL.Path, err)
	}
	p.page = &page{code: resp.StatusCode, at: resp.Request.URL, text: string(body)}
	p.page.read(root)
	return p.page
}

func (g *page) read(root *html.Node) {
	var form *html.Node
	for n := range root.Descendants() {
		switch {
		case n.Type != html.ElementNode:
		case n.Data == "h1" && n.FirstChild != nil:
			g.heading = n.FirstChild.Data
		case n.Data == "form" && form == nil && !has(n, "hidden"):
			form, g.action, g.fields = n, attribute(n, "action"), url.Values{}
		case n.Data == "input" && form != nil && inside(n, form):
			g.fields.Set(attribute(n, "name"), attribute(n, "value"))
		}
	}
}

func inside(n, form *html.Node) bool {
	for ; n != nil; n = n.Parent {
		if n == form {
			return true
		}
	}
	return false
}

func has(n *html.Node, name string) bool {
	for _, a := range n.Attr {
		if a.Key == name {
			return true
		}
	}
	return false
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// sees fails the test unless a text is on the page.
func (p *person) sees(text string) {
	p.t.Helper()
	if !strings.Contains(p.page.text, text) {
		p.t.Fatalf("%q is not on %s (%d %s)\n%s", text, p.page.at.Path, p.page.code, p.page.heading, clip(p.page.text))
	}
}

// lines gives the lines of a program's output as they come.
func lines(ctx context.Context, from io.Reader, to chan<- string) {
	defer close(to)
	buffer := make([]byte, 0, 4096)
	piece := make([]byte, 1024)
	for {
		n, err := from.Read(piece)
		buffer = append(buffer, piece[:n]...)
		for {
			line, rest, found := strings.Cut(string(buffer), "\n")
			if !found {
				break
			}
			buffer = []byte(rest)
			select {
			case to <- line:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// address waits for the line that is an address.
func address(t *testing.T, from <-chan string) string {
	t.Helper()
	var seen []string
	for line := range from {
		seen = append(seen, line)
		if a := strings.TrimSpace(line); strings.HasPrefix(a, "https://") {
			return a
		}
	}
	t.Fatal(fmt.Sprint("no address was shown: ", seen))
	return ""
}
