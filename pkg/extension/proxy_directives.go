package extension

import (
	"fmt"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
)

// Bounds, in bytes.
const (
	// maxDirective bounds one entry of a list of directives, and maxRegexp a regular expression. RE2 takes time in proportion to its input,
	// whatever it is.
	maxDirective = 4 << 10
	maxRegexp    = 1024
	// maxPath and maxQuery bound what a backend is asked for, after each directive: what repeats its input would double with each one.
	maxPath  = 16 << 10
	maxQuery = 64 << 10
	// maxReplaced bounds what one regular expression may make of a path, before it is known what that is.
	maxReplaced = 1 << 20
	// maxHeaders bounds the values that headerUp sets in one request.
	maxHeaders = 64 << 10
)

// Directives are compiled v1alpha1.Directives.
type Directives struct {
	method                   string
	stripPrefix, stripSuffix string
	up, down                 []headerEdit
	rewrites                 []rewrite
	replaces                 [][2]string
	regexps                  []pathRegexp

	// AuthProxy, RejectRedirects and MapLinks are those of the object.
	AuthProxy, RejectRedirects, MapLinks bool
}

// headerEdit changes one header: it removes those of a name, or of a prefix, adds a value or sets it.
type headerEdit struct {
	name           string
	remove, prefix bool
	add            bool
	value          string
}

type rewrite struct {
	matches func(path string) bool
	path    *string
	query   *string
}

type pathRegexp struct {
	find    *regexp.Regexp
	replace string
}

// Compile compiles directives. Its error names the one that is invalid.
func Compile(in *v1alpha1.Directives) (*Directives, error) {
	d := &Directives{
		stripPrefix: in.StripPathPrefix, stripSuffix: in.StripPathSuffix,
		AuthProxy: in.AuthProxy, RejectRedirects: in.RejectForwardingRedirects, MapLinks: in.WrapTransport,
	}
	if m := in.Method; m != "" {
		if d.method = strings.ToUpper(m); !methods[d.method] {
			return nil, fmt.Errorf("method: %.40q is no method that a request may have", m)
		}
	}
	var err error
	for name, list := range map[string][]string{"headerUp": in.HeaderUp, "headerDown": in.HeaderDown, "rewrite": in.Rewrite,
		"replace": in.Replace, "pathRegexp": in.PathRegexp} {
		for i, text := range list {
			if len(text) > maxDirective {
				return nil, fmt.Errorf("%s[%d]: it has more than %d bytes", name, i, maxDirective)
			}
		}
	}
	for i, text := range in.HeaderUp {
		if d.up, err = appendHeaderEdit(d.up, text, true); err != nil {
			return nil, fmt.Errorf("headerUp[%d]: %w", i, err)
		}
	}
	for i, text := range in.HeaderDown {
		if d.down, err = appendHeaderEdit(d.down, text, false); err != nil {
			return nil, fmt.Errorf("headerDown[%d]: %w", i, err)
		}
	}
	for i, text := range in.Rewrite {
		r, err := compileRewrite(text)
		if err != nil {
			return nil, fmt.Errorf("rewrite[%d]: %w", i, err)
		}
		d.rewrites = append(d.rewrites, r)
	}
	for i, text := range in.Replace {
		old, with, ok := two(text)
		if !ok {
			return nil, fmt.Errorf("replace[%d]: %.100q is not a text and what replaces it, with a blank between them", i, text)
		}
		d.replaces = append(d.replaces, [2]string{old, with})
	}
	for i, text := range in.PathRegexp {
		r, err := compileRegexp(text)
		if err != nil {
			return nil, fmt.Errorf("pathRegexp[%d]: %w", i, err)
		}
		d.regexps = append(d.regexps, r)
	}
	return d, nil
}

// methods are the methods that a directive may set.
var methods = map[string]bool{
	http.MethodGet: true, http.MethodHead: true, http.MethodPost: true, http.MethodPut: true, http.MethodPatch: true,
	http.MethodDelete: true, http.MethodOptions: true,
}

