package identity

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// browser is a person's browser: it keeps cookies, follows redirections inside the product, and stops where one leads elsewhere.
type browser struct {
	jar http.CookieJar
	// via is the base address of the replica that answers, as behind a load balancer; "" for the product's own.
	via string
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{jar: jar}
}

// page is what the browser shows, or where it was sent to.
type page struct {
	answer
	address *url.URL
	doc     *html.Node
	// to is the address outside the product that the browser was sent to; nil where it stays.
	to *url.URL
	// hops are the answers that led here, in their order; the last is the page itself.
	hops []answer
}

// open visits an address: one of the product's, or a path of it. Further headers are "Name: value".
func (b *browser) open(t *testing.T, address string, headers ...string) *page {
	t.Helper()
	return b.visit(t, http.MethodGet, address, "", append([]string{"Sec-Fetch-Site: none"}, headers...))
}

// post sends a form that is on no page of ours.
func (b *browser) post(t *testing.T, address string, form url.Values, headers ...string) *page {
	t.Helper()
	return b.visit(t, http.MethodPost, address, form.Encode(), headers)
}

func (b *browser) visit(t *testing.T, method, address, body string, headers []string) *page {
	t.Helper()
	at, err := url.Parse(issuer)
	if err == nil {
		at, err = at.Parse(address)
	}
	if err != nil {
		t.Fatal(err)
	}
	var hops []answer
	for range 20 {
		a := b.fetch(t, method, at, body, headers)
		hops = append(hops, a)
		location := a.header.Get("Location")
		if a.status < 300 || a.status > 399 || location == "" {
			return newPage(t, a, at, hops)
		}
		next, err := at.Parse(location)
		if err != nil {
			t.Fatalf("sent to %q: %v", location, err)
		}
		if next.Scheme+"://"+next.Host != issuer {
			p := newPage(t, a, at, hops)
			p.to = next
			return p
		}
		if at = next; a.status != http.StatusTemporaryRedirect && a.status != http.StatusPermanentRedirect {
			method, body = http.MethodGet, ""
		}
	}
	t.Fatalf("%s leads round and round", address)
	return nil
}

// fetch sends one request, and keeps the cookies of the answer.
func (b *browser) fetch(t *testing.T, method string, at *url.URL, body string, headers []string) answer {
	t.Helper()
	all := []string{"Accept: text/html,application/xhtml+xml", "Accept-Language: en"}
	var cookies []string
	for _, c := range b.jar.Cookies(at) {
		cookies = append(cookies, c.Name+"="+c.Value)
	}
	if len(cookies) > 0 {
		all = append(all, "Cookie: "+strings.Join(cookies, "; "))
	}
	all = append(all, headers...)
	target := at.String()
	if b.via != "" {
		target = b.via + at.RequestURI()
		all = append(all, "Host: "+at.Host)
	}
	var sent any
	if method == http.MethodPost {
		sent = body
	}
	a := call(t, method, target, sent, all...)
	b.jar.SetCookies(at, (&http.Response{Header: a.header}).Cookies())
	return a
}

func newPage(t *testing.T, a answer, at *url.URL, hops []answer) *page {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(a.body))
	if err != nil {
		t.Fatal(err)
	}
	return &page{answer: a, address: at, doc: doc, hops: hops}
}

// form is a form of a page: where it goes, and what it sends unless somebody types something else.
type form struct {
	action string
	fields url.Values
	// buttons are the values of each named button; one of them is sent.
	buttons url.Values
}

func (f *form) has(name, value string) bool {
	return f.fields.Has(name) || slices.Contains(f.buttons[name], value)
}

// forms returns the forms of the page, in their order.
func (p *page) forms() []*form {
	var out []*form
	p.each("form", func(n *html.Node) {
		f := &form{action: attribute(n, "action"), fields: url.Values{}, buttons: url.Values{}}
		for c := range n.Descendants() {
			name, value := attribute(c, "name"), attribute(c, "value")
			switch {
			case c.Type != html.ElementNode || name == "":
			case c.Data == "input" || c.Data == "select":
				f.fields.Set(name, value)
			case c.Data == "button":
				f.buttons.Add(name, value)
			}
		}
		out = append(out, f)
	})
	return out
}

// form returns the first form that has all the fields and buttons of fill.
func (p *page) form(t *testing.T, fill url.Values) *form {
	t.Helper()
	for _, f := range p.forms() {
		if !slices.ContainsFunc(slices.Collect(keys(fill)), func(name string) bool { return !f.has(name, fill.Get(name)) }) {
			return f
		}
	}
	t.Fatalf("no form for %v at %s: %d %s", slices.Collect(keys(fill)), p.address, p.status, clip(p.body))
	return nil
}

func keys(v url.Values) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range v {
			if !yield(k) {
				return
			}
		}
	}
}

// submit fills in a form of the page, as pairs of names and values, and sends it.
func (b *browser) submit(t *testing.T, p *page, pairs ...string) *page {
	t.Helper()
	fill := values(pairs...)
	f := p.form(t, fill)
	for name := range fill {
		f.fields.Set(name, fill.Get(name))
	}
	action, err := p.address.Parse(f.action)
	if err != nil {
		t.Fatal(err)
	}
	// Our pages tell nobody where they are, so browsers say "null" (Fetch, 3.2.5).
	return b.visit(t, http.MethodPost, action.String(), f.fields.Encode(), []string{"Content-Type: " + formType, "Origin: null", "Sec-Fetch-Site: same-origin"})
}

// login fills in the login page.
func (b *browser) login(t *testing.T, p *page, name, password string) *page {
	t.Helper()
	return b.submit(t, p, "username", name, "password", password)
}

// heading is the title that people read.
func (p *page) heading() string {
	var out strings.Builder
	p.each("h1", func(n *html.Node) {
		for c := range n.Descendants() {
			if c.Type == html.TextNode {
				out.WriteString(c.Data)
			}
		}
	})
	return out.String()
}

// shows fails the test unless the page has the status and a heading that begins so.
func (p *page) shows(t *testing.T, status int, heading string) *page {
	t.Helper()
	if p.to != nil {
		t.Fatalf("sent to %s, want the page %q", p.to, heading)
	}
	if p.status != status || !strings.HasPrefix(p.heading(), heading) {
		t.Fatalf("%d %q at %s, want %d %q: %s", p.status, p.heading(), p.address, status, heading, clip(p.body))
	}
	return p
}

// leads fails the test unless the browser was sent to that address, and returns what was added to its query.
func (p *page) leads(t *testing.T, address string) url.Values {
	t.Helper()
	if p.to == nil {
		t.Fatalf("%d %q at %s, want to be sent to %s: %s", p.status, p.heading(), p.address, address, clip(p.body))
	}
	path, _, _ := strings.Cut(p.to.String(), "?")
	if want, _, _ := strings.Cut(address, "?"); path != want {
		t.Fatalf("sent to %s, want %s", p.to, address)
	}
	return p.to.Query()
}

func (p *page) each(element string, f func(*html.Node)) {
	for n := range p.doc.Descendants() {
		if n.Type == html.ElementNode && n.Data == element {
			f(n)
		}
	}
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// values makes a form of pairs of names and values.
func values(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		v.Set(pairs[i], pairs[i+1])
	}
	return v
}

// links are the addresses that the page leads to.
func (p *page) links() []string {
	var out []string
	p.each("a", func(n *html.Node) { out = append(out, attribute(n, "href")) })
	return out
}