// two splits a directive into its first word and the rest.
func two(text string) (first, second string, ok bool) {
	first, second, ok = strings.Cut(strings.TrimSpace(text), " ")
	return first, strings.TrimSpace(second), first != "" && ok
}

// reserved reports whether a header belongs to the connection, or states the caller's identity: directives can't change it.
func reserved(name string, up bool) bool {
	for _, prefix := range []string{"X-Remote-", "X-Forwarded-", "Impersonate-", "X-Kubesphere-", "Sec-Websocket-", "Proxy-"} {
		if up && strings.HasPrefix(name, prefix) {
			return true
		}
	}
	switch name {
	case "Host", "Connection", "Upgrade", "Transfer-Encoding", "Content-Length", "Te", "Trailer", "Keep-Alive", "Expect", "Via":
		return true
	case "Forwarded", "X-Real-Ip":
		return up
	}
	return false
}

func appendHeaderEdit(edits []headerEdit, text string, up bool) ([]headerEdit, error) {
	text = strings.TrimSpace(text)
	e := headerEdit{}
	if rest, is := strings.CutPrefix(text, "-"); is {
		e.remove = true
		e.name, e.prefix = strings.CutSuffix(rest, "*")
	} else {
		text, e.add = strings.CutPrefix(text, "+")
		name, value, ok := two(text)
		if !ok {
			return nil, fmt.Errorf("%.100q is none of \"-Name\", \"-Prefix*\", \"+Name value\" and \"Name value\"", text)
		}
		e.name = name
		if e.value = value; len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
			e.value = value[1 : len(value)-1]
		}
		if !httpguts.ValidHeaderFieldValue(e.value) {
			return nil, fmt.Errorf("the value of %.100q has a character that no header may have", e.name)
		}
		if err := checkPlaceholders(e.value, up); err != nil {
			return nil, err
		}
	}
	if !httpguts.ValidHeaderFieldName(e.name) {
		return nil, fmt.Errorf("%.100q is not the name of a header", e.name)
	}
	e.name = http.CanonicalHeaderKey(e.name)
	if !e.remove && reserved(e.name, up) {
		return nil, fmt.Errorf("the header %s is this server's to set", e.name)
	}
	return append(edits, e), nil
}

// placeholder stands for a property of the caller or the request in a directive.
var placeholder = regexp.MustCompile(`\{[^{}]*\}`)

const (
	placeholderName, placeholderEmail, placeholderGroups = "{user.name}", "{user.email}", "{user.groups}"
	placeholderPath, placeholderQuery                    = "{path}", "{query}"
	placeholderURIPath, placeholderURIQuery              = "{http.request.uri.path}", "{http.request.uri.query}"
)

func checkPlaceholders(value string, up bool) error {
	for _, p := range placeholder.FindAllString(value, -1) {
		switch p {
		case placeholderName, placeholderEmail, placeholderGroups:
			if up {
				continue
			}
		}
		return fmt.Errorf("%.100q is no placeholder here: headerUp has {user.name}, {user.email} and {user.groups}", p)
	}
	return nil
}

func compileRewrite(text string) (r rewrite, err error) {
	pattern, to, ok := two(text)
	if !ok || to == "" {
		return r, fmt.Errorf("%.100q is not a pattern of paths and a target, with a blank between them", text)
	}
	if r.matches, err = globOf(pattern); err != nil {
		return r, err
	}
	to, _, _ = strings.Cut(to, "#")
	at, query, hasQuery := strings.Cut(to, "?")
	for _, p := range placeholder.FindAllString(to, -1) {
		switch p {
		case placeholderPath, placeholderQuery, placeholderURIPath, placeholderURIQuery:
		default:
			return r, fmt.Errorf("%.100q is no placeholder here: rewrite has {path} and {query}", p)
		}
	}
	if hasQuery {
		r.query = &query
	}
	if at != "" {
		if at[0] != '/' && !strings.HasPrefix(at, placeholderPath) && !strings.HasPrefix(at, placeholderURIPath) {
			return r, fmt.Errorf("the target %.100q is not a path: it does not begin with a slash", at)
		}
		r.path = &at
	}
	return r, nil
}

// globOf returns a matcher for a pattern, ignoring case: * matches all, /p/* a prefix, *s a suffix, *x* a part, and anything else is a
// glob, whose * ends at a slash.
func globOf(pattern string) (func(string) bool, error) {
	lower := strings.ToLower(pattern)
	prefix, open := strings.CutSuffix(lower, "*")
	suffix, begins := strings.CutPrefix(lower, "*")
	meta := func(s string) bool { return strings.ContainsAny(s, `*?[\`) }
	switch {
	case lower == "*":
		return func(string) bool { return true }, nil
	case open && begins && !meta(strings.Trim(lower, "*")):
		part := strings.Trim(lower, "*")
		return func(p string) bool { return strings.Contains(strings.ToLower(p), part) }, nil
	case open && !meta(prefix):
		return func(p string) bool { return strings.HasPrefix(strings.ToLower(p), prefix) }, nil
	case begins && !meta(suffix):
		return func(p string) bool { return strings.HasSuffix(strings.ToLower(p), suffix) }, nil
	}
	if _, err := path.Match(lower, "/"); err != nil {
		return nil, fmt.Errorf("%.100q is no pattern of paths: %w", pattern, err)
	}
	return func(p string) bool {
		ok, _ := path.Match(lower, strings.ToLower(p)) // it was compiled above
		return ok
	}, nil
}

func compileRegexp(text string) (r pathRegexp, err error) {
	expression, replace, ok := two(text)
	if !ok {
		return r, fmt.Errorf("%.100q is not a regular expression and what replaces it, with a blank between them", text)
	}
	if len(expression) > maxRegexp {
		return r, fmt.Errorf("the regular expression has more than %d bytes", maxRegexp)
	}
	if r.find, err = regexp.Compile(expression); err != nil {
		return r, fmt.Errorf("%.100q is no regular expression (RE2): %w", expression, err)
	}
	r.replace = replace
	return r, nil
}

// Caller is the caller of a request, for placeholders.
type Caller struct {
	Name, Email string
	Groups      []string
}

// Target is what a backend is asked for. Path is decoded, Query as it is in a URL.
type Target struct{ Method, Path, Query string }

// errTarget says that directives have made a path that servers read in different ways.
type errTarget struct{ path string }

func (e *errTarget) Error() string {
	return fmt.Sprintf("the directives make %.200q of the path, which is none: it does not begin with a slash, has dot segments, or would be "+
		"longer than %d bytes, or its query than %d", e.path, maxPath, maxQuery)
}

// Apply returns what the backend is asked for.
func (d *Directives) Apply(t Target) (Target, error) {
	if d.method != "" {
		t.Method = d.method
	}
	if d.stripPrefix != "" {
		if rest, ok := strings.CutPrefix(t.Path, d.stripPrefix); ok {
			t.Path = rooted(rest)
		}
	}
	if d.stripSuffix != "" {
		if rest, ok := strings.CutSuffix(t.Path, d.stripSuffix); ok {
			t.Path = rooted(rest)
		}
	}
	if len(t.Path) > maxPath || len(t.Query) > maxQuery {
		return t, &errTarget{t.Path}
	}
	for _, r := range d.rewrites {
		if !r.matches(t.Path) {
			continue
		}
		next, fits, alsoFits := t, true, true
		if r.path != nil {
			next.Path, fits = expand(*r.path, maxPath, placeholderPath, t.Path, placeholderURIPath, t.Path)
		}
		if r.query != nil {
			escaped := url.QueryEscape(t.Path)
			next.Query, alsoFits = expand(*r.query, maxQuery, placeholderPath, escaped, placeholderURIPath, escaped,
				placeholderQuery, t.Query, placeholderURIQuery, t.Query)
			next.Query = strings.Trim(next.Query, "&")
		}
		if !fits || !alsoFits {
			return t, &errTarget{t.Path}
		}
		t = next
	}
	for _, r := range d.replaces {
		path, fits := expand(t.Path, maxPath, r[0], r[1])
		query, alsoFits := expand(t.Query, maxQuery, r[0], r[1])
		if !fits || !alsoFits {
			return t, &errTarget{t.Path}
		}
		t.Path, t.Query = path, query
	}
	for _, r := range d.regexps {
		path, fits := r.apply(t.Path)
		if !fits {
			return t, &errTarget{t.Path}
		}
		t.Path = path
	}
	if !SoundPath(t.Path) || !soundQuery(t.Query) {
		return t, &errTarget{t.Path}
	}
	return t, nil
}

// expand replaces texts by others, in pairs as for strings.NewReplacer, of which none has another one in it. It reports false, and makes
// nothing, where the result would be longer than most.
func expand(s string, most int, pairs ...string) (string, bool) {
	size, found := len(s), false
	for i := 0; i < len(pairs); i += 2 {
		n := strings.Count(s, pairs[i])
		size, found = size+n*(len(pairs[i+1])-len(pairs[i])), found || n > 0
	}
	switch {
	case size > most:
		return "", false
	case !found:
		return s, true
	}
	return strings.NewReplacer(pairs...).Replace(s), true
}

// apply replaces what the expression matches. It reports false where the path is, or might be, too long then.
func (r *pathRegexp) apply(path string) (string, bool) {
	matched := 0
	all := r.find.FindAllStringIndex(path, -1)
	for _, at := range all {
		matched += at[1] - at[0]
	}
	if len(path)-matched+len(all)*len(r.replace)+matched*strings.Count(r.replace, "$") > maxReplaced {
		return "", false
	}
	path = r.find.ReplaceAllString(path, r.replace)
	return path, len(path) <= maxPath
}

func rooted(p string) string {
	if strings.HasPrefix(p, "/") {
		return p
	}
	return "/" + p
}

// SoundPath reports whether every server and browser reads a path in the same way.
func SoundPath(p string) bool {
	control := func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' }
	if !strings.HasPrefix(p, "/") || strings.HasPrefix(p, "//") || len(p) > maxPath || strings.ContainsFunc(p, control) {
		return false
	}
	return !slices.ContainsFunc(strings.Split(p, "/"), func(s string) bool { return s == "." || s == ".." })
}

func soundQuery(q string) bool {
	return len(q) <= maxQuery && !strings.ContainsFunc(q, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '#' })
}

// Up changes the headers of a request.
func (d *Directives) Up(h http.Header, by Caller) {
	groups, left := strings.Join(by.Groups, ","), maxHeaders
	for _, e := range d.up {
		value, fits := expand(e.value, left, placeholderName, by.Name, placeholderEmail, by.Email, placeholderGroups, groups)
		left -= len(value)
		e.apply(h, value, fits)
	}
}

// Unauthorized reports whether headerUp removes Authorization, or sets another one: the signed token is then left out.
func (d *Directives) Unauthorized() bool {
	return slices.ContainsFunc(d.up, func(e headerEdit) bool {
		const header = "Authorization"
		return e.name == header || e.remove && e.prefix && strings.HasPrefix(header, e.name)
	})
}

// Down changes the headers of an answer.
func (d *Directives) Down(h http.Header) {
	for _, e := range d.down {
		e.apply(h, e.value, true)
	}
}

func (e *headerEdit) apply(h http.Header, value string, fits bool) {
	switch {
	case e.remove && e.prefix:
		for name := range h {
			if strings.HasPrefix(name, e.name) {
				delete(h, name)
			}
		}
	case e.remove:
		delete(h, e.name)
	case !fits || !httpguts.ValidHeaderFieldValue(value) || strings.TrimSpace(value) != value:
		// what a user is called would not arrive as it is
		delete(h, e.name)
	case e.add:
		h[e.name] = append(h[e.name], value)
	default:
		h[e.name] = []string{value}
	}
}

// Restore returns the path at this server of a path at the backend: what stripPathPrefix has removed is added again.
func (d *Directives) Restore(path string) string {
	if d.stripPrefix == "" {
		return path
	}
	return strings.TrimSuffix(d.stripPrefix, "/") + rooted(path)
}
